//! `channel_max(clamp(instance_norm(conv3d(x) * m)) * m)`, KernelBench level 2, number 79.

use std::sync::Arc;

use super::parameters::{round_to, upload};
use super::pipeline::{Options, Pipeline, convolution, strategies};
use super::programs::Programs;
use crate::cpu;
use crate::device::{DType, DeviceProperties, Stream, Tensor};
use crate::error::Result;
use crate::ops::conv::{self, Filters};
use crate::ops::fused::any_shape::{StatisticsConvolution, append_reducing};
use crate::ops::fused::conv3d_multiply_instance_norm_clamp_multiply_max::{
    self as one_launch, ReducingLaunch,
};
use crate::ops::fused::{
    ConvolutionParameters, Layouts, clamp_multiply_channel_max,
    multiply_instance_norm_clamp_multiply_channel_max,
};
use crate::ops::{Affine, channel_max, clamp, instance_norm, scale};
use crate::program::{Program, ProgramBuilder, Value};
use crate::spec::{
    Conv3dMultiplyInstanceNormClampMultiplyMaxProblem as Problem,
    Conv3dMultiplyInstanceNormClampMultiplyMaxSpec as Spec,
};
use crate::weights::Conv3dMultiplyInstanceNormClampMultiplyMaxWeights as Weights;

/// Which operators share kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Strategy {
    /// Every operator its own kernels; the convolution by im2col and a matrix product.
    Unfused,
    /// The same with the direct convolution, which is the faster one for these shapes and the one of all that follow.
    UnfusedDirect,
    /// Clamp, second multiplication and maximum in one kernel.
    ClampMultiplyMax,
    /// All that follows the norm's statistics in one kernel, the first multiplication folded into them.
    NormClampMultiplyMax,
    /// All of it in one kernel, which keeps no tensor but the output, where there is one for the shape. Else the
    /// convolution on tensor cores, which leaves statistics, then one kernel for the rest; or, where tensor cores do not
    /// pay, [`NormClampMultiplyMax`](Strategy::NormClampMultiplyMax).
    #[default]
    Fused,
}

strategies!(Strategy {
    Unfused = "unfused": "im2col conv | multiply | norm | clamp | multiply | max",
    UnfusedDirect = "unfused-direct": "direct conv | multiply | norm | clamp | multiply | max",
    ClampMultiplyMax = "clamp-multiply-max": "direct conv | multiply | norm | clamp+multiply+max",
    NormClampMultiplyMax = "norm-clamp-multiply-max": "direct conv | multiply+norm+clamp+multiply+max",
    Fused = "fused": "conv+multiply+norm+clamp+multiply+max, or conv+statistics | all the rest",
});

/// The pipeline with its parameters on a device.
///
/// *Shapes*: `(n, c, d, h, w)` to `(n, z, p, q)`, see the operators.
///
/// *Numerics*, *NaN*: those of the operators in [`ops`](crate::ops); strategies differ in rounding alone.
///
/// On the CPU device every strategy runs the ndarray backend.
///
/// # Examples
/// ```
/// use convfuse::models::conv3d_multiply_instance_norm_clamp_multiply_max::Strategy;
/// use convfuse::models::{Conv3dMultiplyInstanceNormClampMultiplyMax, Options, Pipeline};
/// use convfuse::spec::Conv3dMultiplyInstanceNormClampMultiplyMaxSpec as Spec;
/// use convfuse::{Device, Tensor, data};
///
/// let stream = Device::best().stream()?;
/// let model = Conv3dMultiplyInstanceNormClampMultiplyMax::init(&stream, &Spec::kernelbench(), 7)?;
/// let x = Tensor::from_array(&stream, &data::fill(1, (1, 3, 5, 6, 7)))?;
/// let y = model.forward_with(&x, &Options::strategy(Strategy::ClampMultiplyMax))?;
/// assert_eq!(y.shape(), [1, 3, 4, 5]);
/// # Ok::<(), convfuse::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Conv3dMultiplyInstanceNormClampMultiplyMax {
    stream: Stream,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    spec: Spec,
    weights: Weights,
    dtype: DType,
    conv_weight: Tensor,
    conv_bias: Option<Tensor>,
    norm_weight: Option<Tensor>,
    norm_bias: Option<Tensor>,
    multiplier: Tensor,
    /// Parameters as fused kernels take them.
    layouts: Layouts,
    programs: Programs<Strategy>,
}

impl Conv3dMultiplyInstanceNormClampMultiplyMax {
    /// The pipeline with f32 parameters, uploaded on `stream`.
    ///
    /// # Errors
    /// [`Error::Spec`](crate::Error::Spec) for parameters that do not fit the attributes.
    pub fn new(stream: &Stream, spec: &Spec, weights: &Weights) -> Result<Self> {
        Self::with_dtype(stream, spec, weights, DType::F32)
    }

    /// The same with parameters, inputs and outputs stored as `dtype`; f32 parameters are rounded to it.
    pub fn with_dtype(
        stream: &Stream,
        spec: &Spec,
        weights: &Weights,
        dtype: DType,
    ) -> Result<Self> {
        weights.check(spec)?;
        let mut weights = weights.clone();
        round_to(&mut weights.conv_weight, dtype);
        round_to(&mut weights.multiplier, dtype);
        let vectors = [
            &mut weights.conv_bias,
            &mut weights.instance_norm_weight,
            &mut weights.instance_norm_bias,
        ];
        for vector in vectors.into_iter().flatten() {
            round_to(vector, dtype);
        }
        let shared = Shared {
            spec: *spec,
            dtype,
            conv_weight: Tensor::from_f32_array(stream, &weights.conv_weight, dtype)?,
            conv_bias: upload(stream, weights.conv_bias.as_ref(), dtype)?,
            norm_weight: upload(stream, weights.instance_norm_weight.as_ref(), dtype)?,
            norm_bias: upload(stream, weights.instance_norm_bias.as_ref(), dtype)?,
            multiplier: Tensor::from_f32_array(stream, &weights.multiplier, dtype)?,
            layouts: Layouts::default(),
            programs: Programs::default(),
            weights,
        };
        Ok(Self {
            stream: stream.clone(),
            shared: Arc::new(shared),
        })
    }

    /// The pipeline with parameters as PyTorch initialises them.
    pub fn init(stream: &Stream, spec: &Spec, seed: u64) -> Result<Self> {
        Self::new(stream, spec, &Weights::init(spec, seed))
    }

    /// The parameters, as rounded to the model's element type.
    pub fn weights(&self) -> &Weights {
        &self.shared.weights
    }
}

/// What runs.
#[derive(Debug, Clone, Copy)]
enum Choice {
    /// All of it in one launch.
    OneLaunch(ReducingLaunch),
    /// A convolution that leaves the norm's statistics, then the rest.
    AnyShape(StatisticsConvolution),
    /// The operators that this strategy names.
    Operators(Strategy),
}

impl Choice {
    /// The choice for a problem on a device: the first that can be had.
    fn new(
        problem: &Problem,
        dtype: DType,
        properties: &DeviceProperties,
        options: &Options<Strategy>,
    ) -> Result<Choice> {
        if options.strategy != Strategy::Fused {
            return Ok(Choice::Operators(options.strategy));
        }
        let fused = options.fused();
        if let Some(choice) = ReducingLaunch::choose(problem, dtype, properties, fused) {
            return Ok(Choice::OneLaunch(choice));
        }
        let conv = &problem.conv;
        let any_shape = StatisticsConvolution::choose(conv, None, dtype, properties, fused)?;
        Ok(any_shape.map_or(
            Choice::Operators(Strategy::NormClampMultiplyMax),
            Choice::AnyShape,
        ))
    }
}

impl Conv3dMultiplyInstanceNormClampMultiplyMax {
    /// The launches for inputs of this shape.
    fn make_program(&self, input: &[usize], options: &Options<Strategy>) -> Result<Program> {
        let shared = &*self.shared;
        let problem = shared.spec.problem(input)?;
        let mut program = ProgramBuilder::new(self.stream.device());
        let x = program.input(input, shared.dtype)?;
        let parameters = ConvolutionParameters {
            filters: Filters {
                weight: program.parameter(&shared.conv_weight),
                bias: program.optional_parameter(shared.conv_bias.as_ref()),
            },
            norm: Affine::new(
                &mut program,
                shared.norm_weight.as_ref(),
                shared.norm_bias.as_ref(),
            ),
            factors: program.parameter(&shared.multiplier),
            layouts: &shared.layouts,
        };
        let choice = Choice::new(&problem, shared.dtype, program.properties(), options)?;
        let y = match choice {
            Choice::OneLaunch(choice) => {
                one_launch::append(&mut program, x, &parameters, &problem, &choice)?
            }
            Choice::AnyShape(convolution) => {
                append_reducing(&mut program, x, &parameters, &problem, &convolution)?
            }
            Choice::Operators(strategy) => {
                self.append_operators(&mut program, x, &parameters, strategy, options)?
            }
        };
        Ok(program.finish(&[y]))
    }

    /// Appends the operators as `strategy` names them.
    fn append_operators(
        &self,
        program: &mut ProgramBuilder,
        x: Value,
        parameters: &ConvolutionParameters<'_>,
        strategy: Strategy,
        options: &Options<Strategy>,
    ) -> Result<Value> {
        let spec = &self.shared.spec;
        let (norm, clamp) = (&spec.instance_norm, &spec.clamp);
        let &ConvolutionParameters {
            filters,
            norm: affine,
            factors,
            ..
        } = parameters;
        let options = convolution(options, strategy == Strategy::Unfused);
        let y = conv::append(program, x, filters, &spec.conv, &options)?;
        match strategy {
            Strategy::Unfused | Strategy::UnfusedDirect => {
                let y = scale::append(program, y, factors)?;
                let y = instance_norm::append(program, y, affine, norm)?;
                let y = clamp::append(program, y, clamp)?;
                let y = scale::append(program, y, factors)?;
                channel_max::append(program, y)
            }
            Strategy::ClampMultiplyMax => {
                let y = scale::append(program, y, factors)?;
                let y = instance_norm::append(program, y, affine, norm)?;
                clamp_multiply_channel_max::append(program, y, factors, clamp)
            }
            Strategy::NormClampMultiplyMax | Strategy::Fused => {
                multiply_instance_norm_clamp_multiply_channel_max::append(
                    program, y, affine, factors, norm, clamp,
                )
            }
        }
    }
}

impl Pipeline for Conv3dMultiplyInstanceNormClampMultiplyMax {
    type Spec = Spec;
    type Strategy = Strategy;
    type Input = ndarray::Ix5;
    const NAME: &'static str = "conv3d_multiply_instance_norm_clamp_multiply_max";

    fn program(&self, input: &[usize], options: &Options<Strategy>) -> Result<Arc<Program>> {
        let make = || self.make_program(input, options);
        self.shared.programs.get(input, options, make)
    }

    fn run_on_cpu(&self, x: &Tensor) -> Result<Tensor> {
        let Shared { spec, weights, .. } = &*self.shared;
        let input = x.host_f32_as::<ndarray::Ix5>();
        let y = cpu::conv3d_multiply_instance_norm_clamp_multiply_max(input.view(), weights, spec)?;
        Tensor::from_cpu(x.stream(), y.into_dyn(), x.dtype())
    }

    fn stream(&self) -> &Stream {
        &self.stream
    }

    fn spec(&self) -> &Spec {
        &self.shared.spec
    }

    fn dtype(&self) -> DType {
        self.shared.dtype
    }

    fn output_shape(&self, input: &[usize]) -> Result<Vec<usize>> {
        Ok(self.shared.spec.problem(input)?.output_shape().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200: DeviceProperties = DeviceProperties {
        multiprocessors: 132,
        shared_bytes_per_block: 227 << 10,
        has_warpgroup_products: true,
    };
    const A100: DeviceProperties = DeviceProperties {
        multiprocessors: 108,
        shared_bytes_per_block: 163 << 10,
        has_warpgroup_products: false,
    };

    fn choose(spec: &Spec, input: &[usize], properties: &DeviceProperties) -> Choice {
        let problem = spec.problem(input).unwrap();
        Choice::new(&problem, DType::F32, properties, &Options::default()).unwrap()
    }

    #[test]
    fn what_runs_follows_from_problem_and_device() {
        let spec = Spec::kernelbench();
        let choose_for = |input: &[usize], device| choose(&spec, input, device);
        let full = Spec::KERNELBENCH_INPUT;
        assert!(matches!(choose_for(&full, &H200), Choice::OneLaunch(_)));
        // There the f32 kernel's three planes do not fit shared memory.
        assert!(matches!(choose_for(&full, &A100), Choice::AnyShape(_)));
        let narrow = [128, 3, 16, 32, 30];
        assert!(matches!(choose_for(&narrow, &H200), Choice::AnyShape(_)));
        let few = Spec {
            in_channels: 1,
            out_channels: 2,
            ..spec
        };
        let choice = choose(&few, &[3, 1, 5, 6, 7], &H200);
        assert!(matches!(
            choice,
            Choice::Operators(Strategy::NormClampMultiplyMax)
        ));
    }
}
