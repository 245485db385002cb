//! Shuffles of channels and pixels: axes are split, and their parts joined in another order.

use crate::error::{Quantity, RankRule, SpecError, at_least_one};
use crate::layout::Layout;
use crate::shape::elements;

/// A shuffle of channels or pixels, with PyTorch's attributes.
///
/// *Numerics*: none; every value is copied unchanged, including NaN.
///
/// ```
/// # mod convfuse { pub mod spec { pub use op_spec::*; } }
/// use convfuse::spec::ShuffleSpec;
///
/// let problem = ShuffleSpec::PixelShuffle { upscale_factor: 3 }.problem(&[2, 18, 5, 7])?;
/// assert_eq!(problem.extents, [2, 2, 3, 3, 5, 7]);
/// # Ok::<(), op_spec::SpecError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "graph",
    derive(serde::Serialize, serde::Deserialize),
    serde(
        rename_all = "snake_case",
        deny_unknown_fields,
        expecting = "an object of attributes"
    )
)]
#[non_exhaustive]
pub enum ShuffleSpec {
    /// Interleaves the channels of all groups: `(n, groups * c, ..)` to `(n, c * groups, ..)`, with at least
    /// one spatial axis; see
    /// [`torch.nn.ChannelShuffle`](https://docs.pytorch.org/docs/stable/generated/torch.nn.ChannelShuffle.html).
    ChannelShuffle {
        /// The number of groups into which the channels are divided.
        groups: usize,
    },
    /// Arranges channels as blocks of `r = upscale_factor` by `r` pixels: `(n, c * r * r, h, w)` to
    /// `(n, c, h * r, w * r)`; see
    /// [`torch.nn.PixelShuffle`](https://docs.pytorch.org/docs/stable/generated/torch.nn.PixelShuffle.html).
    PixelShuffle {
        /// Rows and columns of a block.
        upscale_factor: usize,
    },
    /// Arranges blocks of `r = downscale_factor` by `r` pixels as channels: `(n, c, h * r, w * r)` to
    /// `(n, c * r * r, h, w)`; see
    /// [`torch.nn.PixelUnshuffle`](https://docs.pytorch.org/docs/stable/generated/torch.nn.PixelUnshuffle.html).
    PixelUnshuffle {
        /// Rows and columns of a block.
        downscale_factor: usize,
    },
}

impl ShuffleSpec {
    /// The names of all shuffles.
    #[cfg(feature = "graph")]
    pub(crate) const OPERATORS: &[&str] = &["channel_shuffle", "pixel_shuffle", "pixel_unshuffle"];

    /// The operator's name.
    #[must_use]
    pub const fn operator(&self) -> &'static str {
        match self {
            Self::ChannelShuffle { .. } => "channel_shuffle",
            Self::PixelShuffle { .. } => "pixel_shuffle",
            Self::PixelUnshuffle { .. } => "pixel_unshuffle",
        }
    }

    /// Checks the shape of the input. An empty batch is accepted.
    ///
    /// # Errors
    /// An attribute of 0; a rank other than 4, or, for a channel shuffle, under 3; channels that are not
    /// divisible, or, for a pixel unshuffle, rows or columns; more than [`MAX_ELEMENTS`](crate::MAX_ELEMENTS)
    /// elements.
    pub fn problem(&self, input: &[usize]) -> Result<ShuffleProblem, SpecError> {
        let operator = self.operator();
        let rank = |rule| SpecError::Rank {
            operator,
            tensor: "input",
            actual: input.len(),
            rule,
        };
        elements(operator, "input", input)?;
        let (extents, output) = match (*self, input) {
            (Self::ChannelShuffle { groups }, &[n, c, ref spatial @ ..]) if !spatial.is_empty() => {
                self.channels(c)?;
                let spatial = spatial.iter().product();
                ([n, groups, c / groups, 1, 1, spatial], [n, c, 1, spatial])
            }
            (Self::ChannelShuffle { .. }, _) => return Err(rank(RankRule::AtLeast(3))),
            (Self::PixelShuffle { upscale_factor: r }, &[n, c, h, w]) => {
                let c = self.channels(c)?;
                let [rows, columns] = [h, w].map(|extent| extent.saturating_mul(r));
                ([n, c, r, r, h, w], [n, c, rows, columns])
            }
            (Self::PixelUnshuffle { downscale_factor }, &[n, c, h, w]) => {
                let (r, channels) = (downscale_factor, self.channels(c)?);
                let attribute = "downscale_factor";
                let h = self.divided(("input's height", h), (attribute, r))?;
                let w = self.divided(("input's width", w), (attribute, r))?;
                ([n, c, r, r, h, w], [n, channels, h, w])
            }
            _ => return Err(rank(RankRule::Exactly(4))),
        };
        elements(operator, "output", &output)?;
        Ok(ShuffleProblem {
            spec: *self,
            extents,
        })
    }

    /// Returns the output's number of channels for this number of the input.
    pub(crate) fn channels(&self, channels: usize) -> Result<usize, SpecError> {
        let (attribute, factor) = match *self {
            Self::ChannelShuffle { groups } => ("groups", groups),
            Self::PixelShuffle { upscale_factor } => ("upscale_factor", upscale_factor),
            Self::PixelUnshuffle { downscale_factor } => ("downscale_factor", downscale_factor),
        };
        let operator = self.operator();
        at_least_one(operator, Quantity::scalar(attribute), factor)?;
        let channels = ("channels", channels);
        match self {
            Self::ChannelShuffle { .. } => {
                let of_group = self.divided(channels, (attribute, factor))?;
                Ok(of_group * factor)
            }
            Self::PixelShuffle { .. } => {
                let pixels = factor.saturating_mul(factor);
                self.divided(channels, ("upscale_factor squared", pixels))
            }
            Self::PixelUnshuffle { .. } => {
                elements(operator, "output", &[channels.1, factor, factor])
            }
        }
    }

    /// Divides a quantity by another one; both have names for the error.
    fn divided(
        &self,
        (quantity, actual): (&'static str, usize),
        (divisor_name, divisor): (&'static str, usize),
    ) -> Result<usize, SpecError> {
        match actual.is_multiple_of(divisor) {
            true => Ok(actual / divisor),
            false => Err(SpecError::NotMultiple {
                operator: self.operator(),
                quantity,
                actual,
                divisor_name,
                divisor,
            }),
        }
    }
}

/// A shuffle of an input of valid shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShuffleProblem {
    /// The shuffle.
    pub spec: ShuffleSpec,
    /// The extents after the split of the axes: `(n, c, r, r, h, w)` for pixels,
    /// `(n, groups, c, 1, 1, spatial)` for channels.
    pub extents: [usize; 6],
}

impl ShuffleProblem {
    /// Returns the axes of the input and of the output, outermost first, in this dense layout. Each axis is
    /// an index into [`extents`](Self::extents).
    #[must_use]
    pub fn axes(&self, layout: Layout) -> [[usize; 6]; 2] {
        // The order of the axes in NCHW, and how many of them are channels.
        let split = ([0, 1, 2, 3, 4, 5], 3);
        let pixels = ([0, 1, 4, 2, 5, 3], 1);
        let sides = match self.spec {
            ShuffleSpec::ChannelShuffle { .. } => [split, ([0, 2, 1, 3, 4, 5], 3)],
            ShuffleSpec::PixelShuffle { .. } => [split, pixels],
            ShuffleSpec::PixelUnshuffle { .. } => [pixels, split],
        };
        sides.map(|(mut axes, channels)| {
            if layout == Layout::Nhwc {
                axes[1..].rotate_left(channels);
            }
            axes
        })
    }

    /// Product of the extents.
    #[must_use]
    pub fn elements(&self) -> usize {
        match self.extents.contains(&0) {
            true => 0,
            false => self.extents.iter().product(),
        }
    }
}
