//! `clamp(max_pool2d(group_norm(conv2d(x)) * scale))`, KernelBench level 2, number 85.

use std::sync::Arc;

use super::parameters::{round_to, upload};
use super::pipeline::{Options, Pipeline, convolution, strategies};
use super::programs::Programs;
use crate::cpu;
use crate::device::{DType, DeviceProperties, Stream, Tensor};
use crate::error::Result;
use crate::ops::conv::{self, Filters};
use crate::ops::fused::any_shape::{PoolingChoice, append_pooling};
use crate::ops::fused::conv2d_group_norm_scale_max_pool_clamp::{
    self as one_launch, PoolingLaunch,
};
use crate::ops::fused::{
    ConvolutionParameters, Layouts, group_norm_scale, group_norm_scale_max_pool2d_clamp,
    max_pool2d_clamp,
};
use crate::ops::{self, Affine, clamp, group_norm, max_pool2d, scale};
use crate::program::{Program, ProgramBuilder, Value};
use crate::spec::{
    Conv2dGroupNormScaleMaxPoolClampProblem as Problem,
    Conv2dGroupNormScaleMaxPoolClampSpec as Spec,
};
use crate::weights::Conv2dGroupNormScaleMaxPoolClampWeights as Weights;

/// Which operators share kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Strategy {
    /// Every operator its own kernels; the convolution by im2col and a matrix product.
    Unfused,
    /// The same with the direct convolution, which is the faster one for these shapes and the one of all that follow.
    UnfusedDirect,
    /// The scale folded into the norm's weight and bias beforehand; pooling and clamp in one kernel.
    FoldedScale,
    /// Norm and scale in one kernel; pooling and clamp in another.
    NormScale,
    /// All that follows the norm's statistics in one kernel.
    NormScalePoolClamp,
    /// All of it in one kernel, which keeps no tensor but the output, where there is one for the shape. Else the
    /// convolution on tensor cores, which leaves statistics and, where windows lie side by side, pooled values, then one
    /// kernel for the rest; or, where tensor cores do not pay, [`NormScalePoolClamp`](Strategy::NormScalePoolClamp).
    #[default]
    Fused,
}

strategies!(Strategy {
    Unfused = "unfused": "im2col conv | norm | scale | pool | clamp",
    UnfusedDirect = "unfused-direct": "direct conv | norm | scale | pool | clamp",
    FoldedScale = "folded-scale": "direct conv | norm, scale folded in | pool+clamp",
    NormScale = "norm-scale": "direct conv | norm+scale | pool+clamp",
    NormScalePoolClamp = "norm-scale-pool-clamp": "direct conv | norm+scale+pool+clamp",
    Fused = "fused": "conv+norm+scale+pool+clamp, or conv+statistics+pool | norm+scale+clamp",
});

/// The pipeline with its parameters on a device.
///
/// *Shapes*: `(n, c, h, w)` to `(n, k, p, q)`, see the operators.
///
/// *Numerics*, *NaN*: those of the operators in [`ops`]; strategies differ in rounding alone.
///
/// On the CPU device every strategy runs the ndarray backend.
///
/// # Examples
/// ```
/// use convfuse::models::conv2d_group_norm_scale_max_pool_clamp::Strategy;
/// use convfuse::models::{Conv2dGroupNormScaleMaxPoolClamp, Options, Pipeline};
/// use convfuse::spec::{ClampSpec, Conv2dGroupNormScaleMaxPoolClampSpec as Spec};
/// use convfuse::{Device, Tensor, data};
///
/// let stream = Device::best().stream()?;
/// let spec = Spec { clamp: ClampSpec::new(-1.0, 1.0), ..Spec::kernelbench() };
/// let model = Conv2dGroupNormScaleMaxPoolClamp::init(&stream, &spec, 7)?;
/// let x = Tensor::from_array(&stream, &data::fill(1, (1, 8, 14, 19)))?;
/// let y = model.forward_with(&x, &Options::strategy(Strategy::Unfused))?;
/// assert_eq!(y.shape(), [1, 64, 3, 4]);
/// # Ok::<(), convfuse::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Conv2dGroupNormScaleMaxPoolClamp {
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
    scale: Tensor,
    /// The norm's weight and bias with the scale in them.
    folded: (Tensor, Tensor),
    /// Parameters as fused kernels take them.
    layouts: Layouts,
    programs: Programs<Strategy>,
}

impl Conv2dGroupNormScaleMaxPoolClamp {
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
        round_to(&mut weights.scale, dtype);
        let vectors = [
            &mut weights.conv_bias,
            &mut weights.group_norm_weight,
            &mut weights.group_norm_bias,
        ];
        for vector in vectors.into_iter().flatten() {
            round_to(vector, dtype);
        }
        let norm_weight = upload(stream, weights.group_norm_weight.as_ref(), dtype)?;
        let norm_bias = upload(stream, weights.group_norm_bias.as_ref(), dtype)?;
        let scale = Tensor::from_f32_array(stream, &weights.scale, dtype)?;
        let shared = Shared {
            spec: *spec,
            dtype,
            conv_weight: Tensor::from_f32_array(stream, &weights.conv_weight, dtype)?,
            conv_bias: upload(stream, weights.conv_bias.as_ref(), dtype)?,
            folded: ops::fold_scale(norm_weight.as_ref(), norm_bias.as_ref(), &scale)?,
            norm_weight,
            norm_bias,
            scale,
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
    OneLaunch(PoolingLaunch),
    /// A convolution that leaves the norm's statistics, then the rest.
    AnyShape(PoolingChoice),
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
        if let Some(choice) = PoolingLaunch::choose(problem, dtype, properties, options.precision) {
            return Ok(Choice::OneLaunch(choice));
        }
        let any_shape = PoolingChoice::choose(problem, dtype, properties, options.fused())?;
        Ok(any_shape.map_or(
            Choice::Operators(Strategy::NormScalePoolClamp),
            Choice::AnyShape,
        ))
    }
}

impl Conv2dGroupNormScaleMaxPoolClamp {
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
            factors: program.parameter(&shared.scale),
            layouts: &shared.layouts,
        };
        let choice = Choice::new(&problem, shared.dtype, program.properties(), options)?;
        let y = match choice {
            Choice::OneLaunch(choice) => {
                one_launch::append(&mut program, x, &parameters, &problem, &choice)?
            }
            Choice::AnyShape(choice) => {
                append_pooling(&mut program, x, &parameters, &problem, &choice)?
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
        let (norm, pool, clamp) = (&spec.group_norm, &spec.max_pool, &spec.clamp);
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
                let y = group_norm::append(program, y, affine, norm)?;
                let y = scale::append(program, y, factors)?;
                let y = max_pool2d::append(program, y, pool)?;
                clamp::append(program, y, clamp)
            }
            Strategy::FoldedScale => {
                let (weight, bias) = &self.shared.folded;
                let folded = Affine::new(program, Some(weight), Some(bias));
                let y = group_norm::append(program, y, folded, norm)?;
                max_pool2d_clamp::append(program, y, pool, clamp)
            }
            Strategy::NormScale => {
                let y = group_norm_scale::append(program, y, affine, factors, norm)?;
                max_pool2d_clamp::append(program, y, pool, clamp)
            }
            Strategy::NormScalePoolClamp | Strategy::Fused => {
                group_norm_scale_max_pool2d_clamp::append(
                    program, y, affine, factors, norm, pool, clamp,
                )
            }
        }
    }
}

impl Pipeline for Conv2dGroupNormScaleMaxPoolClamp {
    type Spec = Spec;
    type Strategy = Strategy;
    type Input = ndarray::Ix4;
    const NAME: &'static str = "conv2d_group_norm_scale_max_pool_clamp";

    fn program(&self, input: &[usize], options: &Options<Strategy>) -> Result<Arc<Program>> {
        let make = || self.make_program(input, options);
        self.shared.programs.get(input, options, make)
    }

    fn run_on_cpu(&self, x: &Tensor) -> Result<Tensor> {
        let Shared { spec, weights, .. } = &*self.shared;
        let input = x.host_f32_as::<ndarray::Ix4>();
        let y = cpu::conv2d_group_norm_scale_max_pool_clamp(input.view(), weights, spec)?;
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
    use crate::spec::{GroupNormSpec, MaxPool2dSpec};

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
        assert!(matches!(choose_for(&full, &A100), Choice::AnyShape(_)));
        let narrow = [128, 8, 128, 120];
        assert!(matches!(choose_for(&narrow, &H200), Choice::AnyShape(_)));
        let few = Spec {
            in_channels: 1,
            out_channels: 2,
            group_norm: GroupNormSpec::new(1),
            max_pool: MaxPool2dSpec::new([2, 2]),
            ..spec
        };
        let choice = choose(&few, &[3, 1, 12, 17], &H200);
        assert!(matches!(
            choice,
            Choice::Operators(Strategy::NormScalePoolClamp)
        ));
    }
}
