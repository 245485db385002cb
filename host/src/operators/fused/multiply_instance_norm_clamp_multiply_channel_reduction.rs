//! Multiply, `instance_norm`, `clamp`, multiply, a reduction over the channels.

use kernels_gpu::fused::instance_norm_clamp_multiply_channel_reduction::INSTANCE_NORM_CLAMP_MULTIPLY_CHANNEL_REDUCTION;
use launch_config::elementwise::Bounds;

use crate::error::Result;
use crate::operators::launching::{Affine, compute};
use crate::operators::norm_statistics::NormInput;
use crate::operators::reduction::OfChannels;
use crate::program::{ProgramBuilder, Value};
use crate::spec::ClampProblem;

/// Appends `reduce(clamp(instance_norm(x * m[c], weight, bias)) * m[c])` after the statistics of `x`, in one
/// kernel.
///
/// The first multiplication is folded into the norm: `norm(m x) = m (x - mean) / sqrt(m^2 var + eps)`. This
/// is exact in real arithmetic for every `m`, including zero, and saves a rounding.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    input: &NormInput,
    factor: Value,
    clamp: &ClampProblem,
    reduction: &OfChannels,
) -> Result<Value> {
    let &NormInput {
        x, partials, norm, ..
    } = input;
    let Affine { weight, bias } = input.affine;
    let (geometry, bounds) = (reduction.geometry, Bounds::of(clamp));
    let family = &INSTANCE_NORM_CLAMP_MULTIPLY_CHANNEL_REDUCTION;
    let y = reduction.output(program, x)?;
    let arguments = (x, partials, weight, bias, factor, y, norm, geometry, bounds);
    let (labels, shape) = (reduction.labels(program.dtype(x)), geometry.shape());
    // SAFETY: both geometries describe `x`, and `y` has its shape without channels. The partial results are
    // those of `x`. Weight and bias have a value per channel if the geometry says that they are present, and
    // so has `factor`.
    unsafe { compute(program, family, &labels, shape, y, arguments) }
}
