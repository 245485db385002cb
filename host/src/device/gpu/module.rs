//! The kernels on one device: compiled once, looked up by name, launched.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::{OnceLock, PoisonError, RwLock};

use cuda_std::{Instance, KernelArgs};
use cust::sys;
use op_spec::launch::LaunchShape;

use super::Gpu;
use super::driver::{Current, cu};
use super::ptx::Ptx;
use crate::device::contract::{self, KernelFacts};
use crate::error::{DriverError, Error, Result};

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

/// Which of the two, in words.
pub(crate) const ORIGIN: &str = env!("CONVFUSE_PTX_ORIGIN");

/// Dynamic shared memory that every kernel may have without asking.
const SHARED_BYTES_WITHOUT_OPT_IN: u32 = 48 * 1024;

/// A loaded module. Never unloaded: it belongs to a [`Gpu`], which lives to the end of the process.
pub(crate) struct Module {
    pub(crate) arch: &'static str,
    handle: sys::CUmodule,
    functions: RwLock<HashMap<&'static str, &'static Function>>,
}

/// A kernel in a module. Leaked, one per kernel and device, for the reason above.
struct Function {
    handle: sys::CUfunction,
    static_shared_bytes: u32,
    /// Whether shared memory beyond 48 KiB was granted.
    opt_in: OnceLock<Result<(), DriverError>>,
}

// SAFETY: module and function handles may be used from any thread whose current context is theirs; each
// use here comes after `make_current` of the owning GPU. What is mutable beside them is behind locks.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}
// SAFETY: as above.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

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
            handle,
            functions: RwLock::default(),
        })
    }

    /// The kernel called `name`, looked up in the module at its first use only.
    fn function(&self, name: &'static str) -> Result<&'static Function> {
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
                self.handle,
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
            handle,
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

impl Gpu {
    /// The function of `kernel`, after checking the launch contract and with the shared memory that the launch takes
    /// granted. The GPU's context must be current.
    fn function<A: KernelArgs>(
        &self,
        kernel: &Instance<A>,
        shape: &LaunchShape,
    ) -> Result<&'static Function> {
        let function = self.module.function(kernel.name())?;
        let facts = KernelFacts {
            name: kernel.name(),
            max_threads: kernel.bounds().max_threads,
            static_shared_bytes: function.static_shared_bytes,
        };
        contract::check(&facts, &self.limits, shape)?;
        if shape.shared_bytes > SHARED_BYTES_WITHOUT_OPT_IN {
            // Granted once and in full: the grant is a bound, what a launch takes is decided at launch.
            let grant = self.limits.shared_bytes - function.static_shared_bytes;
            let attribute =
                sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function belongs to the current context.
            let opt_in =
                || unsafe { cu!(cuFuncSetAttribute(function.handle, attribute, grant as i32)) };
            function.opt_in.get_or_init(opt_in).clone()?;
        }
        Ok(function)
    }

    /// Looks up `kernel` and checks the launch contract, as [`launch`](Gpu::launch) does. The driver loads a kernel at the
    /// latest when it is looked up.
    pub(crate) fn load<A: KernelArgs>(
        &self,
        _current: &Current,
        kernel: &Instance<A>,
        shape: &LaunchShape,
    ) -> Result<()> {
        self.function(kernel, shape).map(drop)
    }

    /// Checks the launch contract, then launches `kernel` on a stream of this GPU, whose context must be current.
    ///
    /// # Safety
    /// `stream` is a live stream of this GPU, and the caller vouches for the kernel's own requirements.
    pub(crate) unsafe fn launch<A: KernelArgs>(
        &self,
        _current: &Current,
        stream: sys::CUstream,
        kernel: &Instance<A>,
        shape: &LaunchShape,
        arguments: A,
    ) -> Result<()> {
        let function = self.function(kernel, shape)?;
        let [grid_x, grid_y, grid_z] = shape.grid;
        let [block_x, block_y, block_z] = shape.block;
        // SAFETY: the parameter array has one entry per kernel parameter, since it is made from the tuple
        // of the kernel's own parameter types, and the driver copies the values before it returns. The
        // caller vouches for the values.
        arguments.with_params(|parameters| unsafe {
            cu!(cuLaunchKernel(
                function.handle,
                grid_x,
                grid_y,
                grid_z,
                block_x,
                block_y,
                block_z,
                shape.shared_bytes,
                stream,
                parameters.as_mut_ptr(),
                std::ptr::null_mut(),
            ))
        })?;
        Ok(())
    }
}
