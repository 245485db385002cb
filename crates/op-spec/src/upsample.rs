//! Upsampling of sequences, images and volumes: nearest neighbour and linear interpolation.

use crate::error::{Quantity, RankRule, SpecError, at_least_one};
use crate::setters::setters;
use crate::shape::{Shape, elements};

const OPERATOR: &str = "upsample";

/// A value for all spatial axes, or one for each axis of sequences, images or volumes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(
    feature = "graph",
    derive(serde::Serialize, serde::Deserialize),
    serde(
        untagged,
        expecting = "expected a number, or a list of one for each spatial axis"
    )
)]
#[non_exhaustive]
pub enum EachAxis<T> {
    /// One value for all axes.
    All(T),
    /// The value for the axis of sequences.
    One([T; 1]),
    /// The values for the axes of images.
    Two([T; 2]),
    /// The values for the axes of volumes.
    Three([T; 3]),
}

macro_rules! each_axis {
    ($($T:ty),+) => {$(
        impl From<$T> for EachAxis<$T> {
            fn from(all: $T) -> Self {
                Self::All(all)
            }
        }

        impl From<[$T; 1]> for EachAxis<$T> {
            fn from(each: [$T; 1]) -> Self {
                Self::One(each)
            }
        }

        impl From<[$T; 2]> for EachAxis<$T> {
            fn from(each: [$T; 2]) -> Self {
                Self::Two(each)
            }
        }

        impl From<[$T; 3]> for EachAxis<$T> {
            fn from(each: [$T; 3]) -> Self {
                Self::Three(each)
            }
        }
    )+};
}

each_axis!(usize, f64);

impl<T: Copy> EachAxis<T> {
    /// Returns the number of axes that have separate values, or `None` for one value for all axes.
    const fn axes(&self) -> Option<usize> {
        match self {
            Self::All(_) => None,
            Self::One(_) => Some(1),
            Self::Two(_) => Some(2),
            Self::Three(_) => Some(3),
        }
    }

    /// Returns the value of an axis.
    fn of(&self, axis: usize) -> T {
        match self {
            Self::All(all) => *all,
            Self::One(each) => each[axis],
            Self::Two(each) => each[axis],
            Self::Three(each) => each[axis],
        }
    }
}

/// The interpolation between values of the input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "graph",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[non_exhaustive]
pub enum UpsampleMode {
    /// The value at `floor(output * scale)` of each axis.
    #[default]
    Nearest,
    /// The value at `floor((output + 0.5) * scale)` of each axis.
    NearestExact,
    /// Linear interpolation of sequences.
    Linear,
    /// Linear interpolation of images.
    Bilinear,
    /// Linear interpolation of volumes.
    Trilinear,
}

impl UpsampleMode {
    /// PyTorch's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nearest => "nearest",
            Self::NearestExact => "nearest-exact",
            Self::Linear => "linear",
            Self::Bilinear => "bilinear",
            Self::Trilinear => "trilinear",
        }
    }

    /// Returns the number of spatial dimensions of a mode that interpolates.
    const fn dimensions(self) -> Option<usize> {
        match self {
            Self::Nearest | Self::NearestExact => None,
            Self::Linear => Some(1),
            Self::Bilinear => Some(2),
            Self::Trilinear => Some(3),
        }
    }
}

/// Upsampling to a size, or by a factor; see
/// [`torch.nn.Upsample`](https://docs.pytorch.org/docs/stable/generated/torch.nn.Upsample.html) and
/// `torch.nn.functional.interpolate`. PyTorch's other modes are refused. Outputs may be smaller than inputs.
///
/// *Shapes*: `(n, c, ..)` with one to three spatial axes to the same rank. Each spatial extent is that of
/// `size`, or `floor(input * scale_factor)`.
///
/// *Numerics*: positions are computed in f32 by PyTorch's formulas. Nearest modes use `output * scale` or
/// `(output + 0.5) * scale`. Linear modes use `(output + 0.5) * scale - 0.5`, at least 0, or `output * scale`
/// with `align_corners`. The scale is `1 / scale_factor` or `input / output`, with `align_corners`
/// `(input - 1) / (output - 1)`. *NaN* and infinities around a position give NaN even with a weight of 0, as
/// in PyTorch.
///
/// ```
/// # mod convfuse { pub mod spec { pub use op_spec::*; } }
/// use convfuse::spec::{UpsampleMode, UpsampleSpec};
///
/// let spec = UpsampleSpec::scale_factor(2.0).mode(UpsampleMode::Bilinear);
/// assert_eq!(*spec.problem(&[2, 8, 5, 7])?.output_shape(), [2, 8, 10, 14]);
/// # Ok::<(), op_spec::SpecError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(
    feature = "graph",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields, expecting = "an object of attributes")
)]
#[non_exhaustive]
pub struct UpsampleSpec {
    /// The extents of the output.
    #[cfg_attr(
        feature = "graph",
        serde(default, skip_serializing_if = "Option::is_none")
    )]
    pub size: Option<EachAxis<usize>>,
    /// The factors of the input's extents. Exactly one of size and factor is given.
    #[cfg_attr(
        feature = "graph",
        serde(default, skip_serializing_if = "Option::is_none")
    )]
    pub scale_factor: Option<EachAxis<f64>>,
    /// The interpolation mode.
    #[cfg_attr(feature = "graph", serde(default, skip_serializing_if = "is_nearest"))]
    pub mode: UpsampleMode,
    /// Whether the first and the last values of an axis stay at its ends; only for modes that interpolate.
    #[cfg_attr(
        feature = "graph",
        serde(default, skip_serializing_if = "crate::attributes::is_false")
    )]
    pub align_corners: bool,
}

#[cfg(feature = "graph")]
fn is_nearest(mode: &UpsampleMode) -> bool {
    *mode == UpsampleMode::Nearest
}

setters! {
    [] UpsampleSpec {
        /// Sets the mode.
        mode(mode: UpsampleMode) |spec| spec.mode = mode;
        /// Sets whether the first and the last values stay at the ends of each axis.
        align_corners(align_corners: bool) |spec| spec.align_corners = align_corners;
    }
}

impl UpsampleSpec {
    const NEAREST: Self = Self {
        size: None,
        scale_factor: None,
        mode: UpsampleMode::Nearest,
        align_corners: false,
    };

    /// Returns an upsampling to these extents (one for all axes, or one for each), in nearest mode.
    #[must_use]
    pub fn size(size: impl Into<EachAxis<usize>>) -> Self {
        Self {
            size: Some(size.into()),
            ..Self::NEAREST
        }
    }

    /// Returns an upsampling by a factor, or one for each axis, in nearest mode.
    #[must_use]
    pub fn scale_factor(scale_factor: impl Into<EachAxis<f64>>) -> Self {
        Self {
            scale_factor: Some(scale_factor.into()),
            ..Self::NEAREST
        }
    }

    /// Returns the number of spatial dimensions that the attributes require, if any.
    pub(crate) fn dimensions(&self) -> Option<usize> {
        let size = self.size.and_then(|size| size.axes());
        let factor = self.scale_factor.and_then(|factor| factor.axes());
        self.mode.dimensions().or(size).or(factor)
    }

    /// Checks the attributes before any input shape is known.
    pub(crate) fn check(&self) -> Result<(), SpecError> {
        let operator = OPERATOR;
        if self.size.is_some() == self.scale_factor.is_some() {
            return Err(SpecError::SizeOrFactor {
                operator,
                both: self.size.is_some(),
            });
        }
        if self.align_corners && self.mode.dimensions().is_none() {
            return Err(SpecError::AlignCorners {
                operator,
                mode: self.mode.name(),
            });
        }
        let size = self.size.and_then(|size| size.axes());
        let factor = self.scale_factor.and_then(|factor| factor.axes());
        for (name, axes) in [
            ("entries of size", size),
            ("entries of scale_factor", factor),
        ] {
            if let (Some(actual), Some(expected)) = (axes, self.mode.dimensions())
                && actual != expected
            {
                return Err(SpecError::Mismatch {
                    operator,
                    quantity: Quantity::scalar(name),
                    actual,
                    expected,
                });
            }
        }
        Ok(())
    }

    /// Checks the shape of the input. An empty batch is accepted.
    ///
    /// Neither or both of `size` and `scale_factor`; `align_corners` of a mode that does not interpolate; a
    /// rank that does not fit the mode or the attributes, or is not from 3 to 5; extents of 0 of input or
    /// output; a factor that is not a finite number above 0; more than [`MAX_ELEMENTS`](crate::MAX_ELEMENTS)
    /// elements.
    pub fn problem(&self, input: &[usize]) -> Result<UpsampleProblem, SpecError> {
        self.check()?;
        let operator = OPERATOR;
        let refuse = |rule| SpecError::Rank {
            operator,
            tensor: "input",
            actual: input.len(),
            rule,
        };
        let [n, c, extents @ ..] = input else {
            return Err(refuse(RankRule::AtLeast(3)));
        };
        let dimensions = extents.len();
        match self.dimensions() {
            Some(expected) if dimensions != expected => {
                return Err(refuse(RankRule::Exactly(expected + 2)));
            }
            _ if dimensions == 0 => return Err(refuse(RankRule::AtLeast(3))),
            _ if dimensions > 3 => return Err(refuse(RankRule::AtMost(5))),
            _ => {}
        }
        elements(operator, "input", input)?;
        let mut problem = UpsampleProblem {
            n: *n,
            c: *c,
            dimensions,
            input: [1; 3],
            output: [1; 3],
            axes: [UpsampleAxis::NONE; 3],
            is_linear: self.mode.dimensions().is_some(),
        };
        for (axis, &extent) in extents.iter().enumerate() {
            at_least_one(operator, Quantity::entry("input", 2 + axis), extent)?;
            let factor = self.scale_factor.map(|factor| factor.of(axis));
            if let Some(scale_factor) =
                factor.filter(|factor| !(*factor > 0.0 && factor.is_finite()))
            {
                return Err(SpecError::ScaleFactor {
                    operator,
                    axis,
                    scale_factor,
                });
            }
            let output = match (self.size, factor) {
                (Some(size), _) => size.of(axis),
                // The conversion rounds down.
                (None, factor) => (extent as f64 * factor.unwrap_or(1.0)) as usize,
            };
            at_least_one(operator, Quantity::entry("output", 2 + axis), output)?;
            let at = 3 - dimensions + axis;
            (problem.input[at], problem.output[at]) = (extent, output);
            problem.axes[at] = UpsampleAxis::new(self, factor, extent, output);
        }
        elements(operator, "output", &problem.output_shape())?;
        Ok(problem)
    }
}

/// The source positions of an axis: `(output + before) * scale - behind`, in f32.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct UpsampleAxis {
    /// Input steps per output step.
    pub scale: f32,
    /// Number added to the output's index.
    pub before: f32,
    /// Number subtracted from the position.
    pub behind: f32,
}

impl UpsampleAxis {
    /// The values of an absent axis.
    const NONE: Self = Self {
        scale: 1.0,
        before: 0.0,
        behind: 0.0,
    };

    fn new(spec: &UpsampleSpec, factor: Option<f64>, input: usize, output: usize) -> Self {
        let (before, behind) = match spec.mode {
            UpsampleMode::Nearest => (0.0, 0.0),
            UpsampleMode::NearestExact => (0.5, 0.0),
            _ if spec.align_corners => (0.0, 0.0),
            _ => (0.5, 0.5),
        };
        let scale = match factor {
            _ if spec.align_corners && output == 1 => 0.0,
            _ if spec.align_corners => (input - 1) as f32 / (output - 1) as f32,
            Some(factor) => (1.0 / factor) as f32,
            None => input as f32 / output as f32,
        };
        Self {
            scale,
            before,
            behind,
        }
    }

    /// Returns the index of the last input value not behind the position of `output`, on an axis with `input`
    /// values, and the weight of the value behind it.
    #[must_use]
    #[inline(always)]
    pub fn source(&self, output: u32, input: u32) -> (u32, f32) {
        let position = (output as f32 + self.before) * self.scale - self.behind;
        let position = if position > 0.0 { position } else { 0.0 };
        // The conversion rounds down.
        let rounded = position as u32;
        let first = if rounded < input { rounded } else { input - 1 };
        let weight = position - first as f32;
        (first, if weight < 1.0 { weight } else { 1.0 })
    }
}

/// An upsampling of an input of valid shape. Axes are depth, height, width; absent axes have an extent of 1.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct UpsampleProblem {
    /// Samples.
    pub n: usize,
    /// Channels.
    pub c: usize,
    /// Spatial axes of the input.
    pub dimensions: usize,
    /// Extents of the input.
    pub input: [usize; 3],
    /// Extents of the output.
    pub output: [usize; 3],
    /// The source positions of each axis.
    pub axes: [UpsampleAxis; 3],
    /// Whether the mode interpolates.
    pub is_linear: bool,
}

impl UpsampleProblem {
    /// Shape of the output.
    #[must_use]
    pub fn output_shape(&self) -> Shape {
        Shape::of_volume(self.n, self.c, self.output, self.dimensions)
    }
}
