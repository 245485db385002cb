//! From lowered regions to the launches of a program.

mod norms;
mod pools;

use launch_config::KernelGeometry;
use op_spec::Layout;
use op_spec::graph::{ChannelAffine, Operand};

use super::chosen::Chosen;
use super::epilogue::{EpilogueKernels, Map, SeriesKernel, Store, WindowsKernel};
use super::lowered::Lowered;
use super::produced::Produced;
use super::producer::Producer;
use super::region::Query;
use crate::device::Order;
use crate::error::Result;
use crate::operators::conv::Filters;
use crate::operators::fused::group_norm_scale_pointwise::{Tail, normalise_and_map};
use crate::operators::fused::norm_nhwc::Parameters as NormParameters;
use crate::operators::fused::{depthwise, gemm, implicit_gemm};
use crate::operators::norm_statistics::{self, NormInput};
use crate::operators::one_launch::{
    conv2d_group_norm_scale_max_pool_clamp as one_launch_2d,
    conv3d_multiply_instance_norm_clamp_multiply_max as one_launch_3d,
};
use crate::operators::pointwise::{ListStep, steps};
use crate::operators::{
    Affine, ConvolutionParameters, Preparations, append_layer, batch_norm, batch_norm_parameters,
    conv, conv_transpose, gate, layer_norm, own_kernels, pad, pointwise, pool, rows, shuffle,
    softmax, upsample,
};
use crate::parameters::MAX_PARAMETERS;
use crate::program::{ProgramBuilder, Value};
use launch_config::norm::NormGeometry;

/// A program under construction, with the state for appending the layers of a graph.
pub(super) struct Appending<'a> {
    pub(super) program: &'a mut ProgramBuilder,
    pub(super) of: Query<'a>,
    /// The graph's inputs, the first one first.
    pub(super) inputs: &'a [Value],
    /// The output of each layer that is the last of an appended region.
    pub(super) outputs: Vec<Option<Value>>,
    /// The graph's parameters, in the order of its table.
    pub(super) parameters: &'a [Value],
    pub(super) preparations: &'a Preparations,
}

impl<'a> Appending<'a> {
    /// Returns parameter `index` of a layer, if the layer has it.
    fn parameter(&self, layer: usize, index: usize) -> Option<Value> {
        let slot = *self.of.graph.parameters_of(layer).get(index)?;
        Some(self.parameters[slot])
    }

    /// Returns all parameters of a layer, in PyTorch's order.
    fn parameters_of(&self, layer: usize) -> [Option<Value>; MAX_PARAMETERS] {
        std::array::from_fn(|index| self.parameter(layer, index))
    }

    /// Returns the first parameter of a layer that has parameters.
    fn first(&self, layer: usize) -> Value {
        self.parameter(layer, 0)
            .expect("the graph's table has the layer's first parameter")
    }

    /// The parameters of a region that begins with the convolution `layer`.
    fn convolution(
        &mut self,
        layer: usize,
        lowered: &Lowered,
    ) -> Result<ConvolutionParameters<'a>> {
        let plan = &lowered.epilogue;
        let none = Affine {
            weight: None,
            bias: None,
        };
        let norm = plan.norm().map_or(none, |(norm, _)| self.affine(norm));
        // Producers that pool read the signs of the norm's weight.
        let norm = match plan {
            EpilogueKernels::Pool(pool) if pool.in_producer => {
                norm.narrow(self.program, self.of.dtype)?
            }
            _ => norm,
        };
        let [folded, folded_behind] = match plan {
            EpilogueKernels::Store(store) => [
                match lowered.folded_by_producer() {
                    Some(_) => None,
                    None => self.folded(&store.affine)?,
                },
                self.folded(&store.affine_behind)?,
            ],
            _ => [None; 2],
        };
        let residual = match plan {
            EpilogueKernels::Store(Store {
                residual: Some(layer),
                ..
            }) => Some(self.residual(*layer, lowered.writes)?),
            _ => None,
        };
        let factors = match plan {
            EpilogueKernels::Pool(pool) => pool.factors,
            EpilogueKernels::ReducedChannels(reduced) => Some(reduced.factors),
            _ => None,
        };
        Ok(ConvolutionParameters {
            filters: Filters {
                weight: self.first(layer),
                bias: self.parameter(layer, 1),
            },
            norm,
            folded,
            folded_behind,
            residual,
            factors: factors.map(|layer| self.first(layer)),
            layer,
            class: 0,
            preparations: self.preparations,
        })
    }

    /// Pads `x` if `layer` is a convolution with separate padding.
    fn padded(&mut self, x: Value, layer: usize) -> Result<Value> {
        let kernels = own_kernels(&self.of.problem.steps[layer].problem);
        kernels.map_or(Ok(x), |kernels| kernels.padded(self.program, x))
    }

    /// Returns a graph's value, computed by an earlier region.
    fn operand(&self, operand: Operand) -> Value {
        match operand {
            Operand::Input(input) => self.inputs[input],
            Operand::Layer(layer) => self.outputs[layer].expect("a region before gives it"),
        }
    }

    /// The graph's outputs, in their layouts.
    pub(super) fn outputs(&mut self) -> Result<Vec<Value>> {
        let outputs = self.of.graph.outputs().iter().enumerate();
        let output = |(index, &layer)| {
            let y = self.operand(Operand::Layer(layer));
            let layout = self.of.output_layout(index);
            self.program.in_layout(y, layout)
        };
        outputs.map(output).collect()
    }

    /// Returns the second operand of a layer as a dense tensor of a layout.
    fn residual(&mut self, layer: usize, layout: Layout) -> Result<Value> {
        let residual = self.operand(self.of.graph.operands(layer)[1]);
        self.program.in_layout(residual, layout)
    }

    /// Returns the output of a layer that several launches write.
    fn joined(&mut self, layer: usize, layout: Layout) -> Result<Value> {
        if let Some(joined) = self.outputs[layer] {
            return Ok(joined);
        }
        let output = &self.of.problem.steps[layer].output;
        let order = Order::of_layout(output, layout)?;
        let y = self.program.tensor_as(output, self.of.dtype, order)?;
        self.outputs[layer] = Some(y);
        Ok(y)
    }

    /// Returns a list with its residuals as values of the program, in a layout.
    fn list(&mut self, list: &[ListStep<usize>], layout: Layout) -> Result<Vec<ListStep<Value>>> {
        let steps = list.iter();
        steps
            .map(|step| step.try_map(|layer| self.residual(layer, layout)))
            .collect()
    }

    /// Appends the launches of a region, and adds them to the region's facts.
    pub(super) fn region(&mut self, region: &mut Chosen) -> Result<()> {
        let before = [self.program.kernels().len(), self.preparations.len()];
        let [start, last] = [region.layers[0], region.layers[region.layers.len() - 1]];
        let x = self.operand(self.of.graph.operands(start)[0]);
        let computed = region.computed(self.of.problem);
        let y = self.region_of(x, region, start, computed[computed.len() - 1])?;
        if region.lowered.part.is_none() {
            // A flatten or reshape at the end of the region changes the shape.
            self.program.see_as(y, &self.of.problem.steps[last].output);
        }
        self.outputs[last] = Some(y);
        region.facts.launches = self.program.kernels().skip(before[0]).collect();
        region.facts.preparations = self.preparations.kernels(before[1]);
        Ok(())
    }

    /// Appends the launches of a region from `x`, the first operand of the layer `start`.
    fn region_of(&mut self, x: Value, region: &Chosen, start: usize, last: usize) -> Result<Value> {
        let (lowered, plan) = (&region.lowered, &region.lowered.epilogue);
        let output = &self.of.problem.steps[last].output;
        if output.iter().product::<usize>() == 0 {
            return self.program.tensor(output, self.program.dtype(x));
        }
        // The producer reads NHWC in place, unless it is reformatted; any other layout is made dense NCHW.
        let x = match lowered.reads {
            Layout::Nhwc if lowered.is_reformatted => self.program.in_layout(x, Layout::Nhwc)?,
            Layout::Nhwc => x,
            Layout::Nchw => self.program.in_order(x)?,
        };
        let produced = match &lowered.producer {
            Producer::Direct(layer) => {
                let parameters = self.parameters_of(start);
                return append_layer(self.program, layer, x, parameters);
            }
            Producer::Tensor => Produced::Tensor(self.program.in_layout(x, lowered.reads)?),
            Producer::OneLaunch2d(launch) => {
                let x = self.padded(x, start)?;
                let parameters = self.convolution(start, lowered)?;
                return one_launch_2d::append(self.program, x, &parameters, output, launch);
            }
            Producer::OneLaunch3d(launch) => {
                let x = self.padded(x, start)?;
                let parameters = self.convolution(start, lowered)?;
                return one_launch_3d::append(self.program, x, &parameters, output, launch);
            }
            Producer::Gemm(gemm) => {
                let parameters = self.convolution(start, lowered)?;
                let norm = lowered.folded_by_producer();
                let norm = norm.map(|(layer, norm)| (self.running(layer), norm));
                let store = plan.store_epilogue();
                let to = match lowered.part {
                    Some(of) => (self.joined(of.layer, Layout::Nhwc)?, of.part),
                    None => gemm::output(self.program, x, output)?,
                };
                return gemm::append(self.program, x, &parameters, norm, gemm, store, to);
            }
            Producer::ConvMean(of) => {
                let x = self.padded(x, start)?;
                let filters = self.convolution(start, lowered)?.filters;
                return of.append(self.program, x, filters, output);
            }
            Producer::DirectNhwc(geometry) => {
                let filters = self.convolution(start, lowered)?.filters;
                return conv::append_nhwc(self.program, x, filters, geometry, output);
            }
            Producer::ImplicitGemm(gemm) => {
                let x = self.padded(x, start)?;
                let parameters = self.convolution(start, lowered)?;
                let store = plan.store_epilogue();
                let output = match plan {
                    EpilogueKernels::Store(store) => store.produced(output),
                    _ => self.produced_shape(start, plan),
                };
                let (program, y) = (&mut *self.program, (output, None));
                let gemm = implicit_gemm::append(program, x, &parameters, gemm, store, y)?;
                Produced::Convolved(gemm, lowered.moments)
            }
            Producer::Depthwise(geometry) => {
                let x = self.padded(x, start)?;
                let parameters = self.convolution(start, lowered)?;
                let output = self.produced_shape(start, plan);
                let program = &mut *self.program;
                let epilogue = plan.store_epilogue();
                let y = depthwise::append(program, x, &parameters, geometry, epilogue, output)?;
                Produced::Convolved(y, lowered.moments)
            }
            Producer::DepthwiseNhwc(kernel) => {
                let parameters = self.convolution(start, lowered)?;
                let norm = lowered.folded_by_producer();
                let norm = norm.map(|(layer, norm)| (self.running(layer), norm));
                let (program, store) = (&mut *self.program, plan.store_epilogue());
                return depthwise::append_nhwc(
                    program,
                    x,
                    &parameters,
                    norm,
                    kernel,
                    store,
                    output,
                );
            }
            Producer::Transposed(transposed) => {
                let parameters = self.convolution(start, lowered)?;
                let program = &mut *self.program;
                let produced = match plan {
                    EpilogueKernels::Store(store) => store.produced(output),
                    _ => output,
                };
                let y = conv_transpose::append(program, x, &parameters, transposed, produced)?;
                Produced::Tensor(y)
            }
        };
        self.epilogue(produced, lowered, output)
    }

    /// The shape of the output of the producer, a convolution.
    fn produced_shape(&self, layer: usize, plan: &'a EpilogueKernels) -> &'a [usize] {
        match plan {
            EpilogueKernels::Pool(pool) if pool.in_producer => &pool.output,
            _ => &self.of.problem.steps[layer].output,
        }
    }

    /// Appends the epilogue of a producer. The epilogue's output has the shape `output`.
    fn epilogue(
        &mut self,
        produced: Produced,
        lowered: &Lowered,
        output: &[usize],
    ) -> Result<Value> {
        match &lowered.epilogue {
            EpilogueKernels::Store(Store {
                further: Some(further),
                ..
            }) => further.steps.append(self.program, produced.value(), output),
            EpilogueKernels::None | EpilogueKernels::Store(_) => Ok(produced.value()),
            EpilogueKernels::Operator(layer, problem) => {
                // A residual takes the place of a parameter.
                let parameters = match self.of.graph.operands(*layer).len() {
                    2 => [Some(self.residual(*layer, Layout::Nchw)?), None, None, None],
                    _ => self.parameters_of(*layer),
                };
                append_layer(self.program, problem, produced.value(), parameters)
            }
            EpilogueKernels::Affine(layer, affine) => {
                let folded = self.folded(&[(*layer, *affine)])?;
                let folded = folded.expect("one layer is folded");
                let geometry = match affine {
                    ChannelAffine::BatchNorm(problem) => problem.geometry()?,
                    ChannelAffine::Arithmetic(problem) => problem.geometry()?,
                };
                let x = produced.value();
                batch_norm::append_folded(self.program, x, folded, geometry)
            }
            EpilogueKernels::Map(map) => self.map(&produced, map, lowered.writes),
            EpilogueKernels::ChannelsLastNorm(of) => {
                let norm = match of.running {
                    Some(problem) => NormParameters::Running(self.running(of.layer), problem),
                    None => NormParameters::Affine(self.affine(of.layer), self.of_batch(of.layer)),
                };
                let list = self.list(&of.list, lowered.writes)?;
                of.launches
                    .append(self.program, produced.value(), norm, &list)
            }
            EpilogueKernels::Pool(pool) => self.pool(&produced, pool),
            EpilogueKernels::Windows(windows) => {
                let (program, x) = (&mut *self.program, produced.value());
                let output = &windows.output;
                let pooled = match &windows.kernel {
                    WindowsKernel::Pool(windows) => pool::append_nhwc(program, x, windows, output)?,
                    WindowsKernel::Upsample(geometry) => {
                        upsample::append_nhwc(program, x, geometry, output)?
                    }
                };
                pointwise::append(program, pooled, &steps(&windows.functions))
            }
            EpilogueKernels::Pixels(steps) => steps.append(self.program, produced.value(), output),
            EpilogueKernels::ReducedChannels(reduced) => self.reduce_channels(&produced, reduced),
            EpilogueKernels::NormScale(of) => self.norm_scale(produced.value(), of),
            EpilogueKernels::Gate(plan) => {
                let gate = self.residual(plan.layer, Layout::Nchw)?;
                let (x, nhwc) = (produced.value(), plan.nhwc.as_ref());
                gate::append(self.program, x, gate, &plan.problem, nhwc)
            }
            EpilogueKernels::Rows(plan) => {
                let mut operands = vec![produced.value()];
                let others = self.of.graph.operands(plan.layer).iter().zip(&plan.copies);
                for (&other, copy) in others.skip(1) {
                    let other = self.operand(other);
                    operands.push(match copy {
                        Some(_) => self.program.in_layout(other, plan.layout)?,
                        None => other,
                    });
                }
                let y = self.joined(plan.layer, plan.layout)?;
                rows::append(self.program, &operands, &plan.copies, y)?;
                Ok(y)
            }
            EpilogueKernels::Shuffle(of) => {
                let (program, x) = (&mut *self.program, produced.value());
                shuffle::append(program, x, &of.problem, of.layout, &of.output)
            }
            EpilogueKernels::Pad(of) => {
                let order = Order::of_layout(&of.output, of.layout)?;
                let (program, x) = (&mut *self.program, produced.value());
                pad::append(program, x, &of.geometry, &of.output, order)
            }
            EpilogueKernels::Series(of) => {
                let folded = self.folded(&of.behind.affine)?;
                let residual = of.behind.residual;
                let residual = residual.map(|layer| self.residual(layer, lowered.writes));
                let operands = softmax::Operands {
                    list: of.behind.list,
                    residual: residual.transpose()?,
                    folded,
                };
                let x = produced.value();
                match &of.kernel {
                    SeriesKernel::Softmax(geometry) => {
                        softmax::append(self.program, x, *geometry, operands)
                    }
                    SeriesKernel::LayerNorm(layer, problem) => {
                        let affine = self.affine(*layer);
                        layer_norm::append_rows(self.program, x, affine, problem, operands)
                    }
                }
            }
            EpilogueKernels::List(list) => {
                let list = self.list(&list.steps, lowered.writes)?;
                pointwise::append(self.program, produced.value(), &list)
            }
        }
    }

    /// Appends the statistics that a norm needs of the producer's output.
    fn statistics(
        &mut self,
        produced: &Produced,
        layer: usize,
        norm: NormGeometry,
    ) -> Result<NormInput> {
        let affine = self.affine(layer);
        let input = match produced {
            Produced::Convolved(y, Some(moments)) => {
                y.statistics(self.program, affine, norm, *moments)?
            }
            _ => norm_statistics::statistics(self.program, produced.value(), affine, norm)?,
        };
        match self.of_batch(layer) {
            Some(of_batch) => batch_norm_parameters::of_batch(self.program, input, of_batch),
            None => Ok(input),
        }
    }

    fn map(&mut self, produced: &Produced, map: &Map, layout: Layout) -> Result<Value> {
        let (layer, norm) = &map.norm;
        let geometry = norm.geometry()?;
        let input = self.statistics(produced, *layer, geometry)?;
        let list = self.list(&map.list, layout)?;
        let tail = Tail {
            before: map.before.map(|layer| self.first(layer)),
            scale: map.behind.map(|behind| self.first(behind.layer)),
            prelu: map.behind.and_then(|behind| behind.prelu),
            list: &list,
        };
        normalise_and_map(self.program, &input, tail)
    }
}
