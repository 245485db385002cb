//! Tensor maps. Their descriptions are logged; the maps have all bits set.

use crate::outcome::{INVALID_VALUE, put};

const AXES: usize = 5;

type Map = [u64; 16];

driver! {
    fn cuTensorMapEncodeTiled(
        state; map: *mut Map, element: u32, rank: u32, _address: usize, extents: *const [u64; AXES],
        strides: *const [u64; AXES - 1], reaches: *const [u32; AXES], steps: *const [u32; AXES],
        _interleave: u32, swizzle: u32, _promotion: u32, _fill: u32,
    ) {
        if rank as usize != AXES {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller passes arrays for this rank.
        let (extents, strides, reaches, steps) = unsafe { (*extents, *strides, *reaches, *steps) };
        let text = format!(
            "boxes of type {element}, swizzle {swizzle}: {extents:?} by {strides:?}, {reaches:?} by {steps:?}"
        );
        let context = state.current()?;
        state.log.push((context, text));
        put(map, [u64::MAX; 16])
    }

    fn cuTensorMapEncodeIm2col(
        state; map: *mut Map, element: u32, rank: u32, _address: usize, extents: *const [u64; AXES],
        strides: *const [u64; AXES - 1], lower: *const [i32; AXES - 2], upper: *const [i32; AXES - 2],
        channels: u32, pixels: u32, steps: *const [u32; AXES], _interleave: u32, swizzle: u32,
        _promotion: u32, _fill: u32,
    ) {
        if rank as usize != AXES {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller passes arrays for this rank.
        let (extents, strides, steps) = unsafe { (*extents, *strides, *steps) };
        // SAFETY: as above.
        let (lower, upper) = unsafe { (*lower, *upper) };
        let text = format!(
            "windows of type {element}, swizzle {swizzle}: {extents:?} by {strides:?}, from {lower:?} to \
             {upper:?} by {steps:?}, {channels} channels of {pixels} pixels"
        );
        let context = state.current()?;
        state.log.push((context, text));
        put(map, [u64::MAX; 16])
    }
}
