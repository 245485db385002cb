//! Parameters of the pipelines: PyTorch's initialisation, and safetensors files under the names
//! that PyTorch gives the parameters.
//!
//! | pipeline | tensors |
//! |---|---|
//! | 85 | `conv.weight`, `conv.bias`, `group_norm.weight`, `group_norm.bias`, `scale` (shape `[k, 1, 1]`) |
//! | 79 | `conv.weight`, `conv.bias`, `multiplier` (shape `[k, 1, 1, 1]`), and `instance_norm.weight`, `instance_norm.bias` where affine |

use std::path::Path;

use ndarray::{Array1, Array4, Array5, ArrayBase, Data, Dimension};
use op_spec::{
    Conv2dGroupNormScaleMaxPoolClampSpec, Conv3dMultiplyInstanceNormClampMultiplyMaxSpec, Quantity,
    RankRule, SpecError,
};

use crate::data::{normal, signed};
use crate::tensor_file::{self, Entry, TensorFileError, Tensors};

/// Parameters of `conv2d → group_norm → scale → max_pool2d → clamp`.
#[derive(Clone, Debug, PartialEq)]
pub struct Conv2dGroupNormScaleMaxPoolClampWeights {
    /// Filter, `[k, c / groups, r, s]`.
    pub conv_weight: Array4<f32>,
    /// Bias of the convolution, `[k]`.
    pub conv_bias: Option<Array1<f32>>,
    /// Factor of the normalised values, `[k]`.
    pub group_norm_weight: Option<Array1<f32>>,
    /// Summand of the normalised values, `[k]`.
    pub group_norm_bias: Option<Array1<f32>>,
    /// Factor after the norm, `[k]`.
    pub scale: Array1<f32>,
}

impl Conv2dGroupNormScaleMaxPoolClampWeights {
    /// PyTorch's initialisation: the convolution uniform within `1 / sqrt(fan_in)`, the norm's
    /// weight 1 and bias 0, `scale` 1.
    #[must_use]
    pub fn init(spec: &Conv2dGroupNormScaleMaxPoolClampSpec, seed: u64) -> Self {
        let shape = spec.weight_shape();
        let k = spec.out_channels;
        Self {
            conv_weight: signed(stream(seed, 0), shape) * uniform_bound(&shape),
            conv_bias: spec
                .bias
                .then(|| signed(stream(seed, 1), k) * uniform_bound(&shape)),
            group_norm_weight: spec.affine.then(|| Array1::ones(k)),
            group_norm_bias: spec.affine.then(|| Array1::zeros(k)),
            scale: Array1::ones(k),
        }
    }

    /// Checks presence and shape of every parameter.
    ///
    /// # Errors
    /// The first parameter that is missing, superfluous, or of another shape.
    pub fn check(&self, spec: &Conv2dGroupNormScaleMaxPoolClampSpec) -> Result<(), SpecError> {
        let k = [spec.out_channels];
        let affine = spec.affine.then_some(&k[..]);
        check(
            "conv2d",
            "weight",
            Some(&self.conv_weight),
            Some(&spec.weight_shape()),
        )?;
        check(
            "conv2d",
            "bias",
            self.conv_bias.as_ref(),
            spec.bias.then_some(&k),
        )?;
        check(
            "group_norm",
            "weight",
            self.group_norm_weight.as_ref(),
            affine,
        )?;
        check("group_norm", "bias", self.group_norm_bias.as_ref(), affine)?;
        check("scale", "scale", Some(&self.scale), Some(&k))
    }

    /// Reads the parameters that `spec` asks for.
    ///
    /// # Errors
    /// [`TensorFileError`] for a file that cannot be read or is no safetensors file (a truncated one,
    /// say), and for tensors that are missing, superfluous, misshapen, or not f32.
    pub fn load(
        path: impl AsRef<Path>,
        spec: &Conv2dGroupNormScaleMaxPoolClampSpec,
    ) -> Result<Self, TensorFileError> {
        let k = spec.out_channels;
        let mut tensors = Tensors::read(path.as_ref())?;
        let weights = Self {
            conv_weight: tensors.take("conv.weight", spec.weight_shape())?,
            conv_bias: spec
                .bias
                .then(|| tensors.take("conv.bias", [k]))
                .transpose()?,
            group_norm_weight: spec
                .affine
                .then(|| tensors.take("group_norm.weight", [k]))
                .transpose()?,
            group_norm_bias: spec
                .affine
                .then(|| tensors.take("group_norm.bias", [k]))
                .transpose()?,
            scale: flat(tensors.take("scale", [k, 1, 1])?),
        };
        tensors.finish()?;
        Ok(weights)
    }

    /// Writes the parameters to `path`, replacing the file only once it is complete.
    ///
    /// # Errors
    /// [`TensorFileError::Write`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), TensorFileError> {
        let mut entries = vec![
            Entry::new("conv.weight", &self.conv_weight),
            Entry::with_shape("scale", &self.scale, [self.scale.len(), 1, 1]),
        ];
        for (name, tensor) in [
            ("conv.bias", &self.conv_bias),
            ("group_norm.weight", &self.group_norm_weight),
            ("group_norm.bias", &self.group_norm_bias),
        ] {
            entries.extend(tensor.as_ref().map(|tensor| Entry::new(name, tensor)));
        }
        tensor_file::write(path.as_ref(), &entries)
    }
}

/// Parameters of `conv3d → multiply → instance_norm → clamp → multiply → channel_max`.
#[derive(Clone, Debug, PartialEq)]
pub struct Conv3dMultiplyInstanceNormClampMultiplyMaxWeights {
    /// Filter, `[k, c / groups, t, r, s]`.
    pub conv_weight: Array5<f32>,
    /// Bias of the convolution, `[k]`.
    pub conv_bias: Option<Array1<f32>>,
    /// Factor of the normalised values, `[k]`.
    pub instance_norm_weight: Option<Array1<f32>>,
    /// Summand of the normalised values, `[k]`.
    pub instance_norm_bias: Option<Array1<f32>>,
    /// Factor before the norm and again after the clamp, `[k]`.
    pub multiplier: Array1<f32>,
}

impl Conv3dMultiplyInstanceNormClampMultiplyMaxWeights {
    /// PyTorch's initialisation: the convolution uniform within `1 / sqrt(fan_in)`, the norm's
    /// weight 1 and bias 0, `multiplier` normally distributed.
    #[must_use]
    pub fn init(spec: &Conv3dMultiplyInstanceNormClampMultiplyMaxSpec, seed: u64) -> Self {
        let shape = spec.weight_shape();
        let k = spec.out_channels;
        Self {
            conv_weight: signed(stream(seed, 0), shape) * uniform_bound(&shape),
            conv_bias: spec
                .bias
                .then(|| signed(stream(seed, 1), k) * uniform_bound(&shape)),
            instance_norm_weight: spec.affine.then(|| Array1::ones(k)),
            instance_norm_bias: spec.affine.then(|| Array1::zeros(k)),
            multiplier: normal(stream(seed, 2), k),
        }
    }

    /// Checks presence and shape of every parameter.
    ///
    /// # Errors
    /// The first parameter that is missing, superfluous, or of another shape.
    pub fn check(
        &self,
        spec: &Conv3dMultiplyInstanceNormClampMultiplyMaxSpec,
    ) -> Result<(), SpecError> {
        let k = [spec.out_channels];
        let affine = spec.affine.then_some(&k[..]);
        check(
            "conv3d",
            "weight",
            Some(&self.conv_weight),
            Some(&spec.weight_shape()),
        )?;
        check(
            "conv3d",
            "bias",
            self.conv_bias.as_ref(),
            spec.bias.then_some(&k),
        )?;
        check(
            "instance_norm",
            "weight",
            self.instance_norm_weight.as_ref(),
            affine,
        )?;
        check(
            "instance_norm",
            "bias",
            self.instance_norm_bias.as_ref(),
            affine,
        )?;
        check("multiply", "multiplier", Some(&self.multiplier), Some(&k))
    }

    /// Reads the parameters that `spec` asks for.
    ///
    /// # Errors
    /// As [`Conv2dGroupNormScaleMaxPoolClampWeights::load`].
    pub fn load(
        path: impl AsRef<Path>,
        spec: &Conv3dMultiplyInstanceNormClampMultiplyMaxSpec,
    ) -> Result<Self, TensorFileError> {
        let k = spec.out_channels;
        let mut tensors = Tensors::read(path.as_ref())?;
        let weights = Self {
            conv_weight: tensors.take("conv.weight", spec.weight_shape())?,
            conv_bias: spec
                .bias
                .then(|| tensors.take("conv.bias", [k]))
                .transpose()?,
            instance_norm_weight: spec
                .affine
                .then(|| tensors.take("instance_norm.weight", [k]))
                .transpose()?,
            instance_norm_bias: spec
                .affine
                .then(|| tensors.take("instance_norm.bias", [k]))
                .transpose()?,
            multiplier: flat(tensors.take("multiplier", [k, 1, 1, 1])?),
        };
        tensors.finish()?;
        Ok(weights)
    }

    /// Writes the parameters to `path`, replacing the file only once it is complete.
    ///
    /// # Errors
    /// [`TensorFileError::Write`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), TensorFileError> {
        let mut entries = vec![
            Entry::new("conv.weight", &self.conv_weight),
            Entry::with_shape(
                "multiplier",
                &self.multiplier,
                [self.multiplier.len(), 1, 1, 1],
            ),
        ];
        for (name, tensor) in [
            ("conv.bias", &self.conv_bias),
            ("instance_norm.weight", &self.instance_norm_weight),
            ("instance_norm.bias", &self.instance_norm_bias),
        ] {
            entries.extend(tensor.as_ref().map(|tensor| Entry::new(name, tensor)));
        }
        tensor_file::write(path.as_ref(), &entries)
    }
}

/// The seed of parameter `index`, so that parameters of one model are independent.
const fn stream(seed: u64, index: u64) -> u64 {
    seed.wrapping_mul(4).wrapping_add(index)
}

/// Kaiming's uniform bound with `a = sqrt(5)`, which is `1 / sqrt(fan_in)`.
fn uniform_bound(weight_shape: &[usize]) -> f32 {
    let fan_in: usize = weight_shape[1..].iter().product();
    (1.0 / (fan_in.max(1) as f64).sqrt()) as f32
}

/// A parameter that PyTorch keeps as `[k, 1, 1]` for broadcasting, as a vector.
fn flat<D: Dimension>(tensor: ndarray::Array<f32, D>) -> Array1<f32> {
    tensor.into_iter().collect()
}

fn check<S: Data<Elem = f32>, D: Dimension>(
    operator: &'static str,
    parameter: &'static str,
    tensor: Option<&ArrayBase<S, D>>,
    expected: Option<&[usize]>,
) -> Result<(), SpecError> {
    let (tensor, expected) = match (tensor, expected) {
        (Some(tensor), Some(expected)) => (tensor, expected),
        (None, None) => return Ok(()),
        (tensor, _) => {
            return Err(SpecError::Presence {
                operator,
                parameter,
                present: tensor.is_some(),
            });
        }
    };
    if tensor.ndim() != expected.len() {
        return Err(SpecError::Rank {
            operator,
            tensor: parameter,
            actual: tensor.ndim(),
            rule: RankRule::Exactly(expected.len()),
        });
    }
    for (axis, (&actual, &expected)) in tensor.shape().iter().zip(expected).enumerate() {
        if actual != expected {
            return Err(SpecError::Mismatch {
                operator,
                quantity: Quantity::entry(parameter, axis),
                actual,
                expected,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
