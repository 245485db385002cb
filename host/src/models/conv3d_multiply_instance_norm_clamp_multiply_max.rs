//! `channel_max(clamp(instance_norm(conv3d(x) * m)) * m)`, KernelBench level 2, number 79.

use std::sync::Arc;

use super::parameters::{round_to, upload};
use super::pipeline::{Options, Pipeline, RunArena, check_dtype, convolution, strategies};
use crate::cpu;
use crate::device::{DType, Stream, Tensor};
use crate::error::Result;
use crate::ops::{self, ConvolutionParameters, FilterCache};
use crate::spec::Conv3dMultiplyInstanceNormClampMultiplyMaxSpec as Spec;
use crate::weights::Conv3dMultiplyInstanceNormClampMultiplyMaxWeights as Weights;

const OPERATOR: &str = "conv3d_multiply_instance_norm_clamp_multiply_max";

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
/// *Numerics*, *NaN*: those of the operators in [`ops`]; strategies differ in rounding alone.
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
    /// The filters as the matrix product on tensor cores takes them.
    filters: FilterCache,
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
            filters: FilterCache::default(),
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

impl Pipeline for Conv3dMultiplyInstanceNormClampMultiplyMax {
    type Spec = Spec;
    type Strategy = Strategy;
    type Input = ndarray::Ix5;

    fn run(
        &self,
        arena: &mut RunArena<'_>,
        x: &Tensor,
        options: &Options<Strategy>,
    ) -> Result<Tensor> {
        let arena = &mut *arena.0;
        let Shared {
            spec,
            multiplier,
            conv_weight,
            conv_bias,
            norm_weight,
            norm_bias,
            ..
        } = &*self.shared;
        let (norm_weight, norm_bias) = (norm_weight.as_ref(), norm_bias.as_ref());
        let problem = spec.problem(x.shape())?;
        check_dtype(OPERATOR, x, self.shared.dtype)?;
        if x.device().is_cpu() {
            let input = x.host_f32_as::<ndarray::Ix5>();
            let y = cpu::conv3d_multiply_instance_norm_clamp_multiply_max(
                input.view(),
                &self.shared.weights,
                spec,
            )?;
            return Tensor::from_cpu(x.stream(), y.into_dyn(), x.dtype());
        }
        if options.strategy == Strategy::Fused {
            let fused = ops::conv3d_multiply_instance_norm_clamp_multiply_max_in(
                arena,
                x,
                conv_weight,
                conv_bias.as_ref(),
                multiplier,
                &problem,
                options.fused(),
            )?;
            if let Some(y) = fused {
                return Ok(y);
            }
            let parameters = ConvolutionParameters {
                weight: conv_weight,
                bias: conv_bias.as_ref(),
                norm_weight,
                norm_bias,
                factors: multiplier,
                filters: &self.shared.filters,
            };
            let fused = ops::conv3d_multiply_instance_norm_clamp_multiply_max_any_shape_in(
                arena,
                x,
                &parameters,
                &problem,
                options.fused(),
            )?;
            if let Some(y) = fused {
                return Ok(y);
            }
        }
        let conv = convolution(options, options.strategy == Strategy::Unfused);
        // Each assignment to `y` frees the tensor before it, in stream order.
        let mut y = ops::conv_in(arena, x, conv_weight, conv_bias.as_ref(), &spec.conv, &conv)?;
        match options.strategy {
            Strategy::Unfused | Strategy::UnfusedDirect => {
                y = ops::scale_in(arena, &y, multiplier)?;
                y = ops::instance_norm_in(arena, &y, norm_weight, norm_bias, &spec.instance_norm)?;
                y = ops::clamp_in(arena, &y, &spec.clamp)?;
                y = ops::scale_in(arena, &y, multiplier)?;
                ops::channel_max_in(arena, &y)
            }
            Strategy::ClampMultiplyMax => {
                y = ops::scale_in(arena, &y, multiplier)?;
                y = ops::instance_norm_in(arena, &y, norm_weight, norm_bias, &spec.instance_norm)?;
                ops::clamp_multiply_channel_max_in(arena, &y, multiplier, &spec.clamp)
            }
            Strategy::NormClampMultiplyMax | Strategy::Fused => {
                let (norm, clamp) = (&spec.instance_norm, &spec.clamp);
                ops::multiply_instance_norm_clamp_multiply_channel_max_in(
                    arena,
                    &y,
                    norm_weight,
                    norm_bias,
                    multiplier,
                    norm,
                    clamp,
                )
            }
        }
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
