//! `cuGetErrorName` and `cuGetErrorString`, which answer without a driver, too: `cust` calls them to
//! print an error and panics if they fail.

use std::ffi::{CStr, c_char, c_void};
use std::mem;
use std::ptr::NonNull;

use cust::sys::CUresult;

use crate::driver::Entry;

type Describe = unsafe extern "C" fn(u32, *mut *const c_char) -> u32;

// The signatures are those that callers of `cust::sys` were compiled against.
const _: [unsafe extern "C" fn(CUresult, *mut *const c_char) -> CUresult; 2] =
    [cust::sys::cuGetErrorName, cust::sys::cuGetErrorString];

// SAFETY: as for the functions in `table`.
#[allow(non_snake_case)]
#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorName(error: CUresult, text: *mut *const c_char) -> CUresult {
    static ENTRY: Entry = Entry::new("cuGetErrorName\0");
    // SAFETY: the caller's duty, `text` points to a pointer, is passed on.
    unsafe { describe(&ENTRY, error, text, own_text(error).0) }
}

// SAFETY: as for the functions in `table`.
#[allow(non_snake_case)]
#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorString(error: CUresult, text: *mut *const c_char) -> CUresult {
    static ENTRY: Entry = Entry::new("cuGetErrorString\0");
    // SAFETY: the caller's duty, `text` points to a pointer, is passed on.
    unsafe { describe(&ENTRY, error, text, own_text(error).1) }
}

/// Asks the driver, and falls back to `own` where it cannot say.
///
/// # Safety
///
/// `text` is valid for writing one pointer.
unsafe fn describe(
    entry: &Entry,
    error: CUresult,
    text: *mut *const c_char,
    own: &'static CStr,
) -> CUresult {
    if let Ok(address) = entry.address() {
        // SAFETY: both functions have had this signature since CUDA 6.0.
        let function = unsafe { mem::transmute::<NonNull<c_void>, Describe>(address) };
        // SAFETY: `text` is valid for writing one pointer.
        if unsafe { function(error as u32, text) } == CUresult::CUDA_SUCCESS as u32 {
            return CUresult::CUDA_SUCCESS;
        }
    }
    // SAFETY: `text` is valid for writing one pointer.
    unsafe { *text = own.as_ptr() };
    CUresult::CUDA_SUCCESS
}

/// Name and description of the codes that this crate itself returns; one pair for all others.
fn own_text(error: CUresult) -> (&'static CStr, &'static CStr) {
    match error {
        CUresult::CUDA_ERROR_SHARED_OBJECT_INIT_FAILED => (
            c"CUDA_ERROR_SHARED_OBJECT_INIT_FAILED",
            c"no CUDA driver is installed on this machine",
        ),
        CUresult::CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND => (
            c"CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND",
            c"the installed CUDA driver is too old to have this function",
        ),
        CUresult::CUDA_SUCCESS => (c"CUDA_SUCCESS", c"no error"),
        _ => (
            c"CUDA_ERROR_UNKNOWN",
            c"an error that the CUDA driver does not describe",
        ),
    }
}
