//! `group_norm`, `scale`.

use kernels_gpu::fused::group_norm_scale_resident::GROUP_NORM_SCALE_RESIDENT;
use launch_config::KernelGeometry;

use super::group_norm_scale_pointwise::{self, Tail};
use crate::device::{DType, DeviceProperties, LaunchShape};
use crate::error::Result;
use crate::operators::launching::{Affine, compute};
use crate::program::{ProgramBuilder, Value};
use crate::spec::GroupNormProblem;
use launch_config::norm::{NormGeometry, RESIDENT_STATIC_BYTES};

/// Appends `group_norm(x, weight, bias) * scale[c]`, the scale applied by the kernel that normalises.
///
/// If rows fit a block's shared memory and are many, that kernel computes the statistics, too. It reads the
/// input once if its rows are aligned to vectors.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    affine: Affine,
    scale: Option<Value>,
    norm: &GroupNormProblem,
) -> Result<Value> {
    let (geometry, y) = (norm.geometry()?, program.tensor_like(x)?);
    if program.bytes(&[y]) == 0 {
        return Ok(y);
    }
    let Affine { weight, bias } = affine;
    let resident = resident(&geometry, program.dtype(x), program.properties());
    if resident.is_some() {
        let geometry = geometry.wide(affine.is_wide(program, x));
        let arguments = (x, weight, bias, scale, y, geometry);
        // SAFETY: `x` and `y` have `geometry.elements()` elements; weight and bias have a value per channel
        // where the geometry says that they exist, and so has `scale`.
        return unsafe { compute(program, &GROUP_NORM_SCALE_RESIDENT, resident, y, arguments) };
    }
    let tail = Tail {
        scale,
        ..Tail::NONE
    };
    group_norm_scale_pointwise::append(program, x, affine, geometry, tail)
}

/// The launch whose blocks keep their rows in shared memory between statistics and normalisation, if it pays
/// and the device has enough shared memory.
fn resident(
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
        // 256 rows of 40,000 elements, of which f32 takes 160,012 bytes with the vector it may touch beyond.
        let geometry = NormGeometry::new(32, 64, 8, 5000, 1e-5);
        let kept = |dtype, bytes| resident(&geometry, dtype, &with(bytes)).is_some();
        assert!(kept(DType::F32, 227 << 10) && kept(DType::F32, 160_012 + 512));
        assert!(!kept(DType::F32, 160_012 + 511) && !kept(DType::F32, 99 << 10));
        assert!(kept(DType::F16, 99 << 10));
    }
}
