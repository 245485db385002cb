//! Maps of a channel's values: the norm of its group, and pointwise functions.

use ndarray::{ArrayD, ArrayViewD};
use op_spec::graph::{ChannelAffine, Pointwise};
use op_spec::{
    ArithmeticOp, ArithmeticOperand, ArithmeticProblem, BatchNormProblem, GroupNormProblem,
    PointwiseProblem, PreluProblem,
};

use super::dense;
use super::moments::{Moments, normalize};
use super::pointwise::{TASK_ELEMENTS, in_parts, map};
use crate::dtype::DType;
use crate::error::Result;

pub(super) struct Norm<'a> {
    pub(super) problem: GroupNormProblem,
    pub(super) weight: Option<&'a [f32]>,
    pub(super) bias: Option<&'a [f32]>,
    pub(super) before: Vec<&'a [f32]>,
    pub(super) behind: Vec<&'a [f32]>,
    /// The moments of each channel over the whole batch, if the norm uses them.
    pub(super) of_batch: Option<Vec<Moments>>,
}

/// A function of single values, with the parameters of its layer.
pub(super) enum Map<'a> {
    Function(PointwiseProblem),
    Scale(&'a [f32]),
    /// The slopes for values that are not above 0: one, or one for each channel.
    Prelu(&'a [f32]),
    /// A weight and a bias for each element of a sample.
    Elements(Option<&'a [f32]>, Option<&'a [f32]>),
    /// A batch norm with its parameters in PyTorch's order.
    BatchNorm(BatchNormProblem, [Option<&'a [f32]>; 4]),
    /// An operation with one value, or one for each channel.
    Arithmetic(ArithmeticOp, &'a [f32]),
    /// An operation with a residual, which has all samples.
    Residual(ArithmeticOp, &'a [f32]),
    /// Keeps values for later maps.
    Keep,
    /// An operation with the kept values.
    Kept(ArithmeticOp),
}

impl Norm<'_> {
    /// Returns the norm and the moments of the group whose first channel is `first`.
    pub(super) fn of_group(&self, first: usize, x: &mut [f32], dtype: DType) -> (&Self, Moments) {
        // In a group of several channels, factors change the channels' weights in the moments, so the factors
        // are applied first.
        if self.problem.channels_per_group() > 1 {
            for (c, x) in (first..).zip(x.chunks_exact_mut(self.problem.shape.spatial)) {
                let maps = self.before.iter().map(|factors| Map::Scale(factors));
                maps.for_each(|map| map.apply(0, c, x, &mut []));
            }
        }
        let of_batch = self.of_batch.as_ref();
        (
            self,
            of_batch.map_or_else(|| Moments::of(x, dtype), |moments| moments[first]),
        )
    }

    pub(super) fn normalise(&self, c: usize, moments: Moments, x: &mut [f32]) {
        let product = |factors: &[&[f32]]| factors.iter().map(|f| f64::from(f[c])).product();
        let parameter = |values: Option<&[f32]>, absent| values.map_or(absent, |v| f64::from(v[c]));
        // In a group of one channel, the factor scales mean and deviation, so the moments of the
        // convolution's output suffice.
        let before: f64 = if self.problem.channels_per_group() > 1 {
            1.0
        } else {
            product(&self.before)
        };
        let behind: f64 = product(&self.behind);
        let scaled = Moments {
            mean: moments.mean * before,
            variance: moments.variance * before * before,
        };
        let rstd = scaled.rstd(self.problem.eps);
        let gain = rstd * before * parameter(self.weight, 1.0) * behind;
        let bias = parameter(self.bias, 0.0) * behind;
        normalize(x, moments.mean, gain, bias);
    }
}

impl<'a> Map<'a> {
    /// Makes a map. `parameter` returns the parameters of its layer by their index in PyTorch's order.
    ///
    /// # Panics
    /// If a required parameter is missing.
    pub(super) fn new(
        pointwise: &Pointwise,
        parameter: impl Fn(usize) -> Option<&'a [f32]>,
    ) -> Self {
        match pointwise {
            Pointwise::Function(problem) => Map::Function(*problem),
            Pointwise::Scale(_) => Map::Scale(parameter(0).expect("a factor for each channel")),
            Pointwise::Prelu(_) => Map::Prelu(parameter(0).expect("slopes")),
            Pointwise::LayerAffine(problem) => Map::Elements(
                parameter(0).filter(|_| problem.weight),
                parameter(1).filter(|_| problem.bias),
            ),
            Pointwise::Residual(problem) => {
                Map::Residual(problem.operation, parameter(0).expect("a residual"))
            }
            Pointwise::Keep => Map::Keep,
            Pointwise::Kept(problem) => Map::Kept(problem.operation),
            Pointwise::Affine(ChannelAffine::BatchNorm(problem)) => {
                Map::BatchNorm(*problem, [0, 1, 2, 3].map(parameter))
            }
            Pointwise::Affine(ChannelAffine::Arithmetic(problem)) => {
                Map::Arithmetic(problem.operation, parameter(0).expect("the other operand"))
            }
        }
    }

    /// Applies maps in order; otherwise as [`apply`](Self::apply).
    pub(super) fn apply_all(maps: &[Self], start: usize, c: usize, x: &mut [f32]) {
        let first = maps.iter().position(|map| matches!(map, Map::Keep));
        // Elementwise weights and biases belong to a norm, and no value is kept before them.
        let (whole, parts) = maps.split_at(first.unwrap_or(maps.len()));
        whole.iter().for_each(|map| map.apply(start, c, x, &mut []));
        if parts.is_empty() {
            return;
        }
        let mut kept = [0.0; KEPT_ELEMENTS];
        for (number, x) in x.chunks_mut(KEPT_ELEMENTS).enumerate() {
            let start = start + number * KEPT_ELEMENTS;
            let parts = parts.iter();
            parts.for_each(|map| map.apply(start, c, x, &mut kept[..x.len()]));
        }
    }

    /// Applies a map to values of channel `c`. `start` is the index of the first value in the whole tensor.
    /// Elementwise weights and biases need the whole channel. `kept` has the values of a preceding
    /// [`Keep`](Map::Keep), as many as `x`; it may be empty for maps that neither keep values nor read them.
    fn apply(&self, start: usize, c: usize, x: &mut [f32], kept: &mut [f32]) {
        match self {
            Map::Function(problem) => map(problem, x),
            Map::Scale(factors) => {
                let factor = factors[c];
                x.iter_mut().for_each(|v| *v *= factor);
            }
            Map::Prelu(slopes) => {
                let slope = slopes[if slopes.len() == 1 { 0 } else { c }];
                x.iter_mut()
                    .for_each(|v| *v = if *v > 0.0 { *v } else { *v * slope });
            }
            Map::Elements(weight, bias) => {
                // `x` is a whole channel of a sample.
                let first = c * x.len();
                if let Some(weight) = weight {
                    let factors = &weight[first..];
                    x.iter_mut()
                        .zip(factors)
                        .for_each(|(v, factor)| *v *= factor);
                }
                if let Some(bias) = bias {
                    let summands = &bias[first..];
                    x.iter_mut()
                        .zip(summands)
                        .for_each(|(v, summand)| *v += summand);
                }
            }
            Map::BatchNorm(problem, [mean, variance, weight, bias]) => {
                let of_channel = |values: &Option<&[f32]>, absent| {
                    values.map_or(absent, |values| f64::from(values[c]))
                };
                let parameters = [
                    of_channel(mean, 0.0),
                    of_channel(variance, 1.0),
                    of_channel(weight, 1.0),
                    of_channel(bias, 0.0),
                ];
                let [gain, shift] = problem.gain_and_shift(parameters, f64::sqrt);
                x.iter_mut()
                    .for_each(|v| *v = (f64::from(*v) * gain + shift) as f32);
            }
            Map::Arithmetic(operation, others) => {
                let other = others[if others.len() == 1 { 0 } else { c }];
                let [gain, shift] = operation.gain_and_shift(other.into());
                let (gain, shift) = (gain as f32, shift as f32);
                // The gain is 1 or the shift -0, so there is one rounding.
                x.iter_mut().for_each(|v| *v = *v * gain + shift);
            }
            Map::Residual(operation, residual) => combine(*operation, x, &residual[start..]),
            Map::Keep => kept.copy_from_slice(x),
            Map::Kept(operation) => combine(*operation, x, kept),
        }
    }
}

/// The number of values that are kept at a time.
const KEPT_ELEMENTS: usize = 1024;

/// Combines each value with the other value at its position.
fn combine(operation: ArithmeticOp, x: &mut [f32], others: &[f32]) {
    // Both operands are f32, so rounding to float64 in between does not change the f32 result.
    let both = x.iter_mut().zip(others);
    both.for_each(|(v, &other)| *v = operation.of((*v).into(), other.into()) as f32);
}

/// Computes arithmetic of two tensors: of one shape and any rank, or with an operand that is broadcast.
pub(super) fn arithmetic(
    problem: &ArithmeticProblem,
    x: ArrayViewD<'_, f32>,
    other: ArrayViewD<'_, f32>,
) -> Result<ArrayD<f32>> {
    let other = dense(other)?;
    let ArithmeticOperand::Channels { shape, values } = problem.operand else {
        let map = Map::Residual(problem.operation, &other);
        return in_parts(&x, TASK_ELEMENTS, |start, y| {
            map.apply(start, 0, y, &mut [])
        });
    };
    let map = Map::Arithmetic(problem.operation, &other);
    if values == 1 {
        return in_parts(&x, TASK_ELEMENTS, |_, y| map.apply(0, 0, y, &mut []));
    }
    let (c, spatial) = (shape.c, shape.spatial);
    in_parts(&x, spatial, |start, y| {
        map.apply(0, start / spatial % c, y, &mut [])
    })
}

/// `prelu`. With a single slope, the tensor may have any rank.
pub(super) fn prelu(
    problem: &PreluProblem,
    x: ArrayViewD<'_, f32>,
    weight: ArrayViewD<'_, f32>,
) -> Result<ArrayD<f32>> {
    let slopes = dense(weight)?;
    let map = Map::Prelu(&slopes);
    if problem.num_parameters == 1 {
        return in_parts(&x, TASK_ELEMENTS, |_, y| map.apply(0, 0, y, &mut []));
    }
    let (c, spatial) = (problem.shape.c, problem.shape.spatial);
    in_parts(&x, spatial, |start, y| {
        map.apply(0, start / spatial % c, y, &mut [])
    })
}
