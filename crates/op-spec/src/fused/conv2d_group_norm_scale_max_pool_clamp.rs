use crate::{
    ClampProblem, ClampSpec, Conv2dSpec, ConvProblem, GroupNormProblem, GroupNormSpec,
    MaxPool2dProblem, MaxPool2dSpec, ScaleProblem, ScaleSpec, Shape, SpecError,
};

/// `clamp(max_pool2d(group_norm(conv2d(x)) * scale))`, problem 85 of KernelBench's level 2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conv2dGroupNormScaleMaxPoolClampSpec {
    /// Channels of the input.
    pub in_channels: usize,
    /// Channels from the convolution on.
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

impl Conv2dGroupNormScaleMaxPoolClampSpec {
    /// Input shape of the KernelBench problem.
    pub const KERNELBENCH_INPUT: [usize; 4] = [128, 8, 128, 128];

    /// The KernelBench problem: 3×3 filters, 8 to 64 channels, 16 groups, pooling by 4, bounds 0
    /// and 1.
    #[must_use]
    pub fn kernelbench() -> Self {
        Self {
            in_channels: 8,
            out_channels: 64,
            kernel_size: [3, 3],
            conv: Conv2dSpec::default(),
            bias: true,
            group_norm: GroupNormSpec::new(16),
            affine: true,
            max_pool: MaxPool2dSpec::new([4, 4]),
            clamp: ClampSpec::new(0.0, 1.0),
        }
    }

    /// Shape of the filter. Channels that `groups` does not divide are reported by
    /// [`problem`](Self::problem).
    #[must_use]
    pub fn weight_shape(&self) -> [usize; 4] {
        let [r, s] = self.kernel_size;
        let c_per_group = self.in_channels / self.conv.groups.max(1);
        [self.out_channels, c_per_group, r, s]
    }

    /// Checks all operators against the input's shape `[n, in_channels, h, w]`.
    ///
    /// # Errors
    /// The first error of the operators in their order.
    pub fn problem(
        &self,
        input: &[usize],
    ) -> Result<Conv2dGroupNormScaleMaxPoolClampProblem, SpecError> {
        super::check_in_channels("conv2d", input, self.in_channels)?;
        let per_channel = [self.out_channels];
        let bias = self.bias.then_some(&per_channel[..]);
        let conv = self.conv.problem(input, &self.weight_shape(), bias)?;
        let affine = self.affine.then_some(&per_channel[..]);
        let convolved = conv.output_shape();
        let group_norm = self.group_norm.problem(&convolved, affine, affine)?;
        let scale = ScaleSpec.problem(&convolved, &per_channel)?;
        let max_pool = self.max_pool.problem(&convolved)?;
        let clamp = self.clamp.problem(&max_pool.output_shape())?;
        Ok(Conv2dGroupNormScaleMaxPoolClampProblem {
            conv,
            group_norm,
            affine: self.affine,
            scale,
            max_pool,
            clamp,
        })
    }
}

/// A pipeline whose operators fit together.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Conv2dGroupNormScaleMaxPoolClampProblem {
    /// The convolution.
    pub conv: ConvProblem<2>,
    /// The norm of its output.
    pub group_norm: GroupNormProblem,
    /// Whether the norm has a weight and a bias.
    pub affine: bool,
    /// The scaling of the normalised tensor.
    pub scale: ScaleProblem,
    /// The pooling of the scaled tensor.
    pub max_pool: MaxPool2dProblem,
    /// The clamp of the pooled tensor.
    pub clamp: ClampProblem,
}

impl Conv2dGroupNormScaleMaxPoolClampProblem {
    /// Shape of the convolution's output, the largest intermediate.
    #[must_use]
    pub fn conv_shape(&self) -> Shape {
        self.conv.output_shape()
    }

    /// Shape of the pipeline's output.
    #[must_use]
    pub fn output_shape(&self) -> Shape {
        self.max_pool.output_shape()
    }
}
