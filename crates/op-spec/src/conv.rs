//! Convolution in one to three dimensions (cross-correlation, as PyTorch defines it).

mod padding;

pub use padding::{Pad, Padding, PaddingMode};

use crate::error::{Quantity, RankRule, SpecError, at_least_one};
use crate::setters::{PerAxis, setters};
use crate::shape::{Shape, elements, same_shape};
use crate::window::Window;

/// Attributes of a convolution over `D` spatial axes; see
/// [`torch.nn.functional.conv2d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.conv2d.html).
///
/// Extents come from the tensors: the filter's shape is `[k, c / groups, (t,) (r,) s]`.
///
/// ```
/// # mod convfuse { pub mod spec { pub use op_spec::*; } }
/// use convfuse::spec::{Conv2dSpec, Padding};
///
/// let spec = Conv2dSpec::default().stride([2, 1]).padding(1);
/// assert_eq!(spec.padding, Padding::Each([1, 1]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ConvSpec<const D: usize> {
    /// Step between windows on each axis.
    pub stride: [usize; D],
    /// Extent of the padding on each axis.
    pub padding: Padding<D>,
    /// Values of the padding.
    pub padding_mode: PaddingMode,
    /// Step between the elements of a window on each axis.
    pub dilation: [usize; D],
    /// Number of independent convolutions among which the channels are divided.
    pub groups: usize,
}

/// Attributes of a convolution of sequences.
pub type Conv1dSpec = ConvSpec<1>;
/// Attributes of a convolution of images.
pub type Conv2dSpec = ConvSpec<2>;
/// Attributes of a convolution of volumes.
pub type Conv3dSpec = ConvSpec<3>;

impl<const D: usize> Default for ConvSpec<D> {
    /// PyTorch's defaults: stride 1, no padding, dilation 1, one group.
    fn default() -> Self {
        Self {
            stride: [1; D],
            padding: Padding::default(),
            padding_mode: PaddingMode::Zeros,
            dilation: [1; D],
            groups: 1,
        }
    }
}

setters! {
    [const D: usize] ConvSpec<D> {
        /// Sets the step between windows.
        stride(stride: impl Into<PerAxis<D>>) |spec| spec.stride = stride.into().0;
        /// Sets the padding: elements on both sides of all axes or of each axis, or a [`Padding`].
        padding(padding: impl Into<Padding<D>>) |spec| spec.padding = padding.into();
        /// Sets the padding mode.
        padding_mode(mode: PaddingMode) |spec| spec.padding_mode = mode;
        /// Sets the step between the elements of a window.
        dilation(dilation: impl Into<PerAxis<D>>) |spec| spec.dilation = dilation.into().0;
        /// Sets the number of groups.
        groups(groups: usize) |spec| spec.groups = groups;
    }
}

impl<const D: usize> ConvSpec<D> {
    /// The operator's name in errors.
    pub const OPERATOR: &'static str = match D {
        0 => "linear",
        1 => "conv1d",
        2 => "conv2d",
        3 => "conv3d",
        _ => "conv",
    };

    /// The window along an axis with this padding.
    fn window(&self, kernel_size: [usize; D], padding: [usize; D], axis: usize) -> Window {
        Window {
            kernel: kernel_size[axis],
            stride: self.stride[axis],
            padding: padding[axis],
            dilation: self.dilation[axis],
            ceil_mode: false,
        }
    }

    /// Checks the attributes against the numbers of channels.
    fn check_channels(&self, in_channels: usize, out_channels: usize) -> Result<(), SpecError> {
        check_channels(Self::OPERATOR, self.groups, [in_channels, out_channels])
    }

    /// Checks attributes, channels and filter extents before any input shape is known.
    ///
    /// # Errors
    /// Stride, dilation, groups, channels or a filter extent of 0; channels that groups do not divide;
    /// padding `same` with a stride.
    pub fn check(
        &self,
        in_channels: usize,
        out_channels: usize,
        kernel_size: [usize; D],
    ) -> Result<(), SpecError> {
        self.check_channels(in_channels, out_channels)?;
        self.check_same()?;
        (0..D).try_for_each(|axis| {
            let window = self.window(kernel_size, [0; D], axis);
            window.check(Self::OPERATOR, axis)
        })
    }

    /// Checks the attributes against the shapes of input, filter and bias.
    ///
    /// An empty batch is accepted and gives an empty output. An input without channels is refused; PyTorch
    /// returns an output without channels for it, whatever `out_channels` is.
    ///
    /// # Errors
    /// Wrong ranks; stride, dilation, groups or a filter extent of 0; channels that groups do not divide;
    /// tensors that disagree; a dilated filter larger than the padded input; an empty image; padding `same`
    /// with a stride; padding beyond the limit of its mode (reflect: less than the extent, circular: no
    /// more);
    /// outputs beyond [`MAX_ELEMENTS`](crate::MAX_ELEMENTS).
    pub fn problem(
        &self,
        input: &[usize],
        weight: &[usize],
        bias: Option<&[usize]>,
    ) -> Result<ConvProblem<D>, SpecError> {
        let operator = Self::OPERATOR;
        let ([n, c], input_extents) = split(operator, "input", input)?;
        let ([k, c_per_group], kernel_size) = split(operator, "weight", weight)?;
        self.check_channels(c, k)?;
        if c_per_group != c / self.groups {
            return Err(SpecError::Mismatch {
                operator,
                quantity: Quantity::entry("weight", 1),
                actual: c_per_group,
                expected: c / self.groups,
            });
        }
        if let Some(bias) = bias {
            same_shape(operator, "bias", bias, &[k])?;
        }
        let mut problem = ConvProblem {
            n,
            c,
            k,
            input: input_extents,
            kernel_size,
            output: [0; D],
            stride: self.stride,
            padding: [0; D],
            pad: None,
            dilation: self.dilation,
            groups: self.groups,
            bias: bias.is_some(),
        };
        for (axis, extent) in input_extents.into_iter().enumerate().filter(|_| n > 0) {
            at_least_one(operator, Quantity::entry("input", axis + 2), extent)?;
        }
        let (padding, pad) = self.pad(problem.input, problem.kernel_size)?;
        (problem.padding, problem.pad) = (padding, pad);
        if let Some(pad) = pad {
            problem.input = pad.outer();
            let padded = Shape::new(n, c, problem.input);
            elements(operator, "padded input", &padded)?;
        }
        for axis in 0..D {
            let window = self.window(problem.kernel_size, padding, axis);
            problem.output[axis] = window.output_extent(operator, axis, problem.input[axis])?;
        }
        elements(operator, "input", input)?;
        elements(operator, "weight", weight)?;
        elements(operator, "output", &problem.output_shape())?;
        Ok(problem)
    }
}

/// Checks the groups of a convolution against the numbers of channels of input and output.
pub(crate) fn check_channels(
    operator: &'static str,
    groups: usize,
    [in_channels, out_channels]: [usize; 2],
) -> Result<(), SpecError> {
    at_least_one(operator, Quantity::scalar("groups"), groups)?;
    let channels = [("in_channels", in_channels), ("out_channels", out_channels)];
    for (quantity, actual) in channels {
        at_least_one(operator, Quantity::scalar(quantity), actual)?;
    }
    for (quantity, actual) in channels {
        if !actual.is_multiple_of(groups) {
            return Err(SpecError::NotMultiple {
                operator,
                quantity,
                actual,
                divisor_name: "groups",
                divisor: groups,
            });
        }
    }
    Ok(())
}

/// Returns the three extents of a volume; leading axes that `values` lacks are `absent`. The last axis is the
/// columns for any number of dimensions.
pub(crate) fn lifted<const D: usize>(absent: usize, values: [usize; D]) -> [usize; 3] {
    let mut volume = [absent; 3];
    volume[3 - D..].copy_from_slice(&values);
    volume
}

impl<const D: usize> ConvProblem<D> {
    /// Returns the same convolution of volumes: images are one voxel deep, and sequences are one voxel high
    /// as well.
    #[must_use]
    pub fn as_conv3d(&self) -> ConvProblem<3> {
        ConvProblem {
            n: self.n,
            c: self.c,
            k: self.k,
            input: lifted(1, self.input),
            kernel_size: lifted(1, self.kernel_size),
            output: lifted(1, self.output),
            stride: lifted(1, self.stride),
            padding: lifted(0, self.padding),
            pad: self.pad.map(|pad| Pad {
                inner: lifted(1, pad.inner),
                before: lifted(0, pad.before),
                after: lifted(0, pad.after),
                mode: pad.mode,
            }),
            dilation: lifted(1, self.dilation),
            groups: self.groups,
            bias: self.bias,
        }
    }
}

/// Splits a shape into its two leading extents and the spatial ones.
pub(crate) fn split<const D: usize>(
    operator: &'static str,
    tensor: &'static str,
    shape: &[usize],
) -> Result<([usize; 2], [usize; D]), SpecError> {
    if shape.len() != D + 2 {
        return Err(SpecError::Rank {
            operator,
            tensor,
            actual: shape.len(),
            rule: RankRule::Exactly(D + 2),
        });
    }
    let spatial = core::array::from_fn(|axis| shape[axis + 2]);
    Ok(([shape[0], shape[1]], spatial))
}

/// A convolution whose extents and attributes fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConvProblem<const D: usize> {
    /// Samples.
    pub n: usize,
    /// Input channels.
    pub c: usize,
    /// Output channels.
    pub k: usize,
    /// Input extents, `(d,) (h,) w`, of the padded input if there is a separate padding step.
    pub input: [usize; D],
    /// Filter extents, `(t,) (r,) s`.
    pub kernel_size: [usize; D],
    /// Output extents, `(z,) (p,) q`.
    pub output: [usize; D],
    /// Step between windows.
    pub stride: [usize; D],
    /// Zeros on both sides of each axis.
    pub padding: [usize; D],
    /// The separate padding step, if the padding is not zeros of equal width on both sides.
    pub pad: Option<Pad<D>>,
    /// Step between the elements of a window.
    pub dilation: [usize; D],
    /// Number of independent convolutions (groups).
    pub groups: usize,
    /// Whether a bias is added.
    pub bias: bool,
}

impl<const D: usize> ConvProblem<D> {
    /// Shape of the input.
    #[must_use]
    pub fn input_shape(&self) -> Shape {
        let extents = self.pad.map_or(self.input, |pad| pad.inner);
        Shape::new(self.n, self.c, extents)
    }

    /// Shape of the filter.
    #[must_use]
    pub fn weight_shape(&self) -> Shape {
        Shape::new(self.k, self.c_per_group(), self.kernel_size)
    }

    /// Shape of the output.
    #[must_use]
    pub fn output_shape(&self) -> Shape {
        Shape::new(self.n, self.k, self.output)
    }

    /// Input channels that one output element depends on.
    #[must_use]
    pub const fn c_per_group(&self) -> usize {
        self.c / self.groups
    }

    /// Output channels of one group.
    #[must_use]
    pub const fn k_per_group(&self) -> usize {
        self.k / self.groups
    }

    /// Filter elements per channel.
    #[must_use]
    pub fn taps(&self) -> usize {
        self.kernel_size.iter().product()
    }

    /// Products that one output element sums.
    #[must_use]
    pub fn reduction(&self) -> usize {
        self.c_per_group() * self.taps()
    }

    /// Output positions per sample and channel.
    #[must_use]
    pub fn output_spatial(&self) -> usize {
        self.output.iter().product()
    }

    /// Multiplications of the whole convolution, padding included.
    #[must_use]
    pub fn multiply_adds(&self) -> u128 {
        self.output_shape().elements() as u128 * self.reduction() as u128
    }
}
