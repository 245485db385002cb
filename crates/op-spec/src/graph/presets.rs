//! Predefined chains: two problems of [KernelBench](https://github.com/ScalingIntelligence/KernelBench),
//! level 2.

use super::{Chain, GraphError, Initialisation, Layer};
use crate::{
    ClampSpec, Conv2dSpec, Conv3dSpec, GroupNormSpec, InstanceNormSpec, MaxPool2dSpec,
    PointwiseSpec,
};

/// Attributes of problem 85: `clamp(max_pool2d(group_norm(conv2d(x)) * scale))`. Exhaustive: the problem is
/// fixed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelBench85 {
    /// Channels of the input.
    pub in_channels: usize,
    /// Channels of the convolution's output and all later values.
    pub out_channels: usize,
    /// Extents of the filter.
    pub kernel_size: [usize; 2],
    /// Attributes of the convolution.
    pub conv: Conv2dSpec,
    /// Whether the convolution adds a bias.
    pub bias: bool,
    /// Attributes of the norm.
    pub group_norm: GroupNormSpec,
    /// Whether the norm has a weight and a bias.
    pub affine: bool,
    /// Attributes of the pooling.
    pub max_pool: MaxPool2dSpec,
    /// Bounds of the clamp.
    pub clamp: ClampSpec,
}

impl KernelBench85 {
    /// Shape of the benchmark's input.
    pub const INPUT: [usize; 4] = [128, 8, 128, 128];

    /// The chain; its parameters are `conv.weight`, `conv.bias`, `group_norm.weight`, `group_norm.bias`,
    /// `scale`.
    ///
    /// # Errors
    /// The errors of [`Chain::new`].
    pub fn chain(&self) -> Result<Chain, GraphError> {
        Chain::new(
            self.in_channels,
            (
                Layer::conv2d("conv", self.out_channels, self.kernel_size)
                    .attributes(self.conv)
                    .bias(self.bias),
                Layer::group_norm("group_norm", self.group_norm.num_groups)
                    .attributes(self.group_norm)
                    .affine(self.affine),
                Layer::scale("scale"),
                self.max_pool,
                PointwiseSpec::Clamp(self.clamp),
            ),
        )
    }
}

impl Default for KernelBench85 {
    /// The benchmark's values: 3×3 filters, 8 to 64 channels, 16 groups, pooling by 4, bounds 0 and 1.
    fn default() -> Self {
        Self {
            in_channels: 8,
            out_channels: 64,
            kernel_size: [3, 3],
            conv: Conv2dSpec::default(),
            bias: true,
            group_norm: GroupNormSpec::new(16),
            affine: true,
            max_pool: MaxPool2dSpec::new(4),
            clamp: ClampSpec::new(0.0, 1.0),
        }
    }
}

/// Attributes of problem 79: `max(clamp(instance_norm(conv3d(x) * m)) * m, dim=1)`. Exhaustive: the problem
/// is fixed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelBench79 {
    /// Channels of the input.
    pub in_channels: usize,
    /// Channels of the convolution's output and all later values.
    pub out_channels: usize,
    /// Extents of the filter.
    pub kernel_size: [usize; 3],
    /// Attributes of the convolution.
    pub conv: Conv3dSpec,
    /// Whether the convolution adds a bias.
    pub bias: bool,
    /// Attributes of the norm.
    pub instance_norm: InstanceNormSpec,
    /// Whether the norm has a weight and a bias.
    pub affine: bool,
    /// Bounds of the clamp.
    pub clamp: ClampSpec,
}

impl KernelBench79 {
    /// Shape of the benchmark's input.
    pub const INPUT: [usize; 5] = [128, 3, 16, 32, 32];

    /// The chain; its parameters are `conv.weight`, `conv.bias`, `multiplier`, and, if `affine`,
    /// `instance_norm.weight` and `instance_norm.bias`.
    ///
    /// # Errors
    /// The errors of [`Chain::new`].
    pub fn chain(&self) -> Result<Chain, GraphError> {
        let multiply = Layer::scale("multiplier").initialisation(Initialisation::Normal);
        Chain::new(
            self.in_channels,
            (
                Layer::conv3d("conv", self.out_channels, self.kernel_size)
                    .attributes(self.conv)
                    .bias(self.bias),
                multiply.clone(),
                Layer::instance_norm("instance_norm")
                    .attributes(self.instance_norm)
                    .affine(self.affine),
                PointwiseSpec::Clamp(self.clamp),
                multiply,
                Layer::max(&[1]),
            ),
        )
    }
}

impl Default for KernelBench79 {
    /// The benchmark's values: 3×3×3 filters, 3 to 16 channels, bounds -1 and 1.
    fn default() -> Self {
        Self {
            in_channels: 3,
            out_channels: 16,
            kernel_size: [3, 3, 3],
            conv: Conv3dSpec::default(),
            bias: true,
            instance_norm: InstanceNormSpec::default(),
            affine: false,
            clamp: ClampSpec::new(-1.0, 1.0),
        }
    }
}
