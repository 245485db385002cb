//! The kernels on one device: compiled once, looked up by name.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::{OnceLock, PoisonError, RwLock};

use cust::sys;

use super::driver::{Handle, cu};
use super::ptx::Ptx;
use crate::error::{Error, Result};

/// What the build script compiled, or the PTX that the repository carries.
pub(crate) const MODULES: &[Ptx] = &[
    Ptx {
        arch: "sm_80",
        compressed: include_bytes!(env!("CONVFUSE_PTX_SM_80")),
    },
    Ptx {
        arch: "sm_90a",
        compressed: include_bytes!(env!("CONVFUSE_PTX_SM_90A")),
    },
];

/// Which of the two, in words: where the PTX of this build comes from.
pub(crate) const ORIGIN: &str = env!("CONVFUSE_PTX_ORIGIN");

/// A loaded module. Never unloaded: it belongs to a [`Gpu`], which lives to the end of the process.
pub(crate) struct Module {
    pub(crate) arch: &'static str,
    handle: Handle<sys::CUmod_st>,
    functions: RwLock<HashMap<&'static str, &'static Function>>,
}

/// A kernel in a module. Leaked, one per kernel and device, for the reason above.
pub(super) struct Function {
    pub(super) handle: Handle<sys::CUfunc_st>,
    pub(super) static_shared_bytes: u32,
    /// Whether shared memory beyond 48 KiB was granted.
    pub(super) opt_in: OnceLock<()>,
}

impl Module {
    /// Compiles `ptx` for the device whose context is current.
    pub(crate) fn load(ptx: &Ptx) -> Result<Module> {
        const LOG_BYTES: usize = 16 * 1024;
        let text = ptx.text();
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
        let mut handle = std::ptr::null_mut();
        // SAFETY: `text` is NUL-terminated; `options` and `values` hold the two entries announced; the
        // driver writes at most LOG_BYTES bytes to `log`, which outlives the call.
        let loaded = unsafe {
            cu!(cuModuleLoadDataEx(
                &mut handle,
                text.as_ptr().cast(),
                options.len() as u32,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            ))
        };
        loaded.map_err(|cause| {
            let end = log.iter().position(|&byte| byte == 0).unwrap_or(LOG_BYTES);
            let log = String::from_utf8_lossy(&log[..end]).into_owned();
            Error::Jit {
                module: ptx.arch,
                cause,
                log,
            }
        })?;
        Ok(Module {
            arch: ptx.arch,
            handle: Handle(handle),
            functions: RwLock::default(),
        })
    }

    /// The kernel called `name`, looked up in the module at its first use only.
    pub(super) fn function(&self, name: &'static str) -> Result<&'static Function> {
        // A panic under either lock leaves the map whole.
        if let Some(&found) = self
            .functions
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
        {
            return Ok(found);
        }
        let symbol = CString::new(name).expect("kernel names are Rust identifiers");
        let mut handle = std::ptr::null_mut();
        // SAFETY: `handle` is a valid place for one handle, `symbol` is NUL-terminated, the module is loaded.
        let looked_up = unsafe {
            cu!(cuModuleGetFunction(
                &mut handle,
                self.handle.0,
                symbol.as_ptr()
            ))
        };
        looked_up.map_err(|error| match error.code {
            code if code == sys::CUresult::CUDA_ERROR_NOT_FOUND as u32 => Error::MissingKernel {
                kernel: name,
                module: self.arch,
            },
            _ => Error::Driver(error),
        })?;
        let mut shared = 0;
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
        // SAFETY: `shared` is a valid place for one integer, `handle` a function of the current context.
        unsafe { cu!(cuFuncGetAttribute(&mut shared, attribute, handle))? };
        let function = Function {
            handle: Handle(handle),
            static_shared_bytes: shared.max(0) as u32,
            opt_in: OnceLock::new(),
        };
        let mut functions = self
            .functions
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        Ok(functions
            .entry(name)
            .or_insert_with(|| Box::leak(Box::new(function))))
    }
}
