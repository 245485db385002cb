//! A shared library that stands in for the CUDA driver in `tests/fake_driver.rs`.

use std::ffi::{c_char, c_int, c_uint, c_void};

const SUCCESS: c_uint = 0;
/// An error code of CUDA 12, which the bindings of `cust` lack.
const INVALID_CLUSTER_SIZE: c_uint = 912;

// SAFETY (of each export): the test that loads this library expects these names.

#[unsafe(no_mangle)]
extern "C" fn cuInit(flags: c_uint) -> c_uint {
    if flags == 0 {
        SUCCESS
    } else {
        INVALID_CLUSTER_SIZE
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuDriverGetVersion(version: *mut c_int) -> c_uint {
    // SAFETY: the caller passes a place for one int.
    unsafe { *version = 12080 };
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuEventElapsedTime(
    milliseconds: *mut f32,
    start: *mut c_void,
    end: *mut c_void,
) -> c_uint {
    // SAFETY: the caller passes a place for one float.
    unsafe { *milliseconds = end.addr() as f32 - start.addr() as f32 + 0.25 };
    SUCCESS
}

/// A function of eleven parameters, so that the last ones are passed on the stack.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)]
extern "C" fn cuLaunchKernel(
    _function: *mut c_void,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared_bytes: c_uint,
    _stream: *mut c_void,
    parameters: *mut *mut c_void,
    _extra: *mut *mut c_void,
) -> c_uint {
    let fields = [
        grid_x,
        grid_y,
        grid_z,
        block_x,
        block_y,
        block_z,
        shared_bytes,
    ];
    // SAFETY: the test passes seven parameters, each the address of a u32.
    let matches = (0..7).all(|i| unsafe { *(*parameters.add(i)).cast::<c_uint>() } == fields[i]);
    if matches { SUCCESS } else { 1 }
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorString(error: c_uint, text: *mut *const c_char) -> c_uint {
    if error == 1 {
        // SAFETY: the caller passes a place for one pointer.
        unsafe { *text = c"told by the fake driver".as_ptr() };
        SUCCESS
    } else {
        1
    }
}
