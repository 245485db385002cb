//! Maximum over sliding windows of images.

use crate::error::{Quantity, RankRule, SpecError, at_least_one};
use crate::shape::{Shape, elements};
use crate::window::Window;

const OPERATOR: &str = "max_pool2d";

/// Attributes of max pooling; see
/// [`torch.nn.functional.max_pool2d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.max_pool2d.html).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "graph",
    derive(serde::Serialize, serde::Deserialize),
    serde(
        try_from = "crate::pool::layer::MaximumFile",
        into = "crate::pool::layer::MaximumFile"
    )
)]
pub struct MaxPool2dSpec {
    /// Window extents.
    pub kernel_size: [usize; 2],
    /// Step between windows; the window extents if absent.
    pub stride: Option<[usize; 2]>,
    /// Padding on both sides, which never is the maximum.
    pub padding: [usize; 2],
    /// Step between the elements of a window.
    pub dilation: [usize; 2],
    /// Whether a last window that reaches beyond the padding counts, provided that it starts inside the input
    /// or the padding in front of it.
    pub ceil_mode: bool,
}

impl MaxPool2dSpec {
    /// PyTorch's defaults: windows side by side, no padding, no gaps.
    #[must_use]
    pub const fn new(kernel_size: [usize; 2]) -> Self {
        Self {
            kernel_size,
            stride: None,
            padding: [0, 0],
            dilation: [1, 1],
            ceil_mode: false,
        }
    }

    /// The window along an axis.
    fn window(&self, axis: usize) -> Window {
        Window {
            kernel: self.kernel_size[axis],
            stride: self.stride.unwrap_or(self.kernel_size)[axis],
            padding: self.padding[axis],
            dilation: self.dilation[axis],
            ceil_mode: self.ceil_mode,
        }
    }

    /// Refuses padding that a window could hold nothing but.
    fn check_padding(&self, axis: usize) -> Result<(), SpecError> {
        let limit = self.kernel_size[axis] / 2;
        if self.padding[axis] > limit {
            return Err(SpecError::PaddingTooLarge {
                operator: OPERATOR,
                axis,
                padding: self.padding[axis],
                limit,
            });
        }
        Ok(())
    }

    /// Checks what no input can make up for.
    ///
    /// # Errors
    /// Kernel, stride or dilation of 0; padding over half the kernel.
    pub fn check(&self) -> Result<(), SpecError> {
        (0..2).try_for_each(|axis| {
            self.window(axis).check(OPERATOR, axis)?;
            self.check_padding(axis)
        })
    }

    /// Checks the attributes against the input's shape `[n, c, h, w]`.
    ///
    /// An empty batch is accepted and gives an empty output.
    ///
    /// # Errors
    /// Rank other than 4; channels or image extents of 0; kernel, stride or dilation of 0; padding
    /// over half the kernel; a dilated window larger than the padded input (which `ceil_mode`
    /// relaxes by `stride - 1`).
    pub fn problem(&self, input: &[usize]) -> Result<MaxPool2dProblem, SpecError> {
        let &[n, c, h, w] = input else {
            return Err(SpecError::Rank {
                operator: OPERATOR,
                tensor: "input",
                actual: input.len(),
                rule: RankRule::Exactly(4),
            });
        };
        for (axis, extent) in [(1, c), (2, h), (3, w)] {
            at_least_one(OPERATOR, Quantity::entry("input", axis), extent)?;
        }
        let mut problem = MaxPool2dProblem {
            n,
            c,
            input: [h, w],
            output: [0, 0],
            kernel_size: self.kernel_size,
            stride: self.stride.unwrap_or(self.kernel_size),
            padding: self.padding,
            dilation: self.dilation,
        };
        for axis in 0..2 {
            problem.output[axis] =
                self.window(axis)
                    .output_extent(OPERATOR, axis, problem.input[axis])?;
            self.check_padding(axis)?;
        }
        elements(OPERATOR, "input", input)?;
        elements(OPERATOR, "output", &problem.output_shape())?;
        Ok(problem)
    }
}

/// A max pooling whose extents and attributes fit together. `ceil_mode` has done its work on
/// `output`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MaxPool2dProblem {
    /// Samples.
    pub n: usize,
    /// Channels.
    pub c: usize,
    /// Input extents, `h, w`.
    pub input: [usize; 2],
    /// Output extents, `p, q`.
    pub output: [usize; 2],
    /// Window extents.
    pub kernel_size: [usize; 2],
    /// Step between windows.
    pub stride: [usize; 2],
    /// Padding on both sides.
    pub padding: [usize; 2],
    /// Step between the elements of a window.
    pub dilation: [usize; 2],
}

impl MaxPool2dProblem {
    /// Shape of the input.
    #[must_use]
    pub fn input_shape(&self) -> Shape {
        Shape::new(self.n, self.c, self.input)
    }

    /// Shape of the output.
    #[must_use]
    pub fn output_shape(&self) -> Shape {
        Shape::new(self.n, self.c, self.output)
    }
}
