use crate::{
    ChannelMaxProblem, ChannelMaxSpec, ClampProblem, ClampSpec, Conv3dSpec, ConvProblem,
    InstanceNormProblem, InstanceNormSpec, ScaleProblem, ScaleSpec, Shape, SpecError,
};

/// `channel_max(clamp(instance_norm(conv3d(x) * m)) * m)`, problem 79 of KernelBench's level 2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conv3dMultiplyInstanceNormClampMultiplyMaxSpec {
    /// Channels of the input.
    pub in_channels: usize,
    /// Channels from the convolution on.
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

impl Conv3dMultiplyInstanceNormClampMultiplyMaxSpec {
    /// Input shape of the KernelBench problem.
    pub const KERNELBENCH_INPUT: [usize; 5] = [128, 3, 16, 32, 32];

    /// The KernelBench problem: 3×3×3 filters, 3 to 16 channels, bounds -1 and 1.
    #[must_use]
    pub fn kernelbench() -> Self {
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

    /// Shape of the filter. Channels that `groups` does not divide are reported by
    /// [`problem`](Self::problem).
    #[must_use]
    pub fn weight_shape(&self) -> [usize; 5] {
        let [t, r, s] = self.kernel_size;
        let c_per_group = self.in_channels / self.conv.groups.max(1);
        [self.out_channels, c_per_group, t, r, s]
    }

    /// Checks all operators against the input's shape `[n, in_channels, d, h, w]`.
    ///
    /// # Errors
    /// The first error of the operators in their order.
    pub fn problem(
        &self,
        input: &[usize],
    ) -> Result<Conv3dMultiplyInstanceNormClampMultiplyMaxProblem, SpecError> {
        super::check_in_channels("conv3d", input, self.in_channels)?;
        let per_channel = [self.out_channels];
        let bias = self.bias.then_some(&per_channel[..]);
        let conv = self.conv.problem(input, &self.weight_shape(), bias)?;
        let convolved = conv.output_shape();
        let multiply = ScaleSpec.problem(&convolved, &per_channel)?;
        let affine = self.affine.then_some(&per_channel[..]);
        let instance_norm = self.instance_norm.problem(&convolved, affine, affine)?;
        let clamp = self.clamp.problem(&convolved)?;
        let channel_max = ChannelMaxSpec.problem(&convolved)?;
        Ok(Conv3dMultiplyInstanceNormClampMultiplyMaxProblem {
            conv,
            multiply,
            instance_norm,
            affine: self.affine,
            clamp,
            channel_max,
        })
    }
}

/// A pipeline whose operators fit together.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Conv3dMultiplyInstanceNormClampMultiplyMaxProblem {
    /// The convolution.
    pub conv: ConvProblem<3>,
    /// The multiplication, before the norm and again after the clamp.
    pub multiply: ScaleProblem,
    /// The norm of the multiplied tensor.
    pub instance_norm: InstanceNormProblem,
    /// Whether the norm has a weight and a bias.
    pub affine: bool,
    /// The clamp of the normalised tensor.
    pub clamp: ClampProblem,
    /// The maximum over the channels of the clamped and multiplied tensor.
    pub channel_max: ChannelMaxProblem,
}

impl Conv3dMultiplyInstanceNormClampMultiplyMaxProblem {
    /// Shape of the convolution's output, which all operators but the last keep.
    #[must_use]
    pub fn conv_shape(&self) -> Shape {
        self.conv.output_shape()
    }

    /// Shape of the pipeline's output, `[n, z, p, q]`.
    #[must_use]
    pub fn output_shape(&self) -> [usize; 4] {
        let [z, p, q] = self.conv.output;
        [self.conv.n, z, p, q]
    }
}
