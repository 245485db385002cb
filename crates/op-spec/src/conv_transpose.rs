//! Transposed convolution in one to three dimensions, as PyTorch defines it.

use crate::conv::{check_channels, lifted, split};
use crate::error::{Quantity, SpecError, at_least_one};
use crate::setters::{PerAxis, setters};
use crate::shape::{Shape, elements, same_shape};

/// Attributes of a transposed convolution over `D` spatial axes; see
/// [`torch.nn.functional.conv_transpose2d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.conv_transpose2d.html).
///
/// Extents come from the tensors: the filter's shape is `[c, k / groups, (t,) (r,) s]`.
///
/// ```
/// # mod convfuse { pub mod spec { pub use op_spec::*; } }
/// use convfuse::spec::ConvTranspose2dSpec;
///
/// let spec = ConvTranspose2dSpec::default().stride(2).padding(1).output_padding(1);
/// let problem = spec.problem(&[2, 8, 15, 16], &[8, 64, 3, 3], None)?;
/// assert_eq!(*problem.output_shape(), [2, 64, 30, 32]);
/// # Ok::<(), op_spec::SpecError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ConvTransposeSpec<const D: usize> {
    /// The step in the output from one input element's products to the next one's, on each axis.
    pub stride: [usize; D],
    /// Elements cut off at both ends of each axis of the output.
    pub padding: [usize; D],
    /// Elements added at the end of each axis of the output.
    pub output_padding: [usize; D],
    /// Step between the elements of a filter on each axis.
    pub dilation: [usize; D],
    /// Number of independent convolutions among which the channels are divided.
    pub groups: usize,
}

/// Attributes of a transposed convolution of sequences.
pub type ConvTranspose1dSpec = ConvTransposeSpec<1>;
/// Attributes of a transposed convolution of images.
pub type ConvTranspose2dSpec = ConvTransposeSpec<2>;
/// Attributes of a transposed convolution of volumes.
pub type ConvTranspose3dSpec = ConvTransposeSpec<3>;

impl<const D: usize> Default for ConvTransposeSpec<D> {
    /// PyTorch's defaults: stride 1, no padding, dilation 1, one group.
    fn default() -> Self {
        Self {
            stride: [1; D],
            padding: [0; D],
            output_padding: [0; D],
            dilation: [1; D],
            groups: 1,
        }
    }
}

setters! {
    [const D: usize] ConvTransposeSpec<D> {
        /// Sets the stride: the step in the output from one input element's products to the next one's.
        stride(stride: impl Into<PerAxis<D>>) |spec| spec.stride = stride.into().0;
        /// Sets the number of elements cut off at both ends of all axes or of each axis.
        padding(padding: impl Into<PerAxis<D>>) |spec| spec.padding = padding.into().0;
        /// Sets the number of elements added at the end of all axes or of each axis.
        output_padding(more: impl Into<PerAxis<D>>) |spec| spec.output_padding = more.into().0;
        /// Sets the step between the elements of a filter.
        dilation(dilation: impl Into<PerAxis<D>>) |spec| spec.dilation = dilation.into().0;
        /// Sets the number of groups.
        groups(groups: usize) |spec| spec.groups = groups;
    }
}

impl<const D: usize> ConvTransposeSpec<D> {
    /// The operator's name in errors.
    pub const OPERATOR: &'static str = match D {
        1 => "conv_transpose1d",
        2 => "conv_transpose2d",
        3 => "conv_transpose3d",
        _ => "conv_transpose",
    };

    /// Checks attributes, channels and filter extents before any input shape is known.
    ///
    /// # Errors
    /// Stride, dilation, groups, channels or a filter extent of 0; channels that groups do not divide;
    /// an output padding that neither stride nor dilation exceeds.
    pub fn check(
        &self,
        in_channels: usize,
        out_channels: usize,
        kernel_size: [usize; D],
    ) -> Result<(), SpecError> {
        let operator = Self::OPERATOR;
        check_channels(operator, self.groups, [in_channels, out_channels])?;
        for (axis, extent) in kernel_size.into_iter().enumerate() {
            let (stride, dilation) = (self.stride[axis], self.dilation[axis]);
            for (name, actual) in [
                ("kernel_size", extent),
                ("stride", stride),
                ("dilation", dilation),
            ] {
                at_least_one(operator, Quantity::entry(name, axis), actual)?;
            }
            let (output_padding, limit) = (self.output_padding[axis], stride.max(dilation) - 1);
            if output_padding > limit {
                return Err(SpecError::OutputPadding {
                    operator,
                    axis,
                    output_padding,
                    limit,
                });
            }
        }
        Ok(())
    }

    /// Checks the attributes against the shapes of input, filter and bias.
    ///
    /// An empty batch is accepted and gives an empty output. An input without channels is refused.
    ///
    /// # Errors
    /// The errors of [`check`](Self::check); wrong ranks; tensors that disagree; an empty image; padding that
    /// leaves no output; outputs beyond [`MAX_ELEMENTS`](crate::MAX_ELEMENTS).
    pub fn problem(
        &self,
        input: &[usize],
        weight: &[usize],
        bias: Option<&[usize]>,
    ) -> Result<ConvTransposeProblem<D>, SpecError> {
        let operator = Self::OPERATOR;
        let ([n, c], input_extents) = split(operator, "input", input)?;
        let ([c_of_weight, k_per_group], kernel_size) = split(operator, "weight", weight)?;
        let k = k_per_group.saturating_mul(self.groups);
        let mut problem = ConvTransposeProblem {
            n,
            c,
            k,
            input: input_extents,
            kernel_size,
            output: [0; D],
            stride: self.stride,
            padding: self.padding,
            dilation: self.dilation,
            groups: self.groups,
            bias: bias.is_some(),
        };
        self.check(c, k, kernel_size)?;
        if c_of_weight != c {
            return Err(SpecError::Mismatch {
                operator,
                quantity: Quantity::entry("weight", 0),
                actual: c_of_weight,
                expected: c,
            });
        }
        if let Some(bias) = bias {
            same_shape(operator, "bias", bias, &[k])?;
        }
        for axis in 0..D {
            if n > 0 {
                let quantity = Quantity::entry("input", axis + 2);
                at_least_one(operator, quantity, problem.input[axis])?;
            }
            problem.output[axis] = self.output_extent(axis, &problem)?;
        }
        elements(operator, "input", input)?;
        elements(operator, "weight", weight)?;
        elements(operator, "output", &problem.output_shape())?;
        Ok(problem)
    }

    /// Computes `(input - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1`.
    fn output_extent(
        &self,
        axis: usize,
        problem: &ConvTransposeProblem<D>,
    ) -> Result<usize, SpecError> {
        let operator = Self::OPERATOR;
        // 128 bits hold the product of any two extents. An axis of an empty batch may have no elements.
        let steps = problem.input[axis].saturating_sub(1) as u128 * self.stride[axis] as u128;
        let window = (problem.kernel_size[axis] - 1) as u128 * self.dilation[axis] as u128;
        let full = (steps + 1)
            .saturating_add(window)
            .saturating_add(self.output_padding[axis] as u128);
        let padding = self.padding[axis];
        match full.checked_sub(2 * padding as u128) {
            None | Some(0) => Err(SpecError::NoOutput {
                operator,
                axis,
                padding,
                full,
            }),
            Some(extent) => usize::try_from(extent).map_err(|_| SpecError::TooManyElements {
                operator,
                tensor: "output",
            }),
        }
    }
}

/// A transposed convolution whose extents and attributes fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConvTransposeProblem<const D: usize> {
    /// Samples.
    pub n: usize,
    /// Input channels.
    pub c: usize,
    /// Output channels.
    pub k: usize,
    /// Input extents, `(d,) (h,) w`.
    pub input: [usize; D],
    /// Filter extents, `(t,) (r,) s`.
    pub kernel_size: [usize; D],
    /// Output extents, `(z,) (p,) q`.
    pub output: [usize; D],
    /// The step in the output from one input element's products to the next one's.
    pub stride: [usize; D],
    /// Elements cut off at both ends of each axis of the output.
    pub padding: [usize; D],
    /// Step between the elements of a filter.
    pub dilation: [usize; D],
    /// Number of independent convolutions (groups).
    pub groups: usize,
    /// Whether a bias is added.
    pub bias: bool,
}

impl<const D: usize> ConvTransposeProblem<D> {
    /// Returns the same transposed convolution of volumes: images are one voxel deep, and sequences are one
    /// voxel high as well.
    #[must_use]
    pub fn as_conv_transpose3d(&self) -> ConvTransposeProblem<3> {
        ConvTransposeProblem {
            n: self.n,
            c: self.c,
            k: self.k,
            input: lifted(1, self.input),
            kernel_size: lifted(1, self.kernel_size),
            output: lifted(1, self.output),
            stride: lifted(1, self.stride),
            padding: lifted(0, self.padding),
            dilation: lifted(1, self.dilation),
            groups: self.groups,
            bias: self.bias,
        }
    }

    /// Shape of the input.
    #[must_use]
    pub fn input_shape(&self) -> Shape {
        Shape::new(self.n, self.c, self.input)
    }

    /// Shape of the filter.
    #[must_use]
    pub fn weight_shape(&self) -> Shape {
        Shape::new(self.c, self.k_per_group(), self.kernel_size)
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

    /// Filter elements per pair of an input and an output channel.
    #[must_use]
    pub fn taps(&self) -> usize {
        self.kernel_size.iter().product()
    }

    /// Multiply-adds of the whole transposed convolution, including those for elements that the padding
    /// removes.
    #[must_use]
    pub fn multiply_adds(&self) -> u128 {
        self.input_shape().elements() as u128 * (self.k_per_group() * self.taps()) as u128
    }
}
