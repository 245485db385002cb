//! `clamp(max_pool2d(group_norm(conv2d(x)) * scale))`, KernelBench level 2, number 85.

use std::sync::{Arc, OnceLock};

use super::parameters::{round_to, upload};
use super::pipeline::{Options, Pipeline, RunArena, check_dtype, convolution, strategies};
use crate::cpu;
use crate::device::{DType, Stream, Tensor};
use crate::error::Result;
use crate::ops::{self, ConvolutionParameters, FilterCache, Precision, Prepared};
use crate::spec::Conv2dGroupNormScaleMaxPoolClampSpec as Spec;
use crate::spec::launch::conv2d_group_norm_scale_max_pool_clamp::FusedGeometry;
use crate::weights::Conv2dGroupNormScaleMaxPoolClampWeights as Weights;

const OPERATOR: &str = "conv2d_group_norm_scale_max_pool_clamp";

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
    /// The fused kernel's parameters for each precision, from the first run that needs them.
    prepared: [OnceLock<Prepared>; Precision::ALL.len()],
    /// The filters as the matrix product on tensor cores takes them.
    filters: FilterCache,
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
            prepared: Default::default(),
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

impl Conv2dGroupNormScaleMaxPoolClamp {
    /// The parameters as the fused kernel takes them.
    fn prepared(&self, geometry: &FusedGeometry, precision: Precision) -> Result<&Prepared> {
        let shared = &*self.shared;
        let cell = &shared.prepared[precision as usize];
        if let Some(prepared) = cell.get() {
            return Ok(prepared);
        }
        let prepared = Prepared::new(
            &shared.conv_weight,
            shared.conv_bias.as_ref(),
            (shared.norm_weight.as_ref(), shared.norm_bias.as_ref()),
            &shared.scale,
            geometry,
            precision,
        )?;
        // Two threads may both get here; what they prepared is the same.
        Ok(cell.get_or_init(|| prepared))
    }
}

impl Pipeline for Conv2dGroupNormScaleMaxPoolClamp {
    type Spec = Spec;
    type Strategy = Strategy;
    type Input = ndarray::Ix4;

    fn run(
        &self,
        arena: &mut RunArena<'_>,
        x: &Tensor,
        options: &Options<Strategy>,
    ) -> Result<Tensor> {
        let arena = &mut *arena.0;
        let Shared {
            spec,
            scale,
            folded,
            norm_weight,
            norm_bias,
            ..
        } = &*self.shared;
        let (norm_weight, norm_bias) = (norm_weight.as_ref(), norm_bias.as_ref());
        let problem = spec.problem(x.shape())?;
        check_dtype(OPERATOR, x, self.shared.dtype)?;
        if x.device().is_cpu() {
            let input = x.host_f32_as::<ndarray::Ix4>();
            let y = cpu::conv2d_group_norm_scale_max_pool_clamp(
                input.view(),
                &self.shared.weights,
                spec,
            )?;
            return Tensor::from_cpu(x.stream(), y.into_dyn(), x.dtype());
        }
        let Shared {
            conv_weight,
            conv_bias,
            ..
        } = &*self.shared;
        if options.strategy == Strategy::Fused
            && let Some(geometry) = ops::fused_geometry(&problem, x.stream())
        {
            let prepared = self.prepared(&geometry, options.precision)?;
            return ops::conv2d_group_norm_scale_max_pool_clamp_in(
                arena,
                x,
                prepared,
                &problem,
                &geometry,
                options.precision,
            );
        }
        if options.strategy == Strategy::Fused {
            let parameters = ConvolutionParameters {
                weight: conv_weight,
                bias: conv_bias.as_ref(),
                norm_weight,
                norm_bias,
                factors: scale,
                filters: &self.shared.filters,
            };
            let fused = ops::conv2d_group_norm_scale_max_pool_clamp_any_shape_in(
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
        let (norm, pool, clamp) = (&spec.group_norm, &spec.max_pool, &spec.clamp);
        match options.strategy {
            Strategy::Unfused | Strategy::UnfusedDirect => {
                y = ops::group_norm_in(arena, &y, norm_weight, norm_bias, norm)?;
                y = ops::scale_in(arena, &y, scale)?;
                y = ops::max_pool2d_in(arena, &y, pool)?;
                ops::clamp_in(arena, &y, clamp)
            }
            Strategy::FoldedScale => {
                let (weight, bias) = folded;
                y = ops::group_norm_in(arena, &y, Some(weight), Some(bias), norm)?;
                ops::max_pool2d_clamp_in(arena, &y, pool, clamp)
            }
            Strategy::NormScale => {
                y = ops::group_norm_scale_in(arena, &y, norm_weight, norm_bias, scale, norm)?;
                ops::max_pool2d_clamp_in(arena, &y, pool, clamp)
            }
            Strategy::NormScalePoolClamp | Strategy::Fused => {
                ops::group_norm_scale_max_pool2d_clamp_in(
                    arena,
                    &y,
                    norm_weight,
                    norm_bias,
                    scale,
                    norm,
                    pool,
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
