//! Parameters of norms, and parameters that are folded into a gain and a shift for each channel.

use op_spec::BatchNormProblem;
use op_spec::graph::{ChannelAffine, LayerProblem};

use super::Appending;
use crate::error::Result;
use crate::operators::batch_norm::{self, Folded, OfBatch, Statistics};
use crate::operators::{Affine, arithmetic};
use crate::program::Value;

impl<'a> Appending<'a> {
    /// The weight and the bias of the norm `layer`.
    pub(super) fn affine(&self, layer: usize) -> Affine {
        match &self.of.problem.steps[layer].problem {
            LayerProblem::BatchNorm(problem) => self.of_batch_norm(layer, problem).0,
            _ => Affine {
                weight: self.parameter(layer, 0),
                bias: self.parameter(layer, 1),
            },
        }
    }

    /// The norm `layer`, if its statistics are the batch's.
    pub(super) fn of_batch(&self, layer: usize) -> Option<OfBatch<'a>> {
        match &self.of.problem.steps[layer].problem {
            LayerProblem::BatchNorm(problem) => Some(OfBatch {
                problem,
                running: self.of_batch_norm(layer, problem).1,
            }),
            _ => None,
        }
    }

    /// Returns weight and bias of a norm with the batch's statistics, and the running statistics that it
    /// renews.
    fn of_batch_norm(
        &self,
        layer: usize,
        problem: &BatchNormProblem,
    ) -> (Affine, [Option<Value>; 2]) {
        let parameters = std::array::from_fn(|index| self.parameter(layer, index));
        batch_norm::of_layer(problem, parameters)
    }

    /// Returns the parameters of these layers, folded into a gain and a shift for each channel.
    pub(super) fn folded(&mut self, layers: &[(usize, ChannelAffine)]) -> Result<Option<Folded>> {
        let mut folded = None;
        for &(layer, affine) in layers {
            folded = Some(match affine {
                ChannelAffine::BatchNorm(problem) => self.folded_batch_norm(layer, &problem)?,
                ChannelAffine::Arithmetic(problem) => {
                    let (of, other) = ([layers[0].0, layer], self.first(layer));
                    let (program, preparations) = (&mut *self.program, self.preparations);
                    arithmetic::folded(program, preparations, of, other, folded, &problem)?
                }
            });
        }
        Ok(folded)
    }

    /// Running statistics and parameters of the batch norm `layer`.
    pub(super) fn running(&self, layer: usize) -> Statistics {
        Statistics {
            mean: self.first(layer),
            variance: (self.parameter(layer, 1)).expect("a batch norm has both statistics"),
            weight: self.parameter(layer, 2),
            bias: self.parameter(layer, 3),
        }
    }

    /// Returns the parameters of the batch norm `layer`, folded into a gain and a shift for each channel.
    fn folded_batch_norm(&mut self, layer: usize, problem: &BatchNormProblem) -> Result<Folded> {
        let statistics = self.running(layer);
        let (program, preparations) = (&mut *self.program, self.preparations);
        batch_norm::folded(program, preparations, layer, statistics, problem)
    }
}
