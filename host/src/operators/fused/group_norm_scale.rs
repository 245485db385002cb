//! `group_norm`, `scale` in one launch that includes the statistics.

use kernels_gpu::fused::group_norm_scale_resident::GROUP_NORM_SCALE_RESIDENT;

use crate::device::{DType, DeviceProperties, LaunchShape};
use crate::error::Result;
use crate::operators::launching::{Affine, compute};
use crate::program::{ProgramBuilder, Value};
use launch_config::norm::{NormGeometry, RESIDENT_STATIC_BYTES};

/// Appends `group_norm(x, weight, bias) * scale[c]` in a launch of this [shape](resident). The input is read
/// once if its rows are aligned to vectors.
pub(crate) fn append_resident(
    program: &mut ProgramBuilder,
    x: Value,
    affine: Affine,
    scale: Value,
    norm: NormGeometry,
    shape: LaunchShape,
) -> Result<Value> {
    let y = program.tensor_like(x)?;
    let Affine { weight, bias } = affine;
    let geometry = norm.with_affine_type(affine.element_type(program, x));
    let arguments = (x, weight, bias, Some(scale), y, geometry);
    let (label, shape) = (program.label(x), Some(shape));
    let family = &GROUP_NORM_SCALE_RESIDENT;
    // SAFETY: `x` and `y` have `geometry.elements()` elements; weight and bias have a value per channel if
    // the geometry says that they are present, and so has `scale`.
    unsafe { compute(program, family, &label, shape, y, arguments) }
}

/// Returns the launch whose blocks keep their rows in shared memory between statistics and normalisation, if
/// there are many rows and the device has enough shared memory.
pub(crate) fn resident(
    geometry: &NormGeometry,
    dtype: DType,
    properties: &DeviceProperties,
) -> Option<LaunchShape> {
    let shape = geometry.resident_shape(dtype.size() as u32)?;
    let bytes = RESIDENT_STATIC_BYTES + shape.shared_bytes;
    (bytes <= properties.shared_bytes_per_block).then_some(shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_kept_where_a_block_has_the_memory() {
        let with = |shared_bytes_per_block| DeviceProperties {
            shared_bytes_per_block,
            ..DeviceProperties::NAMED[0].1
        };
        // 256 rows of 40,000 elements. In f32 a row takes 160,012 bytes, including the vector that the kernel
        // may touch beyond it.
        let geometry = NormGeometry::new(32, 64, 8, 5000, 1e-5);
        let kept = |dtype, bytes| resident(&geometry, dtype, &with(bytes)).is_some();
        assert!(kept(DType::F32, 227 << 10) && kept(DType::F32, 160_012 + 512));
        assert!(!kept(DType::F32, 160_012 + 511) && !kept(DType::F32, 99 << 10));
        assert!(kept(DType::F16, 99 << 10));
    }
}
