//! Launches of kernels on a GPU.

use std::ffi::c_void;

use cust::sys;
use launch_config::LaunchShape;

use super::context::Gpu;
use super::driver::{check, cu, late_function};
use super::kernels::Function;
use super::stream::GpuStream;
use crate::contract::{self, KernelFacts};
use crate::error::Result;

/// The dynamic shared memory in bytes that every kernel may use without opting in.
const SHARED_BYTES_WITHOUT_OPT_IN: u32 = 48 * 1024;

impl Gpu {
    /// Returns the kernel's function, after checking the launch contract and opting in to its shared memory.
    /// The GPU's context must be current.
    fn function(&self, kernel: KernelFacts, shape: &LaunchShape) -> Result<&'static Function> {
        let function = self.kernels.function(kernel.name)?;
        let facts = KernelFacts {
            static_shared_bytes: function.static_shared_bytes,
            ..kernel
        };
        contract::check(&facts, &self.limits, shape)?;
        if shape.shared_bytes > SHARED_BYTES_WITHOUT_OPT_IN {
            // The opt-in is made once and in full: the attribute is a bound, and each launch sets its own
            // size.
            let grant = self.limits.shared_bytes - function.static_shared_bytes;
            let attribute =
                sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            if function.opt_in.get().is_none() {
                let (handle, grant) = (function.handle.0, grant as i32);
                // SAFETY: the function belongs to the current context.
                unsafe { cu!(cuFuncSetAttribute(handle, attribute, grant))? };
                // Two threads may both set the attribute, to the same value.
                function.opt_in.get_or_init(|| ());
            }
        }
        Ok(function)
    }

    /// Loads a kernel if it is not loaded yet, and checks the launch contract, as [`launch`](Gpu::launch)
    /// does.
    pub(crate) fn load(&self, kernel: KernelFacts, shape: &LaunchShape) -> Result<()> {
        let _current = self.make_current()?;
        self.function(kernel, shape).map(drop)
    }

    /// Checks the launch contract, then launches a kernel on a stream of this GPU.
    ///
    /// # Safety
    /// `stream` is a live stream of this GPU, `parameters` has the address of a value for each of the
    /// kernel's parameters, and the kernel's own requirements hold.
    pub(crate) unsafe fn launch(
        &self,
        stream: &GpuStream,
        kernel: KernelFacts,
        shape: &LaunchShape,
        parameters: &mut [*mut c_void],
    ) -> Result<()> {
        let _current = self.make_current()?;
        let stream = stream.raw()?;
        let function = self.function(kernel, shape)?.handle.0;
        let parameters = parameters.as_mut_ptr();
        // SAFETY: the driver copies the values before it returns. The caller vouches for the rest.
        unsafe {
            match shape.cluster_blocks {
                1 => alone(function, shape, stream, parameters),
                _ => in_clusters(function, shape, stream, parameters),
            }
        }
    }
}

/// Launches without a cluster attribute. A kernel may have a compile-time cluster size.
///
/// # Safety
/// `parameters` has the address of a value for each of the function's parameters. The stream and the function
/// belong to the current context.
unsafe fn alone(
    function: sys::CUfunction,
    shape: &LaunchShape,
    stream: sys::CUstream,
    parameters: *mut *mut c_void,
) -> Result<()> {
    let [grid_x, grid_y, grid_z] = shape.grid;
    let [block_x, block_y, block_z] = shape.block;
    // SAFETY: the caller's promise.
    let launched = unsafe {
        cu!(cuLaunchKernel(
            function,
            grid_x,
            grid_y,
            grid_z,
            block_x,
            block_y,
            block_z,
            shape.shared_bytes,
            stream,
            parameters,
            std::ptr::null_mut(),
        ))
    };
    Ok(launched?)
}

/// `CUlaunchConfig`.
#[repr(C)]
struct LaunchConfig {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    stream: sys::CUstream,
    attributes: *mut LaunchAttribute,
    attribute_count: u32,
}

/// `CUlaunchAttribute`. Its value is a union of 64 bytes; the extents of a cluster are the first three words.
#[repr(C)]
struct LaunchAttribute {
    id: u32,
    padding: u32,
    value: [u32; 16],
}

/// `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`.
const CLUSTER_DIMENSION: u32 = 4;

type LaunchKernelEx = unsafe extern "C" fn(
    *const LaunchConfig,
    sys::CUfunction,
    *mut *mut c_void,
    *mut *mut c_void,
) -> u32;

late_function! {
    /// The driver's function, which drivers with support for clusters have.
    static LAUNCH_KERNEL_EX: LaunchKernelEx = c"cuLaunchKernelEx"
}

/// Launches in clusters of the shape's size.
///
/// # Safety
/// As for [`alone`].
unsafe fn in_clusters(
    function: sys::CUfunction,
    shape: &LaunchShape,
    stream: sys::CUstream,
    parameters: *mut *mut c_void,
) -> Result<()> {
    let mut value = [0; 16];
    value[..3].copy_from_slice(&[shape.cluster_blocks, 1, 1]);
    let mut attribute = LaunchAttribute {
        id: CLUSTER_DIMENSION,
        padding: 0,
        value,
    };
    let config = LaunchConfig {
        grid: shape.grid,
        block: shape.block,
        shared_bytes: shape.shared_bytes,
        stream,
        attributes: &raw mut attribute,
        attribute_count: 1,
    };
    let result = match *LAUNCH_KERNEL_EX {
        // SAFETY: the caller's promise; config and attribute live until the driver has returned.
        Some(launch) => cuda_loader::known(unsafe {
            let extra = std::ptr::null_mut();
            launch(&raw const config, function, parameters, extra)
        }),
        None => sys::CUresult::CUDA_ERROR_NOT_FOUND,
    };
    Ok(check("cuLaunchKernelEx", result)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_lie_as_the_drivers_header_has_them() {
        assert_eq!(size_of::<LaunchAttribute>(), 72);
        assert_eq!(std::mem::offset_of!(LaunchAttribute, value), 8);
        assert_eq!(size_of::<LaunchConfig>(), 56);
        assert_eq!(std::mem::offset_of!(LaunchConfig, stream), 32);
        assert_eq!(std::mem::offset_of!(LaunchConfig, attribute_count), 48);
    }
}
