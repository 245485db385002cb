//! `cuGetErrorName` and `cuGetErrorString`. They also work without a driver, because `cust` calls them to
//! print an error and panics if they fail.

use std::ffi::{CStr, c_char, c_void};
use std::mem;
use std::ptr::NonNull;

use cust::sys::CUresult;

use crate::driver::Entry;

type Describe = unsafe extern "C" fn(u32, *mut *const c_char) -> u32;

// The signatures are the ones against which callers of `cust::sys` were compiled.
const _: [unsafe extern "C" fn(CUresult, *mut *const c_char) -> CUresult; 2] =
    [cust::sys::cuGetErrorName, cust::sys::cuGetErrorString];

// SAFETY: as for the functions in `table`.
#[allow(non_snake_case)]
#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorName(error: CUresult, text: *mut *const c_char) -> CUresult {
    static ENTRY: Entry = Entry::new("cuGetErrorName\0");
    // SAFETY: the caller guarantees that `text` points to a pointer, and this call passes it on.
    unsafe { describe(&ENTRY, error, text, own_text(error).0) }
}

// SAFETY: as for the functions in `table`.
#[allow(non_snake_case)]
#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorString(error: CUresult, text: *mut *const c_char) -> CUresult {
    static ENTRY: Entry = Entry::new("cuGetErrorString\0");
    // SAFETY: the caller guarantees that `text` points to a pointer, and this call passes it on.
    unsafe { describe(&ENTRY, error, text, own_text(error).1) }
}

/// Asks the driver for the text, and falls back to `own` if the driver has none.
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

/// Returns the name and the description of the codes that this crate itself returns; all other codes share
/// one pair.
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
