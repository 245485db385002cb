//! `group_norm`, `scale`.

use kernels_gpu::fused::group_norm_scale_resident::GROUP_NORM_SCALE_RESIDENT;

use kernels_gpu::fused::group_norm_scale::GROUP_NORM_SCALE;

use crate::device::{DType, DeviceProperties, LaunchShape, Tensor};
use crate::error::Result;
use crate::ops::group_norm::{Statistics, group_norm, statistics};
use crate::ops::launching::{Affine, grid, matching, once, shape_of};
use crate::ops::scale;
use crate::program::{ProgramBuilder, Read, Value, Write};
use crate::spec::launch::norm::{NormGeometry, RESIDENT_STATIC_BYTES};
use crate::spec::{GroupNormSpec, ScaleSpec};

const OPERATOR: &str = "group_norm_scale";

/// `group_norm(x, weight, bias) * scale[c]`, the scale applied by the kernel that normalises.
///
/// Where groups are of a size that suits a GPU's shared memory, that kernel computes the statistics, too, and the input
/// is read once.
///
/// *Shapes*, *numerics*, *NaN*, *errors*: those of [`group_norm`](crate::ops::group_norm()) and
/// [`scale`](crate::ops::scale()).
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor, ops, spec::GroupNormSpec};
/// use ndarray::array;
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &array![[[1.0f32, 3.0], [5.0, 5.5]]])?;
/// let factors = Tensor::from_array(&stream, &array![2.0f32, -1.0])?;
/// let spec = GroupNormSpec::new(2);
/// let fused = ops::group_norm_scale(&x, None, None, &factors, &spec)?;
/// let composed = ops::scale(&ops::group_norm(&x, None, None, &spec)?, &factors)?;
/// assert_eq!(fused.to_array::<f32>()?, composed.to_array::<f32>()?);
/// # Ok::<(), convfuse::Error>(())
/// ```
pub fn group_norm_scale(
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    scale: &Tensor,
    spec: &GroupNormSpec,
) -> Result<Tensor> {
    spec.problem(x.shape(), shape_of(weight), shape_of(bias))?;
    ScaleSpec.problem(x.shape(), scale.shape())?;
    let parameters = [("weight", weight), ("bias", bias), ("scale", Some(scale))];
    matching(OPERATOR, x, &parameters)?;
    if x.device().is_cpu() {
        return scale::scale(&group_norm(x, weight, bias, spec)?, scale);
    }
    once(OPERATOR, x, |program, x| {
        let affine = Affine::new(program, weight, bias);
        let scale = program.parameter(scale);
        append(program, x, affine, scale, spec)
    })
}

/// Appends the operators to a program.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    affine: Affine,
    scale: Value,
    spec: &GroupNormSpec,
) -> Result<Value> {
    let [weight, bias] = affine.shapes(program);
    let problem = spec.problem(program.shape(x), weight, bias)?;
    ScaleSpec.problem(program.shape(x), program.shape(scale))?;
    let (geometry, dtype) = (problem.geometry()?, program.dtype(x));
    let y = program.tensor_like(x)?;
    if program.bytes(&[y]) == 0 {
        return Ok(y);
    }
    match resident(&geometry, dtype, program.properties()) {
        Some(shape) => keep_rows(program, x, affine, scale, &geometry, y, shape)?,
        None => two_passes(program, x, affine, scale, &geometry, y)?,
    }
    Ok(y)
}

/// The one launch whose blocks keep their rows in shared memory between statistics and normalisation, where that pays
/// and the device has the memory for it.
fn resident(
    geometry: &NormGeometry,
    dtype: DType,
    properties: &DeviceProperties,
) -> Option<LaunchShape> {
    let shape = geometry.resident_shape(dtype.size() as u32)?;
    let bytes = RESIDENT_STATIC_BYTES + shape.shared_bytes;
    (bytes <= properties.shared_bytes_per_block).then_some(shape)
}

fn keep_rows(
    program: &mut ProgramBuilder,
    x: Value,
    affine: Affine,
    scale: Value,
    geometry: &NormGeometry,
    y: Value,
    shape: LaunchShape,
) -> Result<()> {
    let bytes_moved = program.bytes(&[x, scale, y]) + affine.bytes(program);
    // SAFETY: as in `two_passes`, without partial results.
    unsafe {
        let kernel = GROUP_NORM_SCALE_RESIDENT.instance(&[program.dtype(x).label()])?;
        program.launch(
            kernel,
            shape,
            (
                Read(x),
                affine.weight(),
                affine.bias(),
                Read(scale),
                Write(y),
                *geometry,
            ),
            bytes_moved,
        );
    }
    Ok(())
}

/// The statistics, then a pass that normalises and scales.
fn two_passes(
    program: &mut ProgramBuilder,
    x: Value,
    affine: Affine,
    scale: Value,
    geometry: &NormGeometry,
    y: Value,
) -> Result<()> {
    let apply = geometry.apply();
    let shape = grid(OPERATOR, apply.shape())?;
    let Statistics { partials, .. } = statistics(OPERATOR, program, x, geometry)?;
    let bytes_moved = program.bytes(&[x, partials, scale, y]) + affine.bytes(program);
    // SAFETY: `x` and `y` have `geometry.elements()` elements; the partial results are those of `x`; weight and bias
    // have a value per channel where the geometry says that they exist, and so has `scale`.
    unsafe {
        let kernel = GROUP_NORM_SCALE.instance(&[program.dtype(x).label()])?;
        program.launch(
            kernel,
            shape,
            (
                Read(x),
                Read(partials),
                affine.weight(),
                affine.bias(),
                Read(scale),
                Write(y),
                apply,
            ),
            bytes_moved,
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_kept_where_a_block_has_the_memory() {
        let with = |shared_bytes_per_block| DeviceProperties {
            multiprocessors: 132,
            shared_bytes_per_block,
            has_warpgroup_products: false,
        };
        // 256 rows of 40,000 elements, of which f32 takes 160,012 bytes with the vector it may touch beyond.
        let geometry = NormGeometry::new(32, 64, 8, 5000, 1e-5);
        let kept = |dtype, bytes| resident(&geometry, dtype, &with(bytes)).is_some();
        assert!(kept(DType::F32, 227 << 10) && kept(DType::F32, 160_012 + 512));
        assert!(!kept(DType::F32, 160_012 + 511) && !kept(DType::F32, 99 << 10));
        assert!(kept(DType::F16, 99 << 10));
    }
}
