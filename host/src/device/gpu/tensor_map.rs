//! Tensor maps, which the driver encodes.

use std::ffi::c_void;

use cuda_std::tensor_map::{AXES, Boxes, TensorMap};
use cust::sys;

use super::driver::{Current, check, late_function};
use crate::error::Result;

/// `cuTensorMapEncodeTiled`: the map, element type, rank, address, extents, strides, the box's extents,
/// element strides, interleaving, swizzle, L2 promotion, and out-of-bounds fill.
type EncodeTiled = unsafe extern "C" fn(
    *mut TensorMap,
    u32,
    u32,
    *const c_void,
    *const u64,
    *const u64,
    *const u32,
    *const u32,
    u32,
    u32,
    u32,
    u32,
) -> u32;

late_function! {
    /// The driver's function, which drivers with support for sm_90a have.
    static ENCODE_TILED: EncodeTiled = c"cuTensorMapEncodeTiled"
}

/// `CU_TENSOR_MAP_DATA_TYPE_UINT16`: the meaning of the bits does not matter, since the fill is zeros.
const UINT16: u32 = 1;

/// `CU_TENSOR_MAP_SWIZZLE_32B`, and after it those of 64 and of 128 bytes.
const SWIZZLE_32_BYTES: u32 = 1;

/// The map of a tensor at `address`. The driver needs a current context.
///
/// # Errors
/// Errors of the driver.
pub(crate) fn encode(_current: &Current, boxes: &Boxes, address: *const u8) -> Result<TensorMap> {
    let extents = boxes.extents.map(u64::from);
    let swizzle = match (boxes.is_swizzled, boxes.line_bytes()) {
        (0, _) | (_, 0..32) => 0,
        (_, 32..64) => SWIZZLE_32_BYTES,
        (_, 64..128) => SWIZZLE_32_BYTES + 1,
        _ => SWIZZLE_32_BYTES + 2,
    };
    let mut map = TensorMap::NONE;
    let result = match *ENCODE_TILED {
        // SAFETY: all pointers are to as many numbers as the driver reads for this rank, and the map is 128
        // bytes on a multiple of 64. The driver does not look at what is at the address.
        Some(encode) => cuda_loader::known(unsafe {
            encode(
                &raw mut map,
                UINT16,
                AXES as u32,
                address.cast(),
                extents.as_ptr(),
                boxes.strides.as_ptr(),
                boxes.reaches.as_ptr(),
                boxes.steps.as_ptr(),
                0,
                swizzle,
                0,
                0,
            )
        }),
        None => sys::CUresult::CUDA_ERROR_NOT_FOUND,
    };
    check("cuTensorMapEncodeTiled", result)?;
    Ok(map)
}
