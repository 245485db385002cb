//! Runs cases on a device, in every way that the library has for them.

use std::fmt;

use ndarray::ArrayD;

use super::{Operation, Precision};
use crate::device::{DType, Element, Stream, Tensor, bf16, f16};
use crate::error::Result;
use crate::models::{
    Conv2dGroupNormScaleMaxPoolClamp, Conv3dMultiplyInstanceNormClampMultiplyMax, Options,
    Pipeline, Strategy, conv2d_group_norm_scale_max_pool_clamp as model_85,
    conv3d_multiply_instance_norm_clamp_multiply_max as model_79,
};
use crate::ops::{self, ConvAlgorithm, ConvOptions, Precision as Products};

/// One of the ways that the library has to carry out an [`Operation`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    kind: Kind,
    dtype: DType,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Only,
    Conv(ConvAlgorithm),
    /// im2col with a workspace of a few kilobytes, so that there are many chunks.
    ConvChunked,
    Model85(model_85::Strategy, Products),
    Model79(model_79::Strategy, Products),
}

/// A workspace that cuts even small convolutions into chunks.
const SMALL_WORKSPACE: u64 = 16 << 10;

/// Every strategy, and the fused one with fast products too where there is a difference.
fn pipeline_ways<S: Strategy>(dtype: DType, kind: impl Fn(S, Products) -> Kind) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = S::ALL
        .iter()
        .map(|&strategy| kind(strategy, Products::Accurate))
        .collect();
    if dtype == DType::F32 {
        kinds.push(kind(S::FUSED, Products::Fast));
    }
    kinds
}

fn pipeline_name(strategy: impl Strategy, products: Products) -> String {
    match products {
        Products::Accurate => strategy.to_string(),
        Products::Fast => format!("{strategy} {products}"),
    }
}

impl fmt::Display for Way {
    /// Such as `im2col f16`; empty for the one way of an operator in f32.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.kind {
            Kind::Only => String::new(),
            Kind::Conv(ConvAlgorithm::Direct) => "direct".to_owned(),
            Kind::Conv(ConvAlgorithm::Im2col) => "im2col".to_owned(),
            Kind::ConvChunked => "im2col-chunked".to_owned(),
            Kind::Model85(strategy, products) => pipeline_name(strategy, products),
            Kind::Model79(strategy, products) => pipeline_name(strategy, products),
        };
        match (self.dtype, name.is_empty()) {
            (DType::F32, _) => f.pad(&name),
            (dtype, true) => f.pad(&dtype.to_string()),
            (dtype, false) => f.pad(&format!("{name} {dtype}")),
        }
    }
}

impl Way {
    /// All ways of an operation on tensors of this type. On the CPU backend they are one and the same.
    #[must_use]
    pub fn all(operation: &Operation, dtype: DType) -> Vec<Way> {
        let kinds = match operation {
            Operation::Conv2d { .. } | Operation::Conv3d { .. } => {
                let algorithms = [ConvAlgorithm::Direct, ConvAlgorithm::Im2col];
                algorithms
                    .into_iter()
                    .map(Kind::Conv)
                    .chain([Kind::ConvChunked])
                    .collect()
            }
            Operation::Conv2dGroupNormScaleMaxPoolClamp { .. } => {
                pipeline_ways(dtype, Kind::Model85)
            }
            Operation::Conv3dMultiplyInstanceNormClampMultiplyMax { .. } => {
                pipeline_ways(dtype, Kind::Model79)
            }
            _ => vec![Kind::Only],
        };
        kinds.into_iter().map(|kind| Way { kind, dtype }).collect()
    }

    /// The precision that its results have.
    #[must_use]
    pub fn precision(&self) -> Precision {
        let fast = matches!(
            self.kind,
            Kind::Model85(_, Products::Fast) | Kind::Model79(_, Products::Fast)
        );
        match self.dtype {
            DType::F32 if fast => Precision::TF32,
            DType::F32 => Precision::F32,
            DType::F16 => Precision::F16,
            DType::BF16 => Precision::BF16,
        }
    }

    /// Carries out the operation on the stream's device, and waits for the result.
    ///
    /// Inputs and parameters are rounded to the element type first; a fair expectation comes from
    /// [`rounded`](Operation::rounded).
    ///
    /// # Errors
    /// What the operation's specification refuses, and what may go wrong on a device.
    pub fn run(&self, operation: &Operation, stream: &Stream) -> Result<ArrayD<f32>> {
        self.run_on_device(operation, stream)?.to_f32_array()
    }

    fn run_on_device(&self, operation: &Operation, stream: &Stream) -> Result<Tensor> {
        macro_rules! upload {
            ($array:expr) => {
                Tensor::from_f32_array(stream, $array, self.dtype)?
            };
        }
        macro_rules! upload_optional {
            ($array:expr) => {
                match $array {
                    Some(array) => Some(upload!(array)),
                    None => None,
                }
            };
        }
        match operation {
            Operation::Conv2d {
                x,
                weight,
                bias,
                spec,
            } => {
                let (x, weight, bias) = (upload!(x), upload!(weight), upload_optional!(bias));
                ops::conv2d_with(&x, &weight, bias.as_ref(), spec, &self.conv_options())
            }
            Operation::Conv3d {
                x,
                weight,
                bias,
                spec,
            } => {
                let (x, weight, bias) = (upload!(x), upload!(weight), upload_optional!(bias));
                ops::conv3d_with(&x, &weight, bias.as_ref(), spec, &self.conv_options())
            }
            Operation::GroupNorm {
                x,
                weight,
                bias,
                spec,
            } => {
                let (x, weight, bias) =
                    (upload!(x), upload_optional!(weight), upload_optional!(bias));
                ops::group_norm(&x, weight.as_ref(), bias.as_ref(), spec)
            }
            Operation::InstanceNorm {
                x,
                weight,
                bias,
                spec,
            } => {
                let (x, weight, bias) =
                    (upload!(x), upload_optional!(weight), upload_optional!(bias));
                ops::instance_norm(&x, weight.as_ref(), bias.as_ref(), spec)
            }
            Operation::Scale { x, scale } => ops::scale(&upload!(x), &upload!(scale)),
            Operation::MaxPool2d { x, spec } => ops::max_pool2d(&upload!(x), spec),
            Operation::Clamp { x, spec } => ops::clamp(&upload!(x), spec),
            Operation::ChannelMax { x } => ops::channel_max(&upload!(x)),
            Operation::Conv2dGroupNormScaleMaxPoolClamp { x, weights, spec } => {
                let model = Conv2dGroupNormScaleMaxPoolClamp::with_dtype(
                    stream, spec, weights, self.dtype,
                )?;
                let options = match self.kind {
                    Kind::Model85(strategy, products) => {
                        Options::strategy(strategy).precision(products)
                    }
                    _ => Options::default(),
                };
                model.forward_with(&upload!(x), &options)
            }
            Operation::Conv3dMultiplyInstanceNormClampMultiplyMax { x, weights, spec } => {
                let model = Conv3dMultiplyInstanceNormClampMultiplyMax::with_dtype(
                    stream, spec, weights, self.dtype,
                )?;
                let options = match self.kind {
                    Kind::Model79(strategy, products) => {
                        Options::strategy(strategy).precision(products)
                    }
                    _ => Options::default(),
                };
                model.forward_with(&upload!(x), &options)
            }
        }
    }

    fn conv_options(&self) -> ConvOptions {
        match self.kind {
            Kind::Conv(algorithm) => ConvOptions::algorithm(algorithm),
            Kind::ConvChunked => {
                ConvOptions::algorithm(ConvAlgorithm::Im2col).workspace_bytes(SMALL_WORKSPACE)
            }
            _ => ConvOptions::default(),
        }
    }
}

impl Operation {
    /// The operation on inputs and parameters rounded to what `dtype` can hold.
    #[must_use]
    pub fn rounded(&self, dtype: DType) -> Operation {
        let mut rounded = self.clone();
        rounded.map_all(|value| match dtype {
            DType::F32 => value,
            DType::F16 => f16::from_f32(value).to_f32(),
            DType::BF16 => <bf16 as Element>::from_f32(value).to_f32(),
        });
        rounded
    }

    /// Applies `f` to every element of input and parameters.
    fn map_all(&mut self, f: impl Fn(f32) -> f32) {
        self.map_input(&f);
        let vectors = match self {
            Operation::Conv2d { weight, bias, .. } => {
                weight.mapv_inplace(&f);
                vec![bias.as_mut()]
            }
            Operation::Conv3d { weight, bias, .. } => {
                weight.mapv_inplace(&f);
                vec![bias.as_mut()]
            }
            Operation::GroupNorm { weight, bias, .. }
            | Operation::InstanceNorm { weight, bias, .. } => {
                vec![weight.as_mut(), bias.as_mut()]
            }
            Operation::Scale { scale, .. } => vec![Some(scale)],
            Operation::MaxPool2d { .. }
            | Operation::Clamp { .. }
            | Operation::ChannelMax { .. } => vec![],
            Operation::Conv2dGroupNormScaleMaxPoolClamp { weights, .. } => {
                weights.conv_weight.mapv_inplace(&f);
                vec![
                    weights.conv_bias.as_mut(),
                    weights.group_norm_weight.as_mut(),
                    weights.group_norm_bias.as_mut(),
                    Some(&mut weights.scale),
                ]
            }
            Operation::Conv3dMultiplyInstanceNormClampMultiplyMax { weights, .. } => {
                weights.conv_weight.mapv_inplace(&f);
                vec![
                    weights.conv_bias.as_mut(),
                    weights.instance_norm_weight.as_mut(),
                    weights.instance_norm_bias.as_mut(),
                    Some(&mut weights.multiplier),
                ]
            }
        };
        for vector in vectors.into_iter().flatten() {
            vector.mapv_inplace(&f);
        }
    }
}
