//! Pools of windows of images and volumes: maxima, averages, averages of all positions.

mod adaptive;
mod average;
#[cfg(feature = "graph")]
mod file;

pub use adaptive::{AdaptiveAvgPool2dSpec, AdaptiveAvgPool3dSpec, AdaptiveAvgPoolSpec};
pub use average::{AvgPool2dSpec, AvgPool3dSpec, AvgPoolSpec};

use crate::error::{Quantity, RankRule, SpecError, at_least_one};
use crate::shape::{Shape, elements};
use crate::window::Window;

/// The function that a pool applies to a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Pooled {
    /// The largest element.
    Maximum,
    /// The sum of the elements divided by their number.
    Average {
        /// Whether elements of the padding, which are 0, count in the number.
        count_include_pad: bool,
    },
    /// The sum of the elements divided by this number.
    DividedBy(i64),
}

/// A pool whose extents and attributes fit together, in the form of a pool of volumes: images are one voxel
/// deep. Only `output` depends on `ceil_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolProblem {
    /// The operator's name.
    pub operator: &'static str,
    /// Spatial dimensions of input and output, 2 or 3.
    pub dimensions: usize,
    /// Samples.
    pub n: usize,
    /// Channels.
    pub c: usize,
    /// Input extents, `d, h, w`.
    pub input: [usize; 3],
    /// Output extents, `z, p, q`.
    pub output: [usize; 3],
    /// Window extents.
    pub kernel_size: [usize; 3],
    /// Steps between windows.
    pub stride: [usize; 3],
    /// Padding on both sides.
    pub padding: [usize; 3],
    /// Steps between the elements of a window.
    pub dilation: [usize; 3],
    /// The function of a window.
    pub pooled: Pooled,
}

/// The common attributes of all pools of `D` dimensions.
pub(crate) struct Attributes<const D: usize> {
    pub(crate) operator: &'static str,
    pub(crate) kernel_size: [usize; D],
    pub(crate) stride: [usize; D],
    pub(crate) padding: [usize; D],
    pub(crate) dilation: [usize; D],
    pub(crate) ceil_mode: bool,
    pub(crate) pooled: Pooled,
}

impl<const D: usize> Attributes<D> {
    /// The window along an axis.
    fn window(&self, axis: usize) -> Window {
        Window {
            kernel: self.kernel_size[axis],
            stride: self.stride[axis],
            padding: self.padding[axis],
            dilation: self.dilation[axis],
            ceil_mode: self.ceil_mode,
        }
    }

    /// Refuses padding of more than half the window, because a window could then hold padding alone.
    fn check_padding(&self, axis: usize) -> Result<(), SpecError> {
        let limit = self.kernel_size[axis] / 2;
        if self.padding[axis] > limit {
            return Err(SpecError::PaddingTooLarge {
                operator: self.operator,
                axis,
                padding: self.padding[axis],
                limit,
            });
        }
        Ok(())
    }

    /// Checks the attributes before any input shape is known.
    pub(crate) fn check(&self) -> Result<(), SpecError> {
        if self.pooled == Pooled::DividedBy(0) {
            return Err(SpecError::ZeroDivisor {
                operator: self.operator,
            });
        }
        (0..D).try_for_each(|axis| {
            self.window(axis).check(self.operator, axis)?;
            self.check_padding(axis)
        })
    }

    /// Checks the attributes against the input's shape.
    pub(crate) fn problem(&self, input: &[usize]) -> Result<PoolProblem, SpecError> {
        let operator = self.operator;
        let (n, c, extents) = batch_of::<D>(operator, input)?;
        self.check()?;
        let mut output = [0; D];
        for axis in 0..D {
            output[axis] = self
                .window(axis)
                .output_extent(operator, axis, extents[axis])?;
        }
        let problem = PoolProblem {
            operator,
            dimensions: D,
            n,
            c,
            input: as_volume(extents),
            output: as_volume(output),
            kernel_size: as_volume(self.kernel_size),
            stride: as_volume(self.stride),
            padding: match as_volume(self.padding) {
                [_, h, w] if D == 2 => [0, h, w],
                all => all,
            },
            dilation: as_volume(self.dilation),
            pooled: self.pooled,
        };
        elements(operator, "input", input)?;
        elements(operator, "output", &problem.output_shape())?;
        Ok(problem)
    }
}

/// Defines problems that wrap a pool of volumes.
macro_rules! problems {
    ($($(#[$doc:meta])* $Problem:ident $([const $D:ident])?;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct $Problem $(<const $D: usize>)? {
            /// The problem as a pool of volumes.
            pub pool: PoolProblem,
        }

        impl $(<const $D: usize>)? $Problem $(<$D>)? {
            /// Shape of the output.
            #[must_use]
            pub fn output_shape(&self) -> Shape {
                self.pool.output_shape()
            }
        }
    )+};
}

problems! {
    /// A max pooling of images whose extents and attributes fit together.
    MaxPool2dProblem;
    /// A max pooling of volumes whose extents and attributes fit together.
    MaxPool3dProblem;
    /// An average pooling whose extents and attributes fit together.
    AvgPoolProblem[const D];
    /// An adaptive average pooling whose extents and attributes fit together.
    AdaptiveAvgPoolProblem[const D];
}

/// Returns samples, channels and spatial extents of an input. Only the number of samples may be 0.
fn batch_of<const D: usize>(
    operator: &'static str,
    input: &[usize],
) -> Result<(usize, usize, [usize; D]), SpecError> {
    let rank = SpecError::Rank {
        operator,
        tensor: "input",
        actual: input.len(),
        rule: RankRule::Exactly(D + 2),
    };
    let &[n, c, ref extents @ ..] = input else {
        return Err(rank);
    };
    let extents: [usize; D] = extents.try_into().map_err(|_| rank)?;
    for (axis, &extent) in input.iter().enumerate().skip(1) {
        at_least_one(operator, Quantity::entry("input", axis), extent)?;
    }
    Ok((n, c, extents))
}

/// Returns three extents; missing leading ones are 1.
fn as_volume<const D: usize>(extents: [usize; D]) -> [usize; 3] {
    let mut volume = [1; 3];
    volume[3 - D..].copy_from_slice(&extents);
    volume
}

impl PoolProblem {
    /// Shape of the input.
    #[must_use]
    pub fn input_shape(&self) -> Shape {
        self.shape(self.input)
    }

    /// Shape of the output.
    #[must_use]
    pub fn output_shape(&self) -> Shape {
        self.shape(self.output)
    }

    fn shape(&self, [d, h, w]: [usize; 3]) -> Shape {
        match self.dimensions {
            2 => Shape::new(self.n, self.c, [h, w]),
            _ => Shape::new(self.n, self.c, [d, h, w]),
        }
    }

    /// Whether the results are the maxima of windows of images.
    #[must_use]
    pub fn is_max_of_images(&self) -> bool {
        self.dimensions == 2 && self.pooled == Pooled::Maximum
    }

    /// Returns the divisor of the sum of the window at `output`, with `inside` of its elements in the input.
    #[must_use]
    pub fn divisor(&self, output: [usize; 3], inside: usize) -> f64 {
        match self.pooled {
            Pooled::Maximum => 1.0,
            Pooled::DividedBy(divisor) => divisor as f64,
            Pooled::Average {
                count_include_pad: false,
            } => inside as f64,
            Pooled::Average {
                count_include_pad: true,
            } => {
                // 128 bits hold the product of any two extents.
                let along = |axis: usize| {
                    let start = output[axis] as u128 * self.stride[axis] as u128;
                    let end = self.input[axis] as u128 + 2 * self.padding[axis] as u128;
                    let window = self.kernel_size[axis] as u128;
                    (end.min(start + window) - start) as f64
                };
                along(0) * along(1) * along(2)
            }
        }
    }

    /// Returns the divisor of the sum over all positions, if the pool is a global average or sum of each
    /// channel.
    #[must_use]
    pub fn of_whole_planes(&self) -> Option<f64> {
        let is_whole = self.pooled != Pooled::Maximum
            && self.kernel_size == self.input
            && self.padding == [0; 3]
            && self.output == [1; 3];
        let inside = self.input.iter().product();
        is_whole.then(|| self.divisor([0; 3], inside))
    }

    /// Returns the window's extents without elements that lie behind the padded input for every window.
    pub fn taps(&self) -> [usize; 3] {
        let mut taps = self.kernel_size;
        for (axis, taps) in taps.iter_mut().enumerate() {
            let padded = self.input[axis].saturating_add(self.padding[axis].saturating_mul(2));
            *taps = (*taps).min(padded.div_ceil(self.dilation[axis]));
        }
        taps
    }
}
