//! `group_norm` with a scale before or after it, or a prelu after it, then pointwise functions and residuals.

use kernels_gpu::fused::group_norm_scale_pointwise::{
    GROUP_NORM_SCALE_POINTWISE, GROUP_NORM_SCALE_POINTWISE_RESIDUAL,
};

use crate::device::DType;
use crate::error::Result;
use crate::operators::launching::{Affine, compute};
use crate::operators::norm_statistics::{self, NormInput, statistics};
use crate::operators::pointwise::{self, ListStep};
use crate::program::{LaunchPlan, ProgramBuilder, Value};
use crate::spec::PreluProblem;
use launch_config::norm::NormGeometry;

/// The pointwise operations around a norm.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tail<'a> {
    /// The factors of each channel before the norm, whose groups must then be single channels.
    pub(crate) before: Option<Value>,
    /// The factors of each channel after the norm, or the slopes of `prelu`.
    pub(crate) scale: Option<Value>,
    /// The problem of the prelu, if `scale` holds its slopes.
    pub(crate) prelu: Option<PreluProblem>,
    /// The functions and residuals after scale or prelu.
    pub(crate) list: &'a [ListStep<Value>],
}

impl Tail<'_> {
    /// No operations: a norm alone.
    pub(crate) const NONE: Self = Self {
        before: None,
        scale: None,
        prelu: None,
        list: &[],
    };
}

/// Plans the statistics of a tensor and the normalising kernel, without other operations.
pub(crate) fn plan(plan: &mut LaunchPlan, dtype: DType, norm: &NormGeometry) -> Result<()> {
    if norm.elements() == 0 {
        return Ok(());
    }
    norm_statistics::plan(plan, dtype, norm)?;
    plan_normalising::<()>(plan, dtype, norm, norm.spatial, &[])
}

/// Plans the normalising kernel for planes of `spatial` elements, with the steps of a list.
pub(crate) fn plan_normalising<R: Copy>(
    plan: &mut LaunchPlan,
    dtype: DType,
    norm: &NormGeometry,
    spatial: u64,
    list: &[ListStep<R>],
) -> Result<()> {
    let geometry = norm.pooled(spatial, dtype.size() as u32);
    let label = [dtype.label()];
    let (_, residual, rest) = pointwise::first_list(list);
    match residual {
        Some(_) => {
            plan.launch(
                &GROUP_NORM_SCALE_POINTWISE_RESIDUAL,
                &label,
                geometry.shape(),
            )?;
        }
        None => plan.launch(&GROUP_NORM_SCALE_POINTWISE, &label, geometry.shape())?,
    }
    pointwise::plan(plan, dtype, geometry.elements, rest)
}

/// Appends `list(norm(x * before[c], weight, bias) * scale[c])`, or with a prelu in place of the scale, in
/// two kernels: the statistics of `x`, then the rest. Instance norm is a norm with one group per channel.
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

/// Appends the normalising kernel. The statistics may belong to the tensor from which `x` was pooled.
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
    let (list, residual, rest) = pointwise::first_list(tail.list);
    let y = if is_spent { x } else { program.tensor_like(x)? };
    let (before, scale) = (tail.before, tail.scale);
    // SAFETY: `x` and `y`, which may be `x`, have `spatial` elements for each channel of the norm's rows, and
    // the partial results are those of these rows. Weight and bias have a value per channel if the geometry
    // says that they are present. So have `before`, present only if rows are channels, and `scale`, except
    // for a single prelu slope, for which the geometry's step is 0. A residual has the shape of `y`.
    let y = unsafe {
        match residual {
            Some(_) => {
                let arguments = (
                    x, partials, before, weight, bias, scale, residual, y, geometry, list,
                );
                compute(program, &GROUP_NORM_SCALE_POINTWISE_RESIDUAL, y, arguments)
            }
            None => {
                let list = list.functions;
                let arguments = (x, partials, before, weight, bias, scale, y, geometry, list);
                compute(program, &GROUP_NORM_SCALE_POINTWISE, y, arguments)
            }
        }
    };
    pointwise::append(program, y, rest)
}
