//! `group_norm` with a scale on either side of it, or a prelu behind it, and pointwise functions.

use kernels_gpu::fused::group_norm_scale_pointwise::GROUP_NORM_SCALE_POINTWISE;
use launch_config::pointwise::Step;

use crate::device::DType;
use crate::error::Result;
use crate::operators::launching::{Affine, compute};
use crate::operators::norm_statistics::{self, NormInput, statistics};
use crate::operators::pointwise;
use crate::program::{LaunchPlan, ProgramBuilder, Value};
use crate::spec::{PointwiseProblem, PreluProblem};
use launch_config::norm::NormGeometry;
use launch_config::pointwise::{MAX_STEPS, PointwiseList};

/// The pointwise operations around a norm.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tail<'a> {
    /// Factors of each channel before the norm, whose groups must be single channels then.
    pub(crate) before: Option<Value>,
    /// Factors of each channel after the norm, or the slopes of `prelu`.
    pub(crate) scale: Option<Value>,
    /// The prelu's problem, if `scale` has its slopes.
    pub(crate) prelu: Option<PreluProblem>,
    /// The functions behind them.
    pub(crate) functions: &'a [PointwiseProblem],
}

impl Tail<'_> {
    /// No operations: a norm alone.
    pub(crate) const NONE: Self = Self {
        before: None,
        scale: None,
        prelu: None,
        functions: &[],
    };
}

/// Plans the statistics of a tensor, and the normalising kernel with so many functions.
pub(crate) fn plan(
    plan: &mut LaunchPlan,
    dtype: DType,
    norm: &NormGeometry,
    functions: usize,
) -> Result<()> {
    if norm.elements() == 0 {
        return Ok(());
    }
    norm_statistics::plan(plan, dtype, norm)?;
    plan_normalising(plan, dtype, norm, norm.spatial, functions)
}

/// Plans the normalising kernel for planes of `spatial` elements, with so many functions.
pub(crate) fn plan_normalising(
    plan: &mut LaunchPlan,
    dtype: DType,
    norm: &NormGeometry,
    spatial: u64,
    functions: usize,
) -> Result<()> {
    let geometry = norm.pooled(spatial, dtype.size() as u32);
    let label = [dtype.label()];
    plan.launch(&GROUP_NORM_SCALE_POINTWISE, &label, geometry.shape())?;
    let rest = functions.saturating_sub(MAX_STEPS);
    pointwise::plan(plan, dtype, geometry.elements, rest)
}

/// Appends `functions(norm(x * before[c], weight, bias) * scale[c])`, or a prelu in the place of the scale,
/// in two kernels: the statistics of `x`, then the rest. Instance norm is a norm with a group per channel.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    affine: Affine,
    norm: NormGeometry,
    tail: Tail<'_>,
) -> Result<Value> {
    if program.bytes(&[x]) == 0 {
        return program.tensor_like(x);
    }
    let input = statistics(program, x, affine, norm)?;
    normalise_and_map(program, &input, tail)
}

/// Appends the normalising kernel. The statistics may be of the tensor that this one was pooled from.
pub(crate) fn normalise_and_map(
    program: &mut ProgramBuilder,
    input: &NormInput,
    tail: Tail<'_>,
) -> Result<Value> {
    let &NormInput {
        x,
        partials,
        norm,
        is_spent,
        ..
    } = input;
    let Affine { weight, bias } = input.affine;
    let spatial: usize = program.shape(x)[2..].iter().product();
    let geometry = norm.pooled(spatial as u64, program.dtype(x).size() as u32);
    let geometry = match tail.prelu {
        Some(prelu) => geometry.with_slopes(prelu.num_parameters),
        None => geometry,
    };
    let (first, rest) = tail.functions.split_at(tail.functions.len().min(MAX_STEPS));
    let list = PointwiseList::take(&mut first.iter().map(|problem| Step::of(&problem.function)));
    let y = if is_spent { x } else { program.tensor_like(x)? };
    let (before, scale) = (tail.before, tail.scale);
    let arguments = (x, partials, before, weight, bias, scale, y, geometry, list);
    // SAFETY: `x` and `y`, which may be `x`, have `spatial` elements for each channel of the norm's rows; the
    // partial results are those of these rows; weight and bias have a value per channel where the geometry
    // says that they exist, and so have `before`, which is there only if rows are channels, and `scale`,
    // where they are there, but for a prelu's only slope, for which the geometry's step is 0.
    let y = unsafe { compute(program, &GROUP_NORM_SCALE_POINTWISE, y, arguments) };
    pointwise::append(program, y, rest)
}
