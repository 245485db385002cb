//! Tensor maps, which the driver encodes.

use std::ffi::{c_int, c_void};

use cuda_std::tensor_map::{AXES, Boxes, Im2col, MapElement, MapMode, TensorMap};
use cust::sys;

use super::driver::{Current, check, cu, late_function};
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

/// `cuTensorMapEncodeIm2col`: as above, but in place of the box's extents it takes the corners of the box of
/// windows, and the channels and windows of a copy.
type EncodeIm2col = unsafe extern "C" fn(
    *mut TensorMap,
    u32,
    u32,
    *const c_void,
    *const u64,
    *const u64,
    *const c_int,
    *const c_int,
    u32,
    u32,
    *const u32,
    u32,
    u32,
    u32,
    u32,
) -> u32;

late_function! {
    /// The driver's function, present in drivers with support for `sm_90a`.
    static ENCODE_TILED: EncodeTiled = c"cuTensorMapEncodeTiled"
}

late_function! {
    /// The driver's function, as above.
    static ENCODE_IM2COL: EncodeIm2col = c"cuTensorMapEncodeIm2col"
}

/// The driver's number of an element type (`CUtensorMapDataType`). The meaning of 16 bits does not matter,
/// since the fill is zeros.
const fn type_of(element: MapElement) -> u32 {
    match element {
        MapElement::Bits16 => 1, // CU_TENSOR_MAP_DATA_TYPE_UINT16
        MapElement::F32 => 7,    // CU_TENSOR_MAP_DATA_TYPE_FLOAT32
        MapElement::Tf32 => 11,  // CU_TENSOR_MAP_DATA_TYPE_TFLOAT32
    }
}

/// `CU_TENSOR_MAP_SWIZZLE_32B`; the next values swizzle 64 and 128 bytes.
const SWIZZLE_32_BYTES: u32 = 1;

/// Drivers up to this version (as `cuDriverGetVersion` counts) make im2col maps of small tensors that cause
/// faults, unless a bit of the second word is cleared. From `SMALL_BYTES` on a tensor is not small. CUTLASS
/// has the same workaround (`cute/atom/copy_traits_sm90_im2col.hpp`).
const LAST_WITH_SMALL_BIT: c_int = 13_010;
const SMALL_BYTES: u64 = 128 << 10;
const SMALL_BIT: u64 = 1 << 21;

/// Encodes the map of a tensor at `address`. The driver needs a current context.
///
/// # Errors
/// Errors of the driver.
pub(crate) fn encode(_current: &Current, mode: &MapMode, address: *const u8) -> Result<TensorMap> {
    let swizzle = match (mode.is_swizzled(), mode.line_bytes()) {
        (false, _) | (_, 0..32) => 0,
        (_, 32..64) => SWIZZLE_32_BYTES,
        (_, 64..128) => SWIZZLE_32_BYTES + 1,
        _ => SWIZZLE_32_BYTES + 2,
    };
    match mode {
        MapMode::Tiled(boxes) => tiled(boxes, swizzle, address.cast()),
        MapMode::Im2col(windows) => im2col(windows, swizzle, address.cast()),
    }
}

fn tiled(boxes: &Boxes, swizzle: u32, address: *const c_void) -> Result<TensorMap> {
    let extents = boxes.extents.map(u64::from);
    let mut map = TensorMap::NONE;
    let result = match *ENCODE_TILED {
        // SAFETY: each pointer is to as many numbers as the driver reads for this rank, and the map is 128
        // bytes on a multiple of 64. The driver does not read the memory at the address.
        Some(encode) => cuda_loader::known(unsafe {
            encode(
                &raw mut map,
                type_of(boxes.element),
                AXES as u32,
                address,
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

fn im2col(windows: &Im2col, swizzle: u32, address: *const c_void) -> Result<TensorMap> {
    let extents = windows.extents.map(u64::from);
    let [w, h, d] = windows.steps;
    let steps: [u32; AXES] = [1, w, h, d, 1];
    let mut map = TensorMap::NONE;
    let result = match *ENCODE_IM2COL {
        // SAFETY: as above.
        Some(encode) => cuda_loader::known(unsafe {
            encode(
                &raw mut map,
                type_of(windows.element),
                AXES as u32,
                address,
                extents.as_ptr(),
                windows.strides.as_ptr(),
                windows.lower_corner.as_ptr(),
                windows.upper_corner.as_ptr(),
                windows.channels_per_pixel,
                windows.pixels_per_column,
                steps.as_ptr(),
                0,
                swizzle,
                0,
                0,
            )
        }),
        None => sys::CUresult::CUDA_ERROR_NOT_FOUND,
    };
    check("cuTensorMapEncodeIm2col", result)?;
    let bytes = windows.strides[AXES - 2].saturating_mul(extents[AXES - 1]);
    if bytes < SMALL_BYTES {
        let mut version = 0;
        // SAFETY: the pointer is to a valid number.
        unsafe { cu!(cuDriverGetVersion(&raw mut version))? };
        if version <= LAST_WITH_SMALL_BIT {
            map.0[1] &= !SMALL_BIT;
        }
    }
    Ok(map)
}
