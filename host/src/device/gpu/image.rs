//! Modules of one kernel: loaded from machine code, or compiled from PTX.

use std::ffi::{CStr, CString, c_void};

use cust::sys::{self, CUresult};

use super::driver::{Handle, cu};
use crate::error::{DriverError, Error, Result};

/// A loaded module. A module whose kernel was found is never unloaded, since its GPU lives to the end of the
/// process.
pub(super) type Module = Handle<sys::CUmod_st>;

/// The magic bytes of machine code files.
const ELF: &[u8] = b"\x7fELF";

/// The most bytes of the compiler's log in an error.
const LOG_BYTES: usize = 16 * 1024;

/// Whether the driver's error only refuses the image, and does not affect later calls.
fn is_refusal(error: &DriverError) -> bool {
    const REFUSALS: &[CUresult] = &[
        CUresult::CUDA_ERROR_INVALID_IMAGE,
        CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU,
        CUresult::CUDA_ERROR_INVALID_PTX,
        CUresult::CUDA_ERROR_JIT_COMPILER_NOT_FOUND,
        CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
        CUresult::CUDA_ERROR_INVALID_SOURCE,
        CUresult::CUDA_ERROR_FILE_NOT_FOUND,
        CUresult::CUDA_ERROR_NOT_FOUND,
        CUresult::CUDA_ERROR_NOT_SUPPORTED,
        CUresult::CUDA_ERROR_INVALID_VALUE,
    ];
    REFUSALS.iter().any(|&refusal| refusal as u32 == error.code)
}

/// Loads machine code into the current context; `None` if the driver refuses it.
pub(super) fn load(machine_code: &[u8]) -> Result<Option<Module>> {
    if !machine_code.starts_with(ELF) {
        return Ok(None);
    }
    let mut module = std::ptr::null_mut();
    // SAFETY: `module` is a valid place for one handle. The image is a complete file of machine code: from
    // the assembler through this build, or from a driver, perhaps through a file with a checksum.
    let loaded = unsafe { cu!(cuModuleLoadData(&mut module, machine_code.as_ptr().cast())) };
    match loaded {
        Ok(()) => Ok(Some(Handle(module))),
        Err(error) if is_refusal(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Unloads an unused module of the current context.
pub(super) fn unload(module: Module) {
    // SAFETY: the caller has the only handle, and nothing of the module was launched.
    unsafe { sys::cuModuleUnload(module.0) };
}

/// Compiles PTX for the device of the current context. Returns the module, and the machine code if the driver
/// provides it.
pub(super) fn compile(
    kernel: &'static str,
    arch: &'static str,
    ptx: &CStr,
) -> Result<(Module, Option<Vec<u8>>)> {
    match link(kernel, ptx) {
        Ok(machine_code) => {
            if let Some(module) = load(&machine_code)? {
                return Ok((module, Some(machine_code)));
            }
        }
        Err(error) if is_refusal(&error) => {}
        Err(error) => return Err(error.into()),
    }
    // Loading the PTX compiles it too, accepts more than linking may, and gives an error log.
    let module = load_ptx(ptx).map_err(|(cause, log)| Error::Jit {
        kernel,
        module: arch,
        cause,
        log,
    })?;
    Ok((module, None))
}

/// Machine code of PTX, from the driver's linker.
fn link(kernel: &str, ptx: &CStr) -> Result<Vec<u8>, DriverError> {
    /// A linker's state, destroyed when dropped.
    struct Linker(sys::CUlinkState);
    impl Drop for Linker {
        fn drop(&mut self) {
            // SAFETY: the linker was created, and neither it nor its output is used any more.
            unsafe { sys::cuLinkDestroy(self.0) };
        }
    }
    let none = std::ptr::null_mut();
    let mut state = std::ptr::null_mut();
    // SAFETY: no options are passed, and `state` is a valid place for one handle.
    unsafe { cu!(cuLinkCreate_v2(0, none, none.cast(), &mut state))? };
    let linker = Linker(state);
    let name = CString::new(kernel).expect("kernel names are Rust identifiers");
    let text = ptx.to_bytes_with_nul();
    // SAFETY: text and name end with NUL and outlive the call, which reads them; no options are passed.
    unsafe {
        cu!(cuLinkAddData_v2(
            linker.0,
            sys::CUjitInputType::CU_JIT_INPUT_PTX,
            text.as_ptr().cast_mut().cast(),
            text.len(),
            name.as_ptr(),
            0,
            none.cast(),
            none.cast(),
        ))?;
    }
    let (mut start, mut size) = (std::ptr::null_mut::<c_void>(), 0);
    // SAFETY: both are valid places for one value.
    unsafe { cu!(cuLinkComplete(linker.0, &mut start, &mut size))? };
    // SAFETY: the linker owns `size` bytes from `start` on and lives to the end of this function.
    let machine_code = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), size) };
    Ok(machine_code.to_vec())
}

/// Compiles PTX and loads it in one step. An error has the compiler's log.
fn load_ptx(ptx: &CStr) -> Result<Module, (DriverError, String)> {
    let mut log = vec![0u8; LOG_BYTES];
    let mut options = [
        sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
        sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
    ];
    // Values that fit a pointer are passed in the pointer itself.
    let mut values: [*mut c_void; 2] = [
        log.as_mut_ptr().cast(),
        std::ptr::without_provenance_mut(LOG_BYTES),
    ];
    let mut module = std::ptr::null_mut();
    // SAFETY: `ptx` is NUL-terminated; `options` and `values` have the two announced entries; the driver
    // writes at most LOG_BYTES bytes to `log`, which outlives the call.
    let loaded = unsafe {
        cu!(cuModuleLoadDataEx(
            &mut module,
            ptx.as_ptr().cast(),
            options.len() as u32,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        ))
    };
    match loaded {
        Ok(()) => Ok(Handle(module)),
        Err(cause) => {
            let end = log.iter().position(|&byte| byte == 0).unwrap_or(LOG_BYTES);
            Err((cause, String::from_utf8_lossy(&log[..end]).into_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_is_broken_refuses_nothing() {
        let error = |code: CUresult| DriverError {
            call: "cuModuleLoadData",
            code: code as u32,
            name: String::new(),
        };
        assert!(is_refusal(&error(CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU)));
        for broken in [
            CUresult::CUDA_ERROR_OUT_OF_MEMORY,
            CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
            CUresult::CUDA_ERROR_UNKNOWN,
        ] {
            assert!(!is_refusal(&error(broken)), "{broken:?}");
        }
    }

    #[test]
    fn what_is_no_machine_code_does_not_reach_the_driver() {
        assert!(matches!(load(b"not an ELF file"), Ok(None)));
    }
}
