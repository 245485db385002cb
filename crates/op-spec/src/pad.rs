//! Padding as a separate layer.

use crate::conv::{Pad, PaddingMode};
use crate::error::{RankRule, SpecError};
use crate::layout::Layout;
use crate::setters::setters;
use crate::shape::{Shape, elements};

const OPERATOR: &str = "pad";

/// The widths of the padding before and after each spatial axis, in PyTorch's order: the last axis comes
/// first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "graph",
    derive(serde::Serialize, serde::Deserialize),
    serde(
        untagged,
        expecting = "expected a list of two numbers for each spatial axis, the last axis first"
    )
)]
#[non_exhaustive]
pub enum PadWidths {
    /// `left, right` of sequences.
    One([usize; 2]),
    /// `left, right, top, bottom` of images.
    Two([usize; 4]),
    /// `left, right, top, bottom, front, back` of volumes.
    Three([usize; 6]),
}

macro_rules! pad_widths {
    ($($Variant:ident: $numbers:literal;)+) => {$(
        impl From<[usize; $numbers]> for PadWidths {
            fn from(widths: [usize; $numbers]) -> Self {
                Self::$Variant(widths)
            }
        }
    )+};
}

pad_widths! {
    One: 2;
    Two: 4;
    Three: 6;
}

impl PadWidths {
    const fn as_slice(&self) -> &[usize] {
        match self {
            Self::One(widths) => widths,
            Self::Two(widths) => widths,
            Self::Three(widths) => widths,
        }
    }

    /// Number of spatial axes.
    #[must_use]
    pub const fn dimensions(&self) -> usize {
        self.as_slice().len() / 2
    }

    /// Returns the widths before and after depth, rows and columns; absent axes have 0.
    fn of_volume(&self) -> [[usize; 3]; 2] {
        let mut widths = [[0; 3]; 2];
        for (number, &width) in self.as_slice().iter().enumerate() {
            widths[number % 2][2 - number / 2] = width;
        }
        widths
    }
}

/// Puts zeros, or elements of the input, around its spatial axes; see
/// [`torch.nn.functional.pad`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.pad.html),
/// and `torch.nn.ZeroPad2d`, `ReflectionPad2d`, `ReplicationPad2d`, `CircularPad2d` and their variants for
/// other dimensions. Negative widths and constants other than 0 are refused.
///
/// *Shapes*: `(n, c, ..)` with one to three spatial axes to the same rank; each axis grows by its two widths.
///
/// *Numerics*: none; every value is copied unchanged, including NaN.
///
/// ```
/// # mod convfuse { pub mod spec { pub use op_spec::*; } }
/// use convfuse::spec::{PadSpec, PaddingMode};
///
/// let spec = PadSpec::new([0, 1, 2, 3]).padding_mode(PaddingMode::Reflect);
/// assert_eq!(*spec.problem(&[2, 8, 5, 7])?.output_shape(), [2, 8, 10, 8]);
/// # Ok::<(), op_spec::SpecError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "graph",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields, expecting = "an object of attributes")
)]
#[non_exhaustive]
pub struct PadSpec {
    /// Elements before and after each axis.
    pub padding: PadWidths,
    /// The values of the padding.
    #[cfg_attr(feature = "graph", serde(default))]
    pub padding_mode: PaddingMode,
}

setters! {
    [] PadSpec {
        /// Sets the padding mode.
        padding_mode(mode: PaddingMode) |spec| spec.padding_mode = mode;
    }
}

impl PadSpec {
    /// Returns zero padding of these widths: two for each spatial axis, the last axis first.
    #[must_use]
    pub fn new(padding: impl Into<PadWidths>) -> Self {
        Self {
            padding: padding.into(),
            padding_mode: PaddingMode::Zeros,
        }
    }

    /// Checks the shape of the input. An empty batch is accepted.
    ///
    /// # Errors
    /// A rank that does not fit the widths; padding beyond the limit of its mode (reflect: less than the
    /// extent, circular: no more), or an axis without elements to take it from; more than
    /// [`MAX_ELEMENTS`](crate::MAX_ELEMENTS) elements.
    pub fn problem(&self, input: &[usize]) -> Result<PadProblem, SpecError> {
        let dimensions = self.padding.dimensions();
        let (&[n, c, ref spatial @ ..], true) = (input, input.len() == dimensions + 2) else {
            return Err(SpecError::Rank {
                operator: OPERATOR,
                tensor: "input",
                actual: input.len(),
                rule: RankRule::Exactly(dimensions + 2),
            });
        };
        elements(OPERATOR, "input", input)?;
        let mut inner = [1; 3];
        inner[3 - dimensions..].copy_from_slice(spatial);
        let [before, after] = self.padding.of_volume();
        let pad = Pad {
            inner,
            before,
            after,
            mode: self.padding_mode,
        };
        let absent = 3 - dimensions;
        // The list of widths begins with the last axis; the error's index counts in this order.
        let stated = |mut error| {
            if let SpecError::PadTooLarge { axis, .. } = &mut error {
                let side = usize::from(after[absent + *axis] > before[absent + *axis]);
                *axis = 2 * (dimensions - 1 - *axis) + side;
            }
            error
        };
        pad.check(OPERATOR, absent).map_err(stated)?;
        let [d, h, w] = pad.outer();
        elements(OPERATOR, "output", &[n, c, d, h, w])?;
        Ok(PadProblem {
            n,
            c,
            dimensions,
            pad,
        })
    }
}

/// Padding that fits its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PadProblem {
    /// Samples.
    pub n: usize,
    /// Channels.
    pub c: usize,
    /// Spatial axes of the input.
    pub dimensions: usize,
    /// The padding of depth, rows and columns; absent axes have 1 element and no padding.
    pub pad: Pad<3>,
}

impl PadProblem {
    /// Shape of the output.
    #[must_use]
    pub fn output_shape(&self) -> Shape {
        Shape::of_volume(self.n, self.c, self.pad.outer(), self.dimensions)
    }

    /// Returns the planes that are padded independently in this layout, and their number. In NHWC there are
    /// two cases: the channels are the last axis of a plane, without padding, or the last spatial axis and
    /// the channels are merged. Returns `None` if neither describes the padding.
    #[must_use]
    pub fn planes(&self, layout: Layout) -> Option<(Pad<3>, usize)> {
        let Pad {
            inner,
            before,
            after,
            mode,
        } = self.pad;
        let last = |[depth, rows, columns]: [usize; 3], channels, each: usize| match self.dimensions
        {
            3 => [depth, rows, columns * each],
            _ => [rows, columns, channels],
        };
        match layout {
            Layout::Nchw => Some((self.pad, self.n * self.c)),
            Layout::Nhwc if self.dimensions == 3 && mode != PaddingMode::Zeros => None,
            Layout::Nhwc => {
                let pad = Pad {
                    inner: last(inner, self.c, self.c),
                    before: last(before, 0, self.c),
                    after: last(after, 0, self.c),
                    mode,
                };
                Some((pad, self.n))
            }
        }
    }
}
