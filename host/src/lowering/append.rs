//! From lowered regions to the launches of a program.

use launch_config::KernelGeometry;
use op_spec::graph::{LayerProblem, Operand};
use op_spec::{BatchNormProblem, Layout, PointwiseProblem};

use super::choice::Chosen;
use super::epilogue::{Map, MaxOverChannels, Plan, Pool, Store};
use super::producer::Producer;
use super::region::Query;
use crate::error::Result;
use crate::operators::batch_norm::{self, Folded, Statistics};
use crate::operators::conv::{Filters, append_pad};
use crate::operators::fused::group_norm_scale_pointwise::{Tail, normalise_and_map};
use crate::operators::fused::{
    RowMoments, clamp_multiply_channel_max, depthwise, fold_scale, group_norm_scale,
    group_norm_scale_max_pool2d_clamp, implicit_gemm, max_pool2d_clamp,
    multiply_instance_norm_clamp_multiply_channel_max, scale_max_pool2d_clamp,
};
use crate::operators::group_norm;
use crate::operators::norm_statistics::{self, NormInput};
use crate::operators::one_launch::{
    conv2d_group_norm_scale_max_pool_clamp as one_launch_2d,
    conv3d_multiply_instance_norm_clamp_multiply_max as one_launch_3d,
};
use crate::operators::{self, Affine, ConvolutionParameters, Convolved, Preparations, pointwise};
use crate::program::{ProgramBuilder, Value};
use launch_config::elementwise::Bounds;
use launch_config::implicit_gemm::Epilogue as StoreEpilogue;
use launch_config::norm::NormGeometry;

/// A program in the making, with what the layers of a graph need.
pub(crate) struct Appending<'a> {
    pub(crate) program: &'a mut ProgramBuilder,
    pub(crate) of: Query<'a>,
    /// The graph's inputs, the first one first.
    pub(crate) inputs: &'a [Value],
    /// What each layer gives, once it is appended as the last of a region.
    pub(crate) outputs: Vec<Option<Value>>,
    /// The graph's parameters, in the order of its table.
    pub(crate) parameters: &'a [Value],
    pub(crate) preparations: &'a Preparations,
}

/// The output of a producer.
enum Produced {
    Tensor(Value),
    /// A convolution's output with moments of each channel.
    Convolved(Convolved, Option<RowMoments>),
}

impl<'a> Appending<'a> {
    /// Parameter `index` of a layer, if it has one.
    fn parameter(&self, layer: usize, index: usize) -> Option<Value> {
        let slot = *self.of.graph.parameters_of(layer).get(index)?;
        Some(self.parameters[slot])
    }

    /// The first parameter of a layer, which has one.
    fn first(&self, layer: usize) -> Value {
        self.parameter(layer, 0)
            .expect("the graph's table has the layer's first parameter")
    }

    /// The weight and the bias of the norm `layer`.
    fn affine(&self, layer: usize) -> Affine {
        Affine {
            weight: self.parameter(layer, 0),
            bias: self.parameter(layer, 1),
        }
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

    /// The parameters of a region that begins with the convolution `layer`.
    fn convolution(&mut self, layer: usize, plan: &Plan) -> Result<ConvolutionParameters<'a>> {
        let none = Affine {
            weight: None,
            bias: None,
        };
        let norm = plan.norm().map_or(none, |(norm, _)| self.affine(norm));
        // Producers that pool look at the signs of a norm's weight.
        let norm = match plan {
            Plan::Pool(pool) if pool.in_producer => norm.narrow(self.program, self.of.dtype)?,
            _ => norm,
        };
        let folded = match plan {
            Plan::Store(Store {
                batch_norm: Some((layer, problem)),
                ..
            }) => Some(self.folded_batch_norm(*layer, problem)?),
            _ => None,
        };
        let factors = match plan {
            Plan::Pool(pool) => pool.factors,
            Plan::MaxOverChannels(max) => Some(max.factors),
            _ => None,
        };
        Ok(ConvolutionParameters {
            filters: Filters {
                weight: self.first(layer),
                bias: self.parameter(layer, 1),
            },
            norm,
            folded,
            factors: factors.map(|layer| self.first(layer)),
            layer,
            preparations: self.preparations,
        })
    }

    /// Pads `x` if `layer` is a convolution with separate padding.
    fn padded(&mut self, x: Value, layer: usize) -> Result<Value> {
        match &self.of.problem.steps[layer].problem {
            LayerProblem::Conv1d(conv) => append_pad(self.program, x, conv.pad.as_ref()),
            LayerProblem::Conv2d(conv) => append_pad(self.program, x, conv.pad.as_ref()),
            LayerProblem::Conv3d(conv) => append_pad(self.program, x, conv.pad.as_ref()),
            _ => Ok(x),
        }
    }

    /// A value of the graph, which earlier regions gave.
    fn operand(&self, operand: Operand) -> Value {
        match operand {
            Operand::Input(input) => self.inputs[input],
            Operand::Layer(layer) => self.outputs[layer].expect("a region before gives it"),
        }
    }

    /// Appends the launches of a region.
    pub(crate) fn region(&mut self, region: &Chosen) -> Result<()> {
        let [start, last] = [region.layers[0], region.layers[region.layers.len() - 1]];
        let x = self.operand(self.of.graph.operands(start)[0]);
        self.outputs[last] = Some(self.region_of(x, region, start, last)?);
        Ok(())
    }

    /// The same from `x` on, the first operand of the layer `start`.
    fn region_of(&mut self, x: Value, region: &Chosen, start: usize, last: usize) -> Result<Value> {
        let (lowered, plan) = (&region.lowered, &region.lowered.plan);
        let output = &self.of.problem.steps[last].output;
        if output.iter().product::<usize>() == 0 {
            return self.program.tensor(output, self.program.dtype(x));
        }
        // The producer reads NHWC where it lies; anything else is made dense NCHW.
        let x = match lowered.reads() {
            Layout::Nhwc => x,
            Layout::Nchw => self.program.in_order(x)?,
        };
        let produced = match &lowered.producer {
            Producer::Tensor if matches!(plan, Plan::Whole) => {
                return self.layer(x, start);
            }
            Producer::Direct => return self.layer(x, start),
            Producer::Tensor => Produced::Tensor(x),
            Producer::OneLaunch2d(launch) => {
                let x = self.padded(x, start)?;
                let parameters = self.convolution(start, plan)?;
                return one_launch_2d::append(self.program, x, &parameters, output, launch);
            }
            Producer::OneLaunch3d(launch) => {
                let x = self.padded(x, start)?;
                let parameters = self.convolution(start, plan)?;
                return one_launch_3d::append(self.program, x, &parameters, output, launch);
            }
            Producer::ImplicitGemm(gemm) => {
                let x = self.padded(x, start)?;
                let parameters = self.convolution(start, plan)?;
                let epilogue = match plan {
                    Plan::Store(store) => store.epilogue,
                    _ => StoreEpilogue::NONE,
                };
                let output = self.produced_shape(start, plan);
                let program = &mut *self.program;
                let gemm = implicit_gemm::append(program, x, &parameters, gemm, epilogue, output)?;
                Produced::Convolved(gemm, lowered.moments)
            }
            Producer::Depthwise(geometry) => {
                let x = self.padded(x, start)?;
                let parameters = self.convolution(start, plan)?;
                let output = self.produced_shape(start, plan);
                let program = &mut *self.program;
                let y = depthwise::append(program, x, &parameters, geometry, output)?;
                Produced::Convolved(y, lowered.moments)
            }
        };
        self.epilogue(produced, plan)
    }

    /// The shape of what the producer, a convolution, writes.
    fn produced_shape(&self, layer: usize, plan: &'a Plan) -> &'a [usize] {
        match plan {
            Plan::Pool(pool) if pool.in_producer => &pool.output,
            _ => &self.of.problem.steps[layer].output,
        }
    }

    /// Appends a layer by its operator's own kernels.
    fn layer(&mut self, x: Value, layer: usize) -> Result<Value> {
        let problem = &self.of.problem.steps[layer].problem;
        if let LayerProblem::BatchNorm(problem) = problem {
            let folded = self.folded_batch_norm(layer, problem)?;
            return batch_norm::append_folded(self.program, x, folded, problem);
        }
        // A residual stands in the place of a parameter.
        let parameters = match *self.of.graph.operands(layer) {
            [_, residual] => {
                let residual = self.operand(residual);
                [Some(self.program.in_order(residual)?), None, None, None]
            }
            _ => std::array::from_fn(|index| self.parameter(layer, index)),
        };
        operators::append(self.program, x, problem, parameters)
    }

    /// Appends the epilogue of a producer.
    fn epilogue(&mut self, produced: Produced, plan: &Plan) -> Result<Value> {
        match plan {
            Plan::Whole | Plan::Store(_) => Ok(produced.value()),
            Plan::Map(map) => self.map(&produced, map),
            Plan::Pool(pool) => self.pool(&produced, pool),
            Plan::MaxOverChannels(max) => self.max_over_channels(&produced, max),
            Plan::NormScale(map) => {
                let (layer, norm) = &map.norm;
                let scale = map.behind.map(|behind| self.first(behind.layer));
                let (affine, x) = (self.affine(*layer), produced.value());
                group_norm_scale::append(self.program, x, affine, scale, norm)
            }
            Plan::FoldedScale(map) => {
                let (layer, mut norm) = map.norm;
                let affine = self.affine(layer);
                let scale = map.behind.map(|behind| self.first(behind.layer));
                let (program, preparations) = (&mut *self.program, self.preparations);
                let affine = match scale {
                    Some(scale) => fold_scale(program, preparations, layer, affine, scale)?,
                    None => affine,
                };
                // The folded norm always has weight and bias.
                (norm.weight, norm.bias) = (true, true);
                group_norm::append(program, produced.value(), affine, norm.geometry()?)
            }
            Plan::List(list) => pointwise::append(self.program, produced.value(), list),
        }
    }

    /// Appends the statistics of a norm of the producer's output.
    fn statistics(
        &mut self,
        produced: &Produced,
        layer: usize,
        norm: NormGeometry,
    ) -> Result<NormInput> {
        let affine = self.affine(layer);
        match produced {
            Produced::Convolved(y, Some(moments)) => {
                y.statistics(self.program, affine, norm, *moments)
            }
            _ => norm_statistics::statistics(self.program, produced.value(), affine, norm),
        }
    }

    fn map(&mut self, produced: &Produced, map: &Map) -> Result<Value> {
        let (layer, norm) = &map.norm;
        let geometry = norm.geometry()?;
        let input = self.statistics(produced, *layer, geometry)?;
        let tail = Tail {
            before: map.before.map(|layer| self.first(layer)),
            scale: map.behind.map(|behind| self.first(behind.layer)),
            prelu: map.behind.and_then(|behind| behind.prelu),
            functions: &map.functions,
        };
        normalise_and_map(self.program, &input, tail)
    }

    fn pool(&mut self, produced: &Produced, pool: &Pool) -> Result<Value> {
        let scale = pool.factors.map(|layer| self.first(layer));
        let functions = &pool.functions[..];
        let input = match &pool.norm {
            Some((layer, norm)) => Some(self.statistics(produced, *layer, norm.geometry()?)?),
            None => None,
        };
        if let (Some(input), true) = (&input, pool.in_producer) {
            let tail = Tail {
                scale,
                functions,
                ..Tail::NONE
            };
            return normalise_and_map(self.program, input, tail);
        }
        // The pooling kernels end in a clamp. Other functions take a launch of their own over the pooled
        // pixels.
        let clamp = functions.first().and_then(PointwiseProblem::as_clamp);
        let (bounds, rest) = match clamp {
            Some(clamp) => (Bounds::of(&clamp), &functions[1..]),
            None => (Bounds::NONE, functions),
        };
        let (program, x, of) = (&mut *self.program, produced.value(), &pool.pool);
        let pooled = match (input, scale) {
            (Some(input), scale) => {
                group_norm_scale_max_pool2d_clamp::append(program, &input, scale, of, bounds)?
            }
            (None, Some(scale)) => scale_max_pool2d_clamp::append(program, x, scale, of, bounds)?,
            (None, None) => max_pool2d_clamp::append(program, x, of, bounds)?,
        };
        pointwise::append(program, pooled, rest)
    }

    fn max_over_channels(&mut self, produced: &Produced, max: &MaxOverChannels) -> Result<Value> {
        let factors = self.first(max.factors);
        let (clamp, of) = (&max.clamp, &max.channel_max);
        match &max.norm {
            Some((layer, norm)) => {
                let input = self.statistics(produced, *layer, norm.geometry()?)?;
                multiply_instance_norm_clamp_multiply_channel_max::append(
                    self.program,
                    &input,
                    factors,
                    clamp,
                    of,
                )
            }
            None => {
                let x = produced.value();
                clamp_multiply_channel_max::append(self.program, x, factors, clamp, of)
            }
        }
    }
}

impl Produced {
    fn value(&self) -> Value {
        match self {
            Produced::Tensor(x) => *x,
            Produced::Convolved(convolved, _) => convolved.y,
        }
    }
}
