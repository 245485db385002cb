//! From chosen kernels to the launches of a program.

use std::ops::Range;

use op_spec::chain::{Chain, ChainProblem, Layer, LayerProblem};
use op_spec::{ClampProblem, PointwiseProblem};

use super::Options;
use super::table::{Kernels, Partial};
use crate::device::Tensor;
use crate::error::Result;
use crate::ops::conv::Filters;
use crate::ops::fused::{
    clamp_multiply_channel_max, group_norm_scale, group_norm_scale_max_pool2d_clamp,
    max_pool2d_clamp, multiply_instance_norm_clamp_multiply_channel_max, scale_max_pool2d_clamp,
};
use crate::ops::{self, Affine, ConvOptions, ConvolutionParameters, Preparations};
use crate::ops::{any_shape, conv2d_group_norm_scale_max_pool_clamp as one_launch_2d};
use crate::ops::{conv3d_multiply_instance_norm_clamp_multiply_max as one_launch_3d, fused};
use crate::program::{ProgramBuilder, Value};

/// A program in the making, with what the layers of a chain need.
pub(super) struct Appending<'a> {
    pub(super) program: &'a mut ProgramBuilder,
    pub(super) chain: &'a Chain,
    pub(super) problem: &'a ChainProblem,
    /// One for each parameter of the chain.
    pub(super) tensors: &'a [Tensor],
    /// The same as values, once a layer has asked for them.
    pub(super) values: Vec<Option<Value>>,
    pub(super) preparations: &'a Preparations,
    pub(super) options: &'a Options,
}

impl<'a> Appending<'a> {
    /// Parameter number `index` of a layer, if it has it.
    fn parameter(&mut self, layer: usize, index: usize) -> Option<Value> {
        let slot = *self.chain.parameters_of(layer).get(index)?;
        let tensor = &self.tensors[slot];
        let program = &mut *self.program;
        Some(*self.values[slot].get_or_insert_with(|| program.parameter(tensor)))
    }

    /// The first parameter of a layer, which has one.
    fn first(&mut self, layer: usize) -> Value {
        self.parameter(layer, 0)
            .expect("the chain's table has the layer's first parameter")
    }

    fn filters(&mut self, layer: usize) -> Filters {
        Filters {
            weight: self.first(layer),
            bias: self.parameter(layer, 1),
        }
    }

    fn affine(&mut self, layer: usize) -> Affine {
        Affine {
            weight: self.parameter(layer, 0),
            bias: self.parameter(layer, 1),
        }
    }

    /// The parameters of a run that begins with a convolution.
    fn convolution(&mut self, layers: &Range<usize>) -> ConvolutionParameters<'a> {
        let find = |wanted: fn(&Layer) -> bool| {
            let mut layers = layers.clone();
            layers.find(|&layer| wanted(&self.chain.layers()[layer]))
        };
        let norm = find(|layer| matches!(layer, Layer::GroupNorm(_) | Layer::InstanceNorm(_)));
        let scale = find(|layer| matches!(layer, Layer::Scale(_)));
        let (Some(norm), Some(scale)) = (norm, scale) else {
            unreachable!("the form of a fused convolution has a norm and a scale");
        };
        ConvolutionParameters {
            filters: self.filters(layers.start),
            norm: self.affine(norm),
            factors: self.first(scale),
            layer: layers.start,
            preparations: self.preparations,
        }
    }

    /// Appends a run of layers.
    pub(super) fn run(
        &mut self,
        x: Value,
        layers: &Range<usize>,
        kernels: &Kernels,
    ) -> Result<Value> {
        match kernels {
            Kernels::OneLaunch2d(form, launch) => {
                let parameters = self.convolution(layers);
                one_launch_2d::append(self.program, x, &parameters, form, launch)
            }
            Kernels::OneLaunch3d(form, launch) => {
                let parameters = self.convolution(layers);
                one_launch_3d::append(self.program, x, &parameters, form, launch)
            }
            Kernels::ConvolutionThenPool(form, choice) => {
                let parameters = self.convolution(layers);
                any_shape::append_pooling(self.program, x, &parameters, form, choice)
            }
            Kernels::ConvolutionThenReduce(form, convolution) => {
                let parameters = self.convolution(layers);
                any_shape::append_reducing(self.program, x, &parameters, form, convolution)
            }
            Kernels::Convolution(algorithm) => {
                let options = ConvOptions::algorithm(*algorithm);
                let options = options.workspace_bytes(self.options.workspace_bytes);
                self.operator(x, layers.start, &options)
            }
            Kernels::Partial(partial) => self.partial(x, layers, *partial),
            Kernels::Operator => self.operator(x, layers.start, &ConvOptions::default()),
        }
    }

    fn operator(&mut self, x: Value, layer: usize, options: &ConvOptions) -> Result<Value> {
        let parameters = [0, 1].map(|index| self.parameter(layer, index));
        let problem = &self.problem.steps[layer].problem;
        ops::append(self.program, x, problem, parameters, options)
    }

    fn partial(&mut self, x: Value, layers: &Range<usize>, partial: Partial) -> Result<Value> {
        use LayerProblem::{ChannelMax, GroupNorm, InstanceNorm, MaxPool2d, Pointwise};
        let (first, steps) = (layers.start, &self.problem.steps[layers.clone()]);
        let problems: Vec<LayerProblem> = steps.iter().map(|step| step.problem).collect();
        match (partial, &problems[..]) {
            (
                Partial::NormScalePoolClamp,
                [GroupNorm(norm), _, MaxPool2d(pool), Pointwise(clamp)],
            ) => {
                let (affine, factor) = (self.affine(first), self.first(first + 1));
                let clamp = &as_clamp(clamp);
                group_norm_scale_max_pool2d_clamp::append(
                    self.program,
                    x,
                    affine,
                    factor,
                    norm,
                    pool,
                    clamp,
                )
            }
            (
                Partial::ScaleNormClampScaleMax,
                [_, InstanceNorm(norm), Pointwise(clamp), _, ChannelMax(max)],
            ) => {
                let (factor, affine) = (self.first(first), self.affine(first + 1));
                let clamp = &as_clamp(clamp);
                multiply_instance_norm_clamp_multiply_channel_max::append(
                    self.program,
                    x,
                    affine,
                    factor,
                    norm,
                    clamp,
                    max,
                )
            }
            (Partial::NormScale, [GroupNorm(norm), _]) => {
                let (affine, factor) = (self.affine(first), self.first(first + 1));
                group_norm_scale::append(self.program, x, affine, factor, norm)
            }
            (Partial::NormFoldedScale, [GroupNorm(norm), _]) => {
                let (affine, factor) = (self.affine(first), self.first(first + 1));
                let (program, preparations) = (&mut *self.program, self.preparations);
                let folded = fused::fold_scale(program, preparations, first, affine, factor)?;
                // It has weight and bias now, whatever it had before.
                let mut norm = *norm;
                (norm.weight, norm.bias) = (true, true);
                ops::group_norm::append(self.program, x, folded, norm.geometry()?)
            }
            (Partial::ScalePoolClamp, [_, MaxPool2d(pool), Pointwise(clamp)]) => {
                let factor = self.first(first);
                scale_max_pool2d_clamp::append(self.program, x, factor, pool, &as_clamp(clamp))
            }
            (Partial::PoolClamp, [MaxPool2d(pool), Pointwise(clamp)]) => {
                max_pool2d_clamp::append(self.program, x, pool, &as_clamp(clamp))
            }
            (Partial::ClampScaleMax, [Pointwise(clamp), _, ChannelMax(max)]) => {
                let (factor, clamp) = (self.first(first + 1), &as_clamp(clamp));
                clamp_multiply_channel_max::append(self.program, x, factor, clamp, max)
            }
            (partial, _) => unreachable!("the table gives {partial:?} its own layers"),
        }
    }
}

/// The clamp of a layer that the table has found to be one.
fn as_clamp(function: &PointwiseProblem) -> ClampProblem {
    let clamp = function.as_clamp();
    clamp.unwrap_or_else(|| unreachable!("{} is no clamp", function.function.operator()))
}
