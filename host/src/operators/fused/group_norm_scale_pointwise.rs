//! `group_norm` with a scale before or after it, or a prelu after it, then pointwise functions and residuals.

use kernels_gpu::fused::group_norm_scale_pointwise::{
    GROUP_NORM_SCALE_POINTWISE, GROUP_NORM_SCALE_POINTWISE_RESIDUAL,
};

use crate::error::Result;
use crate::operators::launching::{Affine, compute};
use crate::operators::norm_statistics::{NormInput, statistics};
use crate::operators::pointwise::{self, ListStep};
use crate::program::{ProgramBuilder, Value};
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
    let elements: usize = program.shape(x).iter().product();
    let spatial = elements as u64 / (norm.rows * u64::from(norm.row_channels));
    let geometry = norm.pooled(spatial, program.dtype(x).size() as u32);
    let geometry = match tail.prelu {
        Some(prelu) => geometry.with_slopes(prelu.num_parameters),
        None => geometry,
    };
    let (list, residual, rest) = pointwise::first_list(tail.list);
    let y = if is_spent { x } else { program.tensor_like(x)? };
    let (before, scale) = (tail.before, tail.scale);
    let (label, shape) = (program.label(x), geometry.shape());
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
                let family = &GROUP_NORM_SCALE_POINTWISE_RESIDUAL;
                compute(program, family, &label, shape, y, arguments)?
            }
            None => {
                let list = list.functions;
                let arguments = (x, partials, before, weight, bias, scale, y, geometry, list);
                let family = &GROUP_NORM_SCALE_POINTWISE;
                compute(program, family, &label, shape, y, arguments)?
            }
        }
    };
    pointwise::append(program, y, rest)
}
