//! What is done with the values of a channel, one by one.

use op_spec::chain::Pointwise;
use op_spec::{BatchNormProblem, PointwiseProblem};

use super::pointwise::map;

/// A function of single values, with the parameters of its layer.
pub(super) enum Map<'a> {
    Function(PointwiseProblem),
    Scale(&'a [f32]),
    /// A weight and a bias for each element of a sample.
    Elements(Option<&'a [f32]>, Option<&'a [f32]>),
    /// With its parameters in PyTorch's order.
    BatchNorm(BatchNormProblem, [Option<&'a [f32]>; 4]),
}

impl<'a> Map<'a> {
    /// `parameter` gives the parameters of its layer by their index in PyTorch's order.
    ///
    /// # Panics
    /// If one is missing that the layer cannot do without.
    pub(super) fn new(
        pointwise: &Pointwise,
        parameter: impl Fn(usize) -> Option<&'a [f32]>,
    ) -> Self {
        match pointwise {
            Pointwise::Function(problem) => Map::Function(*problem),
            Pointwise::Scale(_) => Map::Scale(parameter(0).expect("a factor for each channel")),
            Pointwise::LayerAffine(problem) => Map::Elements(
                parameter(0).filter(|_| problem.weight),
                parameter(1).filter(|_| problem.bias),
            ),
            Pointwise::BatchNorm(problem) => Map::BatchNorm(*problem, [0, 1, 2, 3].map(parameter)),
        }
    }

    /// On values of channel `c`: of elements with a weight and a bias each, all of it.
    pub(super) fn apply(&self, c: usize, x: &mut [f32]) {
        match self {
            Map::Function(problem) => map(problem, x),
            Map::Scale(factors) => {
                let factor = factors[c];
                x.iter_mut().for_each(|v| *v *= factor);
            }
            Map::Elements(weight, bias) => {
                // A plane is a whole channel of a sample.
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
        }
    }
}
