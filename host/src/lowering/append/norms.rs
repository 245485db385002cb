//! Parameters of norms, and parameters that are folded into a gain and a shift for each channel.

use launch_config::KernelGeometry;
use op_spec::BatchNormProblem;
use op_spec::graph::{ChannelAffine, LayerProblem};

use super::super::epilogue::{NormScale, NormScaleKernels};
use super::Appending;
use crate::error::Result;
use crate::operators::batch_norm_parameters::{self, Folded, OfBatch, Statistics};
use crate::operators::fused::group_norm_scale_pointwise::{self, Tail};
use crate::operators::fused::{fold_scale, group_norm_scale};
use crate::operators::{Affine, arithmetic, group_norm};
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
        batch_norm_parameters::of_layer(problem, parameters)
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
        batch_norm_parameters::folded(program, preparations, layer, statistics, problem)
    }

    /// Appends a norm and a scale.
    pub(super) fn norm_scale(&mut self, x: Value, of: &NormScale) -> Result<Value> {
        let (layer, mut norm) = of.norm;
        let (affine, scale) = (self.affine(layer), self.first(of.scale));
        let (program, preparations) = (&mut *self.program, self.preparations);
        match of.by {
            NormScaleKernels::Resident(shape) => {
                let norm = norm.geometry()?;
                group_norm_scale::append_resident(program, x, affine, scale, norm, shape)
            }
            NormScaleKernels::Separate => {
                let scale = Some(scale);
                let tail = Tail {
                    scale,
                    ..Tail::NONE
                };
                group_norm_scale_pointwise::append(program, x, affine, norm.geometry()?, tail)
            }
            NormScaleKernels::Folded => {
                let affine = fold_scale(program, preparations, layer, affine, scale)?;
                // The folded norm always has weight and bias.
                (norm.weight, norm.bias) = (true, true);
                group_norm::append(program, x, affine, norm.geometry()?)
            }
        }
    }
}
