//! From chosen kernels to the launches of a program.

use std::ops::Range;

use op_spec::chain::{Layer, LayerProblem};
use op_spec::{BatchNormProblem, ClampProblem, PointwiseProblem};

use super::choice::Chosen;
use super::question::Question;
use super::table::Kernels;
use crate::device::Tensor;
use crate::error::Result;
use crate::ops::batch_norm::{self, Folded, Statistics};
use crate::ops::conv::{Filters, append_pad};
use crate::ops::forms::MappedNorm;
use crate::ops::fused::group_norm_scale_pointwise::{self, Tail};
use crate::ops::fused::{
    clamp_multiply_channel_max, group_norm_scale, group_norm_scale_max_pool2d_clamp,
    max_pool2d_clamp, multiply_instance_norm_clamp_multiply_channel_max, scale_max_pool2d_clamp,
};
use crate::ops::{self, Affine, ConvolutionParameters, Preparations};
use crate::ops::{any_shape, conv2d_group_norm_scale_max_pool_clamp as one_launch_2d};
use crate::ops::{conv3d_multiply_instance_norm_clamp_multiply_max as one_launch_3d, fused};
use crate::program::{ProgramBuilder, Value};

/// A program in the making, with what the layers of a chain need.
pub(super) struct Appending<'a> {
    pub(super) program: &'a mut ProgramBuilder,
    pub(super) of: Question<'a>,
    /// The chain's further inputs.
    pub(super) inputs: &'a [Value],
    /// One for each parameter of the chain.
    pub(super) tensors: &'a [Tensor],
    /// The same as values, once a layer has asked for them.
    pub(super) values: Vec<Option<Value>>,
    pub(super) preparations: &'a Preparations,
}

impl<'a> Appending<'a> {
    /// Parameter number `index` of a layer, if it has it.
    fn parameter(&mut self, layer: usize, index: usize) -> Option<Value> {
        let slot = *self.of.chain.parameters_of(layer).get(index)?;
        let tensor = &self.tensors[slot];
        let program = &mut *self.program;
        Some(*self.values[slot].get_or_insert_with(|| program.parameter(tensor)))
    }

    /// The first parameter of a layer, which has one.
    fn first(&mut self, layer: usize) -> Value {
        self.parameter(layer, 0)
            .expect("the chain's table has the layer's first parameter")
    }

    /// The first layer of a run that is `wanted`, of which the table has seen that it is there.
    fn find(&self, layers: &Range<usize>, wanted: fn(&Layer) -> bool) -> usize {
        let found = (layers.clone()).find(|&layer| wanted(&self.of.chain.layers()[layer]));
        found.expect("the table gives kernels their own layers")
    }

    /// The weight and the bias of a run's norm.
    fn affine(&mut self, layers: &Range<usize>) -> Affine {
        use Layer::{GroupNorm, InstanceNorm, LayerNorm};
        let is_norm =
            |layer: &Layer| matches!(layer, GroupNorm(_) | InstanceNorm(_) | LayerNorm(_));
        let norm = self.find(layers, is_norm);
        Affine {
            weight: self.parameter(norm, 0),
            bias: self.parameter(norm, 1),
        }
    }

    /// What a run multiplies with each channel.
    fn factors(&mut self, layers: &Range<usize>) -> Value {
        let scale = self.find(layers, |layer| matches!(layer, Layer::Scale(_)));
        self.first(scale)
    }

    /// The parameters of the batch norm `layer`, as a factor and a summand for each channel.
    fn folded_batch_norm(&mut self, layer: usize, problem: &BatchNormProblem) -> Result<Folded> {
        let statistics = Statistics {
            mean: self.first(layer),
            variance: (self.parameter(layer, 1)).expect("a batch norm has both statistics"),
            weight: self.parameter(layer, 2),
            bias: self.parameter(layer, 3),
        };
        let (program, preparations) = (&mut *self.program, self.preparations);
        batch_norm::folded(program, preparations, layer, statistics, problem)
    }

    /// What the layer `layer` multiplies with each channel, or where that is not above 0, if there is one.
    fn factors_of(&mut self, layer: Option<usize>) -> Option<Value> {
        layer.map(|layer| self.first(layer))
    }

    /// The parameters of a run that begins with a convolution, and multiplies in the layer `factors`.
    fn convolution(
        &mut self,
        layers: &Range<usize>,
        factors: Option<usize>,
    ) -> ConvolutionParameters<'a> {
        ConvolutionParameters {
            filters: Filters {
                weight: self.first(layers.start),
                bias: self.parameter(layers.start, 1),
            },
            norm: self.affine(layers),
            folded: None,
            factors: self.factors_of(factors),
            layer: layers.start,
            preparations: self.preparations,
        }
    }

    /// Whether the layer is a convolution that wants a border around its input.
    fn has_pad(&self, layer: usize) -> bool {
        match &self.of.problem.steps[layer].problem {
            LayerProblem::Conv1d(conv) => conv.pad.is_some(),
            LayerProblem::Conv2d(conv) => conv.pad.is_some(),
            LayerProblem::Conv3d(conv) => conv.pad.is_some(),
            _ => false,
        }
    }

    /// Puts the border around `x` that the convolution `layer` wants there, if it is one and does.
    fn bordered(&mut self, x: Value, layer: usize) -> Result<Value> {
        match &self.of.problem.steps[layer].problem {
            LayerProblem::Conv1d(conv) => append_pad(self.program, x, conv.pad.as_ref()),
            LayerProblem::Conv2d(conv) => append_pad(self.program, x, conv.pad.as_ref()),
            LayerProblem::Conv3d(conv) => append_pad(self.program, x, conv.pad.as_ref()),
            _ => Ok(x),
        }
    }

    /// Appends a run of layers.
    pub(super) fn run(&mut self, x: Value, run: &Chosen) -> Result<Value> {
        let layers = &run.layers;
        let x = match &run.kernels {
            // A product asks how its input lies.
            kernels if kernels.product().is_some() && !self.has_pad(layers.start) => x,
            _ => self.program.in_order(x)?,
        };
        let x = match &run.kernels {
            // An operator sees to it by itself.
            Kernels::Operator(_) => x,
            _ => self.bordered(x, layers.start)?,
        };
        match &run.kernels {
            Kernels::OneLaunch2d(form, launch) => {
                let parameters = self.convolution(layers, form.factors);
                one_launch_2d::append(self.program, x, &parameters, form, launch)
            }
            Kernels::OneLaunch3d(form, launch) => {
                let parameters = self.convolution(layers, Some(form.multiply[0]));
                one_launch_3d::append(self.program, x, &parameters, form, launch)
            }
            Kernels::ConvolutionThenPool(form, choice) => {
                let parameters = self.convolution(layers, form.factors);
                any_shape::append_pooling(self.program, x, &parameters, form, choice)
            }
            Kernels::ConvolutionThenReduce(form, convolution) => {
                let parameters = self.convolution(layers, Some(form.multiply[0]));
                any_shape::append_reducing(self.program, x, &parameters, form, convolution)
            }
            Kernels::ConvolutionThenMap(form, convolution) => {
                let parameters = self.convolution(layers, None);
                let MappedNorm { before, behind, .. } = form.norm;
                let behind = behind.map(|behind| behind.layer);
                let factors = [before, behind].map(|layer| self.factors_of(layer));
                let program = &mut *self.program;
                any_shape::append_mapped(program, x, &parameters, form, factors, convolution)
            }
            Kernels::MappedNorm(norm) => {
                let affine = self.affine(layers);
                let tail = Tail {
                    before: self.factors_of(norm.before),
                    scale: self.factors_of(norm.behind.map(|behind| behind.layer)),
                    prelu: norm.behind.and_then(|behind| behind.prelu),
                    functions: &norm.functions,
                };
                let geometry = norm.norm.geometry()?;
                group_norm_scale_pointwise::append(self.program, x, affine, geometry, tail)
            }
            Kernels::Convolution(form, convolution) => {
                let norm = Affine {
                    weight: None,
                    bias: None,
                };
                let folded = match &form.batch_norm {
                    Some((layer, problem)) => Some(self.folded_batch_norm(*layer, problem)?),
                    None => None,
                };
                let parameters = ConvolutionParameters {
                    filters: Filters {
                        weight: self.first(layers.start),
                        bias: self.parameter(layers.start, 1),
                    },
                    norm,
                    folded,
                    factors: None,
                    layer: layers.start,
                    preparations: self.preparations,
                };
                any_shape::append_epilogue(self.program, x, &parameters, form, convolution)
            }
            Kernels::Partial => self.partial(x, layers, false),
            Kernels::FoldedScale => self.partial(x, layers, true),
            Kernels::Pointwise => {
                let steps = self.of.problem.steps[layers.clone()].iter();
                let functions = steps.map(|step| match step.problem {
                    LayerProblem::Pointwise(problem) => problem,
                    _ => unreachable!("the table gives kernels their own layers"),
                });
                let functions: Vec<PointwiseProblem> = functions.collect();
                ops::pointwise::append(self.program, x, &functions)
            }
            Kernels::Operator(options) => {
                let problem = &self.of.problem.steps[layers.start].problem;
                if let LayerProblem::BatchNorm(problem) = problem {
                    let folded = self.folded_batch_norm(layers.start, problem)?;
                    return batch_norm::append_folded(self.program, x, folded, problem);
                }
                // A residual stands in the place of a parameter.
                let parameters = match self.of.chain.input_of(layers.start) {
                    Some(input) => [Some(self.inputs[input]), None, None, None],
                    None => std::array::from_fn(|index| self.parameter(layers.start, index)),
                };
                ops::append(self.program, x, problem, parameters, options)
            }
        }
    }

    /// Several operators without a convolution. The layers say which kernels do them.
    fn partial(&mut self, x: Value, layers: &Range<usize>, folds_scale: bool) -> Result<Value> {
        use LayerProblem::{ChannelMax, GroupNorm, InstanceNorm, MaxPool2d, Pointwise, Scale};
        let steps = &self.of.problem.steps[layers.clone()];
        let problems: Vec<LayerProblem> = (steps.iter())
            .map(|step| match step.problem {
                // The table has seen that it has no weight and no bias.
                LayerProblem::LayerNorm(norm) => norm.as_group_norm().into(),
                problem => problem,
            })
            .collect();
        match &problems[..] {
            [GroupNorm(norm), Scale(_), MaxPool2d(pool), Pointwise(clamp)] => {
                let (affine, factors) = (self.affine(layers), self.factors(layers));
                group_norm_scale_max_pool2d_clamp::append(
                    self.program,
                    x,
                    affine,
                    factors,
                    norm,
                    pool,
                    &as_clamp(clamp),
                )
            }
            [
                Scale(_),
                InstanceNorm(norm),
                Pointwise(clamp),
                Scale(_),
                ChannelMax(max),
            ] => {
                let (affine, factors) = (self.affine(layers), self.factors(layers));
                multiply_instance_norm_clamp_multiply_channel_max::append(
                    self.program,
                    x,
                    affine,
                    factors,
                    norm,
                    &as_clamp(clamp),
                    max,
                )
            }
            [GroupNorm(norm), Scale(_)] if folds_scale => {
                let (affine, factors) = (self.affine(layers), self.factors(layers));
                let (program, preparations) = (&mut *self.program, self.preparations);
                let folded =
                    fused::fold_scale(program, preparations, layers.start, affine, factors)?;
                // It has weight and bias now, whatever it had before.
                let mut norm = *norm;
                (norm.weight, norm.bias) = (true, true);
                ops::group_norm::append(self.program, x, folded, norm.geometry()?)
            }
            [GroupNorm(norm), Scale(_)] => {
                let (affine, factors) = (self.affine(layers), self.factors(layers));
                group_norm_scale::append(self.program, x, affine, factors, norm)
            }
            [Scale(_), MaxPool2d(pool), Pointwise(clamp)] => {
                let (factors, clamp) = (self.factors(layers), &as_clamp(clamp));
                scale_max_pool2d_clamp::append(self.program, x, factors, pool, clamp)
            }
            [MaxPool2d(pool), Pointwise(clamp)] => {
                max_pool2d_clamp::append(self.program, x, pool, &as_clamp(clamp))
            }
            [Pointwise(clamp), Scale(_), ChannelMax(max)] => {
                let (factors, clamp) = (self.factors(layers), &as_clamp(clamp));
                clamp_multiply_channel_max::append(self.program, x, factors, clamp, max)
            }
            _ => unreachable!("the table gives kernels their own layers"),
        }
    }
}

/// The clamp of a layer that the table has found to be one.
fn as_clamp(function: &PointwiseProblem) -> ClampProblem {
    let clamp = function.as_clamp();
    clamp.unwrap_or_else(|| unreachable!("{} is no clamp", function.function.operator()))
}
