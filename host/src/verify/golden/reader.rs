//! From a file's description and tensors to an operation.

use std::collections::HashMap;
use std::path::PathBuf;

use ndarray::{Array, Array1, ArrayD, Dimension, IxDyn};
use op_spec::{
    ClampSpec, Conv2dGroupNormScaleMaxPoolClampSpec,
    Conv3dMultiplyInstanceNormClampMultiplyMaxSpec, Conv3dSpec, ConvSpec, GroupNormSpec,
    InstanceNormSpec, MaxPool2dSpec,
};
use serde::Deserialize;
use serde_json::Value;

use super::{GoldenCase, GoldenError};
use crate::data;
use crate::tensor_file::Tensors;
use crate::verify::{Case, Operation};
use crate::weights::{
    Conv2dGroupNormScaleMaxPoolClampWeights, Conv3dMultiplyInstanceNormClampMultiplyMaxWeights,
};

/// The description of a case.
#[derive(Deserialize)]
pub(super) struct Header {
    op: String,
    attributes: Value,
    shapes: HashMap<String, Vec<usize>>,
    out_shape: Vec<usize>,
    out_mean: Option<f64>,
}

#[derive(Deserialize)]
struct ConvAttributes<const D: usize>
where
    [usize; D]: for<'a> Deserialize<'a>,
{
    stride: [usize; D],
    padding: [usize; D],
    dilation: [usize; D],
    groups: usize,
}

impl<const D: usize> From<ConvAttributes<D>> for ConvSpec<D>
where
    [usize; D]: for<'a> Deserialize<'a>,
{
    fn from(attributes: ConvAttributes<D>) -> Self {
        Self {
            stride: attributes.stride,
            padding: attributes.padding,
            dilation: attributes.dilation,
            groups: attributes.groups,
        }
    }
}

#[derive(Deserialize)]
struct PoolAttributes {
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
    ceil_mode: bool,
}

#[derive(Deserialize)]
struct Attributes85 {
    num_groups: usize,
    eps: f64,
    pool: usize,
    clamp_min: Option<f64>,
    clamp_max: Option<f64>,
}

#[derive(Deserialize)]
struct NormAttributes {
    eps: f64,
    num_groups: Option<usize>,
}

#[derive(Deserialize)]
struct ClampAttributes {
    clamp_min: Option<f64>,
    clamp_max: Option<f64>,
}

#[derive(Deserialize)]
struct SeedAttributes {
    x_seed: u64,
}

/// A file being read.
pub(super) struct Reader {
    pub(super) path: PathBuf,
    pub(super) tensors: Tensors,
    pub(super) header: Header,
}

impl Reader {
    pub(super) fn case(mut self) -> Result<GoldenCase, GoldenError> {
        let elements = self.elements(&self.header.out_shape)?;
        let index = self.index(elements)?;
        let values: ArrayD<f64> = match &index {
            Some(index) => self.tensors.take("out", IxDyn(&[index.len()]))?,
            None => self.tensors.take("out", IxDyn(&self.header.out_shape))?,
        };
        let operation = self.operation()?;
        self.tensors.finish()?;
        let name = self.path.file_stem().unwrap_or_default();
        Ok(GoldenCase {
            case: Case {
                name: name.to_string_lossy().into_owned(),
                operation,
            },
            mean: self.header.out_mean,
            path: self.path,
            output_shape: self.header.out_shape,
            index,
            values: values.into_iter().collect(),
        })
    }

    /// Which outputs are known, where a mean says that not all are.
    fn index(&mut self, elements: usize) -> Result<Option<Vec<usize>>, GoldenError> {
        if self.header.out_mean.is_none() {
            return Ok(None);
        }
        let index: Array1<i64> = self.tensors.take_vector("index")?;
        let inside = |index: i64| {
            usize::try_from(index)
                .ok()
                .filter(|&index| index < elements)
                .ok_or_else(|| GoldenError::Index {
                    path: self.path.clone(),
                    index,
                    elements,
                })
        };
        index
            .into_iter()
            .map(inside)
            .collect::<Result<_, _>>()
            .map(Some)
    }

    fn operation(&mut self) -> Result<Operation, GoldenError> {
        Ok(match self.header.op.as_str() {
            "conv2d" => Operation::Conv2d {
                x: self.tensor("x")?,
                weight: self.tensor("weight")?,
                bias: self.optional("bias")?,
                spec: self.attributes::<ConvAttributes<2>>()?.into(),
            },
            "conv3d" => Operation::Conv3d {
                x: self.tensor("x")?,
                weight: self.tensor("weight")?,
                bias: self.optional("bias")?,
                spec: Conv3dSpec::from(self.attributes::<ConvAttributes<3>>()?),
            },
            "group_norm" | "instance_norm" => {
                let attributes: NormAttributes = self.attributes()?;
                let x = self.tensor_of_any_rank("x")?;
                let (weight, bias) = (self.optional("gamma")?, self.optional("beta")?);
                let eps = attributes.eps;
                match attributes.num_groups {
                    Some(num_groups) => Operation::GroupNorm {
                        x,
                        weight,
                        bias,
                        spec: GroupNormSpec { num_groups, eps },
                    },
                    None => Operation::InstanceNorm {
                        x,
                        weight,
                        bias,
                        spec: InstanceNormSpec { eps },
                    },
                }
            }
            "scale" => Operation::Scale {
                x: self.tensor_of_any_rank("x")?,
                scale: self.tensor("scale")?,
            },
            "max_pool2d" => {
                let attributes: PoolAttributes = self.attributes()?;
                Operation::MaxPool2d {
                    x: self.tensor("x")?,
                    spec: MaxPool2dSpec {
                        kernel_size: attributes.kernel,
                        stride: Some(attributes.stride),
                        padding: attributes.padding,
                        dilation: attributes.dilation,
                        ceil_mode: attributes.ceil_mode,
                    },
                }
            }
            "clamp" => Operation::Clamp {
                x: self.tensor_of_any_rank("x")?,
                spec: self.clamp()?,
            },
            "channel_max" => Operation::ChannelMax {
                x: self.tensor_of_any_rank("x")?,
            },
            "conv2d_groupnorm_scale_maxpool_clamp" => self.pipeline_85()?,
            "conv3d_multiply_instancenorm_clamp_multiply_max" => self.pipeline_79()?,
            op => {
                return Err(GoldenError::UnknownOperator {
                    path: self.path.clone(),
                    op: op.into(),
                });
            }
        })
    }

    fn pipeline_85(&mut self) -> Result<Operation, GoldenError> {
        let attributes: Attributes85 = self.attributes()?;
        let x = self.input()?;
        let weights = Conv2dGroupNormScaleMaxPoolClampWeights {
            conv_weight: self.tensor("weight")?,
            conv_bias: self.optional("bias")?,
            group_norm_weight: self.optional("gamma")?,
            group_norm_bias: self.optional("beta")?,
            scale: self.tensor("scale")?,
        };
        let (k, c, r, s) = weights.conv_weight.dim();
        let spec = Conv2dGroupNormScaleMaxPoolClampSpec {
            in_channels: c,
            out_channels: k,
            kernel_size: [r, s],
            conv: ConvSpec::default(),
            bias: weights.conv_bias.is_some(),
            group_norm: GroupNormSpec {
                num_groups: attributes.num_groups,
                eps: attributes.eps,
            },
            affine: weights.group_norm_weight.is_some(),
            max_pool: MaxPool2dSpec::new([attributes.pool; 2]),
            clamp: ClampSpec {
                min: attributes.clamp_min,
                max: attributes.clamp_max,
            },
        };
        Ok(Operation::Conv2dGroupNormScaleMaxPoolClamp { x, weights, spec })
    }

    fn pipeline_79(&mut self) -> Result<Operation, GoldenError> {
        let attributes: NormAttributes = self.attributes()?;
        let x = self.input()?;
        let weights = Conv3dMultiplyInstanceNormClampMultiplyMaxWeights {
            conv_weight: self.tensor("weight")?,
            conv_bias: self.optional("bias")?,
            instance_norm_weight: self.optional("gamma")?,
            instance_norm_bias: self.optional("beta")?,
            multiplier: self.tensor("multiplier")?,
        };
        let (k, c, t, r, s) = weights.conv_weight.dim();
        let spec = Conv3dMultiplyInstanceNormClampMultiplyMaxSpec {
            in_channels: c,
            out_channels: k,
            kernel_size: [t, r, s],
            conv: ConvSpec::default(),
            bias: weights.conv_bias.is_some(),
            instance_norm: InstanceNormSpec {
                eps: attributes.eps,
            },
            affine: weights.instance_norm_weight.is_some(),
            clamp: self.clamp()?,
        };
        Ok(Operation::Conv3dMultiplyInstanceNormClampMultiplyMax { x, weights, spec })
    }

    fn clamp(&self) -> Result<ClampSpec, GoldenError> {
        let attributes: ClampAttributes = self.attributes()?;
        Ok(ClampSpec {
            min: attributes.clamp_min,
            max: attributes.clamp_max,
        })
    }

    fn elements(&self, shape: &[usize]) -> Result<usize, GoldenError> {
        let product = |total: usize, &extent: &usize| total.checked_mul(extent);
        let elements = shape.iter().try_fold(1, product);
        elements
            .filter(|&elements| elements <= op_spec::MAX_ELEMENTS)
            .ok_or_else(|| GoldenError::TooLarge {
                path: self.path.clone(),
                shape: shape.to_vec(),
            })
    }

    /// The input `x`, made from its seed where the file does not hold it.
    fn input<D: Dimension>(&mut self) -> Result<Array<f32, D>, GoldenError> {
        if self.header.out_mean.is_none() {
            return self.tensor("x");
        }
        let SeedAttributes { x_seed } = self.attributes()?;
        let shape = self.shape("x");
        self.elements(&shape)?;
        self.ranked("x", data::fill(x_seed, IxDyn(&shape)))
    }

    fn attributes<'a, T: Deserialize<'a>>(&'a self) -> Result<T, GoldenError> {
        T::deserialize(&self.header.attributes).map_err(|source| GoldenError::Case {
            path: self.path.clone(),
            source,
        })
    }

    /// The shape that the header gives `name`; a tensor without one is expected to be a scalar,
    /// which no tensor here is.
    fn shape(&self, name: &str) -> Vec<usize> {
        self.header.shapes.get(name).cloned().unwrap_or_default()
    }

    fn tensor_of_any_rank(&mut self, name: &'static str) -> Result<ArrayD<f32>, GoldenError> {
        let shape = self.shape(name);
        Ok(self.tensors.take(name, IxDyn(&shape))?)
    }

    fn tensor<D: Dimension>(&mut self, name: &'static str) -> Result<Array<f32, D>, GoldenError> {
        let tensor = self.tensor_of_any_rank(name)?;
        self.ranked(name, tensor)
    }

    fn optional(&mut self, name: &'static str) -> Result<Option<Array1<f32>>, GoldenError> {
        if self.header.shapes.contains_key(name) {
            self.tensor(name).map(Some)
        } else {
            Ok(None)
        }
    }

    fn ranked<D: Dimension>(
        &self,
        tensor: &'static str,
        array: ArrayD<f32>,
    ) -> Result<Array<f32, D>, GoldenError> {
        let actual = array.ndim();
        array.into_dimensionality().map_err(|_| GoldenError::Rank {
            path: self.path.clone(),
            tensor,
            actual,
            expected: D::NDIM.unwrap_or(actual),
        })
    }
}
