//! The one error of this crate, worded `operator: what is actual, rule limit`.

use core::fmt;

/// An attribute or extent by its public name, with the axis where it has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantity {
    /// PyTorch's name, such as `stride` or `num_groups`.
    pub name: &'static str,
    /// Index into the attribute or shape, where it is a list.
    pub axis: Option<usize>,
}

impl Quantity {
    /// A quantity that is a single number.
    #[must_use]
    pub const fn scalar(name: &'static str) -> Self {
        Self { name, axis: None }
    }

    /// Entry `axis` of a quantity that is a list.
    #[must_use]
    pub const fn entry(name: &'static str, axis: usize) -> Self {
        Self {
            name,
            axis: Some(axis),
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        match self.axis {
            Some(axis) => write!(f, "[{axis}]"),
            None => Ok(()),
        }
    }
}

/// How many dimensions a tensor must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankRule {
    /// This many.
    Exactly(usize),
    /// This many or more.
    AtLeast(usize),
}

impl fmt::Display for RankRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(rank) => write!(f, "expected {rank}"),
            Self::AtLeast(rank) => write!(f, "minimum {rank}"),
        }
    }
}

/// Why a specification does not fit its tensors. Every variant names the operator.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SpecError {
    /// A tensor has the wrong number of dimensions.
    Rank {
        /// Operator that refused.
        operator: &'static str,
        /// Which of its tensors.
        tensor: &'static str,
        /// Dimensions it has.
        actual: usize,
        /// Dimensions it should have.
        rule: RankRule,
    },
    /// A count or extent is below what the operator is defined for.
    TooSmall {
        /// Operator that refused.
        operator: &'static str,
        /// What is too small.
        quantity: Quantity,
        /// Its value.
        actual: usize,
        /// The smallest value accepted.
        minimum: usize,
    },
    /// Channels cannot be split evenly.
    NotMultiple {
        /// Operator that refused.
        operator: &'static str,
        /// What is to be split.
        quantity: &'static str,
        /// Its value.
        actual: usize,
        /// Into what it is to be split.
        divisor_name: &'static str,
        /// Into how many.
        divisor: usize,
    },
    /// Two tensors disagree about an extent.
    Mismatch {
        /// Operator that refused.
        operator: &'static str,
        /// The extent that does not fit.
        quantity: Quantity,
        /// Its value.
        actual: usize,
        /// The value that the other tensors ask for.
        expected: usize,
    },
    /// There is neither one value for all channels nor one for each.
    OneOrEach {
        /// Operator that refused.
        operator: &'static str,
        /// What has another number of values.
        quantity: Quantity,
        /// How many.
        actual: usize,
        /// The input's channels.
        channels: usize,
    },
    /// A parameter is there although the specification has none, or the other way round.
    Presence {
        /// Operator that refused.
        operator: &'static str,
        /// Which parameter.
        parameter: &'static str,
        /// Whether it is there.
        present: bool,
    },
    /// The dilated window does not fit into the padded input.
    WindowTooLarge {
        /// Operator that refused.
        operator: &'static str,
        /// Spatial axis, counted from 0.
        axis: usize,
        /// Elements that the dilated window spans.
        window: u128,
        /// Elements of the padded input.
        padded: u128,
    },
    /// Pooling padding reaches over half the window, so that a window could hold padding only.
    PaddingTooLarge {
        /// Operator that refused.
        operator: &'static str,
        /// Spatial axis, counted from 0.
        axis: usize,
        /// The padding.
        padding: usize,
        /// Half the kernel size.
        limit: usize,
    },
    /// A convolution is to have an output as large as its input, and leaves out windows.
    SameWithStride {
        /// Operator that refused.
        operator: &'static str,
        /// Spatial axis, counted from 0.
        axis: usize,
        /// The stride.
        stride: usize,
    },
    /// The padding is larger than its mode allows for this input.
    PadTooLarge {
        /// Operator that refused.
        operator: &'static str,
        /// The padding mode.
        mode: &'static str,
        /// Spatial axis, counted from 0.
        axis: usize,
        /// The larger of the axis' two paddings.
        padding: usize,
        /// The most that the mode can do for an input of this extent.
        limit: usize,
    },
    /// A norm would divide by the deviation of a single value.
    SingleValue {
        /// Operator that refused.
        operator: &'static str,
        /// What there is one of.
        quantity: &'static str,
    },
    /// `eps` is NaN or negative, or 0 where that is refused.
    Eps {
        /// Operator that refused.
        operator: &'static str,
        /// The value.
        eps: f64,
        /// Whether it takes 0.
        takes_zero: bool,
    },
    /// An average with a divisor of 0.
    ZeroDivisor {
        /// Operator that refused.
        operator: &'static str,
    },
    /// A clamp without any bound.
    NoBound {
        /// Operator that refused.
        operator: &'static str,
    },
    /// A tensor has more elements than an address can reach.
    TooManyElements {
        /// Operator that refused.
        operator: &'static str,
        /// Which of its tensors.
        tensor: &'static str,
    },
    /// An extent does not fit the integer that kernels hold it in.
    BeyondKernel {
        /// Operator that refused.
        operator: &'static str,
        /// Which extent.
        quantity: Quantity,
        /// Its value.
        actual: usize,
        /// The largest value a kernel can hold.
        limit: usize,
    },
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rank {
                operator,
                tensor,
                actual,
                rule,
            } => write!(f, "{operator}: {tensor} has {actual} dimensions, {rule}"),
            Self::TooSmall {
                operator,
                quantity,
                actual,
                minimum,
            } => write!(f, "{operator}: {quantity} is {actual}, minimum {minimum}"),
            Self::NotMultiple {
                operator,
                quantity,
                actual,
                divisor_name,
                divisor,
            } => write!(
                f,
                "{operator}: {quantity} is {actual}, \
                 which is not a multiple of {divisor_name} {divisor}"
            ),
            Self::Mismatch {
                operator,
                quantity,
                actual,
                expected,
            } => write!(f, "{operator}: {quantity} is {actual}, expected {expected}"),
            Self::OneOrEach {
                operator,
                quantity,
                actual,
                channels,
            } => write!(
                f,
                "{operator}: {quantity} is {actual}, expected 1 or the channels, {channels}"
            ),
            Self::Presence {
                operator,
                parameter,
                present: true,
            } => write!(
                f,
                "{operator}: {parameter} is given, the specification has none"
            ),
            Self::Presence {
                operator,
                parameter,
                present: false,
            } => write!(
                f,
                "{operator}: {parameter} is absent, the specification has one"
            ),
            Self::WindowTooLarge {
                operator,
                axis,
                window,
                padded,
            } => write!(
                f,
                "{operator}: dilated window spans {window} on spatial axis {axis}, \
                 padded input has {padded}"
            ),
            Self::PaddingTooLarge {
                operator,
                axis,
                padding,
                limit,
            } => write!(
                f,
                "{operator}: padding[{axis}] is {padding}, limit kernel_size[{axis}] / 2 = {limit}"
            ),
            Self::SameWithStride {
                operator,
                axis,
                stride,
            } => write!(
                f,
                "{operator}: stride[{axis}] is {stride}, expected 1 with padding same"
            ),
            Self::PadTooLarge {
                operator,
                mode,
                axis,
                padding,
                limit,
            } => write!(
                f,
                "{operator}: padding[{axis}] is {padding}, limit {limit} with padding_mode {mode}"
            ),
            Self::SingleValue { operator, quantity } => write!(
                f,
                "{operator}: {quantity} is 1, minimum 2 (one value has no deviation)"
            ),
            Self::Eps {
                operator,
                eps,
                takes_zero,
            } => {
                let rule = if *takes_zero {
                    "minimum 0"
                } else {
                    "expected more than 0"
                };
                write!(f, "{operator}: eps is {eps}, {rule}")
            }
            Self::ZeroDivisor { operator } => write!(
                f,
                "{operator}: divisor_override is 0, any other number may be given"
            ),
            Self::NoBound { operator } => write!(
                f,
                "{operator}: min and max are both absent, at least one is needed"
            ),
            Self::TooManyElements { operator, tensor } => write!(
                f,
                "{operator}: {tensor} has more elements than memory addresses, limit {}",
                crate::MAX_ELEMENTS
            ),
            Self::BeyondKernel {
                operator,
                quantity,
                actual,
                limit,
            } => write!(
                f,
                "{operator}: {quantity} is {actual}, limit {limit} on a GPU"
            ),
        }
    }
}

impl core::error::Error for SpecError {}

/// `eps` as every norm takes it that takes statistics of its input: zero and infinity are numbers to compute
/// with, NaN and negative values only turn the output into NaN. PyTorch's batch norm alone refuses zero.
pub(crate) fn check_eps(
    operator: &'static str,
    eps: f64,
    takes_zero: bool,
) -> Result<(), SpecError> {
    if eps > 0.0 || takes_zero && eps == 0.0 {
        Ok(())
    } else {
        Err(SpecError::Eps {
            operator,
            eps,
            takes_zero,
        })
    }
}

/// Refuses values under 1.
pub(crate) fn at_least_one(
    operator: &'static str,
    quantity: Quantity,
    actual: usize,
) -> Result<(), SpecError> {
    if actual == 0 {
        return Err(SpecError::TooSmall {
            operator,
            quantity,
            actual,
            minimum: 1,
        });
    }
    Ok(())
}
