use ndarray::{Array1, Array4, Array5, ArrayD};
use op_spec::{
    ClampSpec, Conv2dGroupNormScaleMaxPoolClampSpec, Conv2dSpec,
    Conv3dMultiplyInstanceNormClampMultiplyMaxSpec, Conv3dSpec, GroupNormSpec, InstanceNormSpec,
    MaxPool2dSpec, SpecError,
};

use super::{Bounded, Expected, Precision};
use crate::reference;
use crate::weights::{
    Conv2dGroupNormScaleMaxPoolClampWeights, Conv3dMultiplyInstanceNormClampMultiplyMaxWeights,
};

/// One computation with its inputs, under a name.
#[derive(Clone, Debug)]
pub struct Case {
    /// Unique among the cases of a run.
    pub name: String,
    /// What is to be computed.
    pub operation: Operation,
}

/// An operator or pipeline with everything it is applied to.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the fields are the arguments of the functions in `reference`
#[non_exhaustive]
pub enum Operation {
    /// [`reference::conv2d`].
    Conv2d {
        x: Array4<f32>,
        weight: Array4<f32>,
        bias: Option<Array1<f32>>,
        spec: Conv2dSpec,
    },
    /// [`reference::conv3d`].
    Conv3d {
        x: Array5<f32>,
        weight: Array5<f32>,
        bias: Option<Array1<f32>>,
        spec: Conv3dSpec,
    },
    /// [`reference::group_norm`].
    GroupNorm {
        x: ArrayD<f32>,
        weight: Option<Array1<f32>>,
        bias: Option<Array1<f32>>,
        spec: GroupNormSpec,
    },
    /// [`reference::instance_norm`].
    InstanceNorm {
        x: ArrayD<f32>,
        weight: Option<Array1<f32>>,
        bias: Option<Array1<f32>>,
        spec: InstanceNormSpec,
    },
    /// [`reference::scale`].
    Scale { x: ArrayD<f32>, scale: Array1<f32> },
    /// [`reference::max_pool2d`].
    MaxPool2d { x: Array4<f32>, spec: MaxPool2dSpec },
    /// [`reference::clamp`].
    Clamp { x: ArrayD<f32>, spec: ClampSpec },
    /// [`reference::channel_max`].
    ChannelMax { x: ArrayD<f32> },
    /// [`reference::conv2d_group_norm_scale_max_pool_clamp`].
    Conv2dGroupNormScaleMaxPoolClamp {
        x: Array4<f32>,
        weights: Conv2dGroupNormScaleMaxPoolClampWeights,
        spec: Conv2dGroupNormScaleMaxPoolClampSpec,
    },
    /// [`reference::conv3d_multiply_instance_norm_clamp_multiply_max`].
    Conv3dMultiplyInstanceNormClampMultiplyMax {
        x: Array5<f32>,
        weights: Conv3dMultiplyInstanceNormClampMultiplyMaxWeights,
        spec: Conv3dMultiplyInstanceNormClampMultiplyMaxSpec,
    },
}

impl Operation {
    /// The operator's or pipeline's name, as its functions and files have it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Conv2d { .. } => "conv2d",
            Self::Conv3d { .. } => "conv3d",
            Self::GroupNorm { .. } => "group_norm",
            Self::InstanceNorm { .. } => "instance_norm",
            Self::Scale { .. } => "scale",
            Self::MaxPool2d { .. } => "max_pool2d",
            Self::Clamp { .. } => "clamp",
            Self::ChannelMax { .. } => "channel_max",
            Self::Conv2dGroupNormScaleMaxPoolClamp { .. } => {
                "conv2d_group_norm_scale_max_pool_clamp"
            }
            Self::Conv3dMultiplyInstanceNormClampMultiplyMax { .. } => {
                "conv3d_multiply_instance_norm_clamp_multiply_max"
            }
        }
    }

    /// Applies `f` to every element of the input, parameters left alone.
    pub fn map_input(&mut self, f: impl Fn(f32) -> f32) {
        match self {
            Self::Conv2d { x, .. }
            | Self::MaxPool2d { x, .. }
            | Self::Conv2dGroupNormScaleMaxPoolClamp { x, .. } => x.mapv_inplace(f),
            Self::Conv3d { x, .. } | Self::Conv3dMultiplyInstanceNormClampMultiplyMax { x, .. } => {
                x.mapv_inplace(f);
            }
            Self::GroupNorm { x, .. }
            | Self::InstanceNorm { x, .. }
            | Self::Scale { x, .. }
            | Self::Clamp { x, .. }
            | Self::ChannelMax { x } => x.mapv_inplace(f),
        }
    }

    /// The float64 reference of the operation.
    ///
    /// # Errors
    /// What the operation's specification refuses.
    pub fn reference(&self) -> Result<ArrayD<f64>, SpecError> {
        let wide = |bias: &Option<Array1<f32>>| bias.as_ref().map(|bias| bias.mapv(f64::from));
        Ok(match self {
            Self::Conv2d {
                x,
                weight,
                bias,
                spec,
            } => {
                let (x, weight, bias) = (x.mapv(f64::from), weight.mapv(f64::from), wide(bias));
                let bias = bias.as_ref().map(|bias| bias.view());
                reference::conv2d(x.view(), weight.view(), bias, spec)?.into_dyn()
            }
            Self::Conv3d {
                x,
                weight,
                bias,
                spec,
            } => {
                let (x, weight, bias) = (x.mapv(f64::from), weight.mapv(f64::from), wide(bias));
                let bias = bias.as_ref().map(|bias| bias.view());
                reference::conv3d(x.view(), weight.view(), bias, spec)?.into_dyn()
            }
            Self::GroupNorm {
                x,
                weight,
                bias,
                spec,
            } => {
                let (x, weight, bias) = (x.mapv(f64::from), wide(weight), wide(bias));
                let weight = weight.as_ref().map(|weight| weight.view());
                let bias = bias.as_ref().map(|bias| bias.view());
                reference::group_norm(x.view(), weight, bias, spec)?
            }
            Self::InstanceNorm {
                x,
                weight,
                bias,
                spec,
            } => {
                let (x, weight, bias) = (x.mapv(f64::from), wide(weight), wide(bias));
                let weight = weight.as_ref().map(|weight| weight.view());
                let bias = bias.as_ref().map(|bias| bias.view());
                reference::instance_norm(x.view(), weight, bias, spec)?
            }
            Self::Scale { x, scale } => {
                reference::scale(x.mapv(f64::from).view(), scale.mapv(f64::from).view())?
            }
            Self::MaxPool2d { x, spec } => {
                reference::max_pool2d(x.mapv(f64::from).view(), spec)?.into_dyn()
            }
            Self::Clamp { x, spec } => reference::clamp(x.mapv(f64::from).view(), spec)?,
            Self::ChannelMax { x } => reference::channel_max(x.mapv(f64::from).view())?,
            Self::Conv2dGroupNormScaleMaxPoolClamp { x, weights, spec } => {
                reference::conv2d_group_norm_scale_max_pool_clamp(x.view(), weights, spec)?
                    .into_dyn()
            }
            Self::Conv3dMultiplyInstanceNormClampMultiplyMax { x, weights, spec } => {
                reference::conv3d_multiply_instance_norm_clamp_multiply_max(
                    x.view(),
                    weights,
                    spec,
                )?
                .into_dyn()
            }
        })
    }

    /// The reference with the tolerance that `precision` asks for, element by element.
    ///
    /// # Errors
    /// What the operation's specification refuses.
    pub fn expected(&self, precision: &Precision) -> Result<Expected, SpecError> {
        let bounded = match self {
            Self::Conv2d {
                x,
                weight,
                bias,
                spec,
            } => Bounded::exact(x, precision).conv2d(weight, bias.as_ref(), spec)?,
            Self::Conv3d {
                x,
                weight,
                bias,
                spec,
            } => Bounded::exact(x, precision).conv3d(weight, bias.as_ref(), spec)?,
            Self::GroupNorm {
                x,
                weight,
                bias,
                spec,
            } => {
                let weight_shape = weight.as_ref().map(|weight| weight.shape());
                let bias_shape = bias.as_ref().map(|bias| bias.shape());
                spec.problem(x.shape(), weight_shape, bias_shape)?;
                Bounded::exact(x, precision).normalize(weight.as_ref(), bias.as_ref(), spec)
            }
            Self::InstanceNorm {
                x,
                weight,
                bias,
                spec,
            } => {
                let weight_shape = weight.as_ref().map(|weight| weight.shape());
                let bias_shape = bias.as_ref().map(|bias| bias.shape());
                let problem = spec.problem(x.shape(), weight_shape, bias_shape)?;
                let spec = GroupNormSpec {
                    num_groups: problem.as_group_norm().num_groups,
                    eps: spec.eps,
                };
                Bounded::exact(x, precision).normalize(weight.as_ref(), bias.as_ref(), &spec)
            }
            Self::Scale { x, scale } => Bounded::exact(x, precision).scale(scale)?,
            Self::MaxPool2d { x, spec } => Bounded::exact(x, precision).max_pool2d(spec)?,
            Self::Clamp { x, spec } => Bounded::exact(x, precision).clamp(spec)?,
            Self::ChannelMax { x } => Bounded::exact(x, precision).channel_max()?,
            Self::Conv2dGroupNormScaleMaxPoolClamp { x, weights, spec } => {
                let problem = spec.problem(x.shape())?;
                weights.check(spec)?;
                Bounded::by_sample(x.view(), precision, &problem.output_shape(), |x| {
                    x.conv2d(&weights.conv_weight, weights.conv_bias.as_ref(), &spec.conv)?
                        .normalize(
                            weights.group_norm_weight.as_ref(),
                            weights.group_norm_bias.as_ref(),
                            &spec.group_norm,
                        )
                        .scale(&weights.scale)?
                        .max_pool2d(&spec.max_pool)?
                        .clamp(&spec.clamp)
                })?
            }
            Self::Conv3dMultiplyInstanceNormClampMultiplyMax { x, weights, spec } => {
                let problem = spec.problem(x.shape())?;
                weights.check(spec)?;
                let norm = GroupNormSpec {
                    num_groups: problem.instance_norm.as_group_norm().num_groups,
                    eps: spec.instance_norm.eps,
                };
                Bounded::by_sample(x.view(), precision, &problem.output_shape(), |x| {
                    x.conv3d(&weights.conv_weight, weights.conv_bias.as_ref(), &spec.conv)?
                        .scale(&weights.multiplier)?
                        .normalize(
                            weights.instance_norm_weight.as_ref(),
                            weights.instance_norm_bias.as_ref(),
                            &norm,
                        )
                        .clamp(&spec.clamp)?
                        .scale(&weights.multiplier)?
                        .channel_max()
                })?
            }
        };
        Ok(Expected::from(bounded))
    }
}
