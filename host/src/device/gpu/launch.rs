//! Launches of kernels on a GPU.

use cuda_std::{Instance, KernelArgs};
use cust::sys;
use op_spec::launch::LaunchShape;

use super::context::Gpu;
use super::driver::{Current, cu};
use super::kernels::Function;
use crate::contract::{self, KernelFacts};
use crate::error::Result;

/// Dynamic shared memory that every kernel may have without asking.
const SHARED_BYTES_WITHOUT_OPT_IN: u32 = 48 * 1024;

impl Gpu {
    /// The function of `kernel`, after checking the launch contract and with the shared memory that the launch takes
    /// granted. The GPU's context must be current.
    fn function<A: KernelArgs>(
        &self,
        kernel: &Instance<A>,
        shape: &LaunchShape,
    ) -> Result<&'static Function> {
        let function = self.kernels.function(kernel.name())?;
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
            if function.opt_in.get().is_none() {
                let (handle, grant) = (function.handle.0, grant as i32);
                // SAFETY: the function belongs to the current context.
                unsafe { cu!(cuFuncSetAttribute(handle, attribute, grant))? };
                // Two threads may both have asked, for the same.
                function.opt_in.get_or_init(|| ());
            }
        }
        Ok(function)
    }

    /// Loads `kernel` if it is not loaded yet, and checks the launch contract, as [`launch`](Gpu::launch) does.
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
                function.handle.0,
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
