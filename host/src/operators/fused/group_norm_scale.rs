//! `group_norm`, `scale`.

use kernels_gpu::fused::group_norm_scale_resident::GROUP_NORM_SCALE_RESIDENT;
use launch_config::KernelGeometry;

use super::group_norm_scale_pointwise::{self, Tail};
use crate::device::{DType, DeviceProperties, LaunchShape};
use crate::error::Result;
use crate::operators::launching::{Affine, compute};
use crate::program::{LaunchPlan, ProgramBuilder, Value};
use crate::spec::GroupNormProblem;
use launch_config::norm::{NormGeometry, RESIDENT_STATIC_BYTES};

/// Plans the launches of a norm and a scale.
///
/// If there are many rows and each fits a block's shared memory, one kernel does both, including the
/// statistics. It reads the input once if its rows are aligned to vectors.
pub(crate) fn plan(
    plan: &mut LaunchPlan,
    dtype: DType,
    properties: &DeviceProperties,
    norm: &NormGeometry,
) -> Result<()> {
    let resident = resident(norm, dtype, properties).filter(|_| norm.elements() > 0);
    if resident.is_some() {
        return plan.launch(&GROUP_NORM_SCALE_RESIDENT, &[dtype.label()], resident);
    }
    group_norm_scale_pointwise::plan(plan, dtype, norm)
}

/// Appends `group_norm(x, weight, bias) * scale[c]`; the normalising kernel applies the scale.
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
    if program.is_next(&GROUP_NORM_SCALE_RESIDENT) {
        let geometry = geometry.with_affine_type(affine.element_type(program, x));
        let arguments = (x, weight, bias, scale, y, geometry);
        // SAFETY: `x` and `y` have `geometry.elements()` elements; weight and bias have a value per channel
        // if the geometry says that they are present, and so has `scale`.
        return Ok(unsafe { compute(program, &GROUP_NORM_SCALE_RESIDENT, y, arguments) });
    }
    let tail = Tail {
        scale,
        ..Tail::NONE
    };
    group_norm_scale_pointwise::append(program, x, affine, geometry, tail)
}

/// Returns the launch whose blocks keep their rows in shared memory between statistics and normalisation, if
/// it is worthwhile and the device has enough shared memory.
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
        // 256 rows of 40,000 elements. In f32 a row takes 160,012 bytes, including the vector that the kernel
        // may touch beyond it.
        let geometry = NormGeometry::new(32, 64, 8, 5000, 1e-5);
        let kept = |dtype, bytes| resident(&geometry, dtype, &with(bytes)).is_some();
        assert!(kept(DType::F32, 227 << 10) && kept(DType::F32, 160_012 + 512));
        assert!(!kept(DType::F32, 160_012 + 511) && !kept(DType::F32, 99 << 10));
        assert!(kept(DType::F16, 99 << 10));
    }
}
