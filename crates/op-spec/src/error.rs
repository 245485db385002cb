//! The one error of this crate, worded `operator: what is actual, rule limit`.

use core::fmt;

/// An attribute or extent by its public name, with the axis where it has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
#[non_exhaustive]
pub enum RankRule {
    /// This many.
    Exactly(usize),
    /// This many or more.
    AtLeast(usize),
    /// This many or fewer.
    AtMost(usize),
}

impl fmt::Display for RankRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(rank) => write!(f, "expected {rank}"),
            Self::AtLeast(rank) => write!(f, "minimum {rank}"),
            Self::AtMost(rank) => write!(f, "limit {rank}"),
        }
    }
}

/// Refuses another axis than that of the channels.
#[cfg(feature = "graph")]
pub(crate) fn channels_alone(operator: &'static str, dim: usize) -> Result<(), SpecError> {
    match dim {
        1 => Ok(()),
        _ => Err(SpecError::NotChannels { operator, dim }),
    }
}

/// The error: its variants, each with its fields beside the operator, and with its message after it.
macro_rules! spec_error {
    ($(
        $(#[$doc:meta])*
        $Variant:ident { $($(#[$field_doc:meta])* $field:ident: $ty:ty,)* }: $message:literal $(, $value:expr)?;
    )+) => {
        /// Why a specification does not fit its tensors. Every variant names the operator.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum SpecError {$(
            $(#[$doc])*
            $Variant {
                /// Operator that refused.
                operator: &'static str,
                $($(#[$field_doc])* $field: $ty,)*
            },
        )+}

        impl fmt::Display for SpecError {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {$(
                    Self::$Variant { operator, $($field),* } => {
                        write!(f, "{operator}: ")?;
                        write!(f, $message $(, $value)?)
                    }
                )+}
            }
        }
    };
}

spec_error! {
    /// A tensor has the wrong number of dimensions.
    Rank {
        /// Which of its tensors.
        tensor: &'static str,
        /// Dimensions it has.
        actual: usize,
        /// Dimensions it should have.
        rule: RankRule,
    }: "{tensor} has rank {actual}, {rule}";
    /// A count or extent is below what the operator is defined for.
    TooSmall {
        /// What is too small.
        quantity: Quantity,
        /// Its value.
        actual: usize,
        /// The smallest value accepted.
        minimum: usize,
    }: "{quantity} is {actual}, minimum {minimum}";
    /// Channels cannot be split evenly.
    NotMultiple {
        /// What is to be split.
        quantity: &'static str,
        /// Its value.
        actual: usize,
        /// Into what it is to be split.
        divisor_name: &'static str,
        /// Into how many.
        divisor: usize,
    }: "{quantity} is {actual}, which is not a multiple of {divisor_name} {divisor}";
    /// Two tensors disagree about an extent.
    Mismatch {
        /// The extent that does not fit.
        quantity: Quantity,
        /// Its value.
        actual: usize,
        /// The value that the other tensors ask for.
        expected: usize,
    }: "{quantity} is {actual}, expected {expected}";
    /// There is neither one value for all channels nor one for each.
    OneOrEach {
        /// What has another number of values.
        quantity: Quantity,
        /// How many.
        actual: usize,
        /// The input's channels.
        channels: usize,
    }: "{quantity} is {actual}, expected 1 or {channels}, the number of channels";
    /// The dilated window does not fit into the padded input.
    WindowTooLarge {
        /// Spatial axis, counted from 0.
        axis: usize,
        /// Elements that the dilated window spans.
        window: u128,
        /// Elements of the padded input.
        padded: u128,
    }: "the dilated window spans {window} elements of spatial axis {axis}, the padded input has {padded}";
    /// Pooling padding reaches over half the window, so that a window could hold padding only.
    PaddingTooLarge {
        /// Spatial axis, counted from 0.
        axis: usize,
        /// The padding.
        padding: usize,
        /// Half the kernel size.
        limit: usize,
    }: "padding[{axis}] is {padding}, limit kernel_size[{axis}] / 2 = {limit}";
    /// A convolution is to have an output as large as its input, and leaves out windows.
    SameWithStride {
        /// Spatial axis, counted from 0.
        axis: usize,
        /// The stride.
        stride: usize,
    }: "stride[{axis}] is {stride}, expected 1 with padding same";
    /// The padding is larger than its mode allows for this input.
    PadTooLarge {
        /// The padding mode.
        mode: &'static str,
        /// Spatial axis, counted from 0.
        axis: usize,
        /// The larger of the axis' two paddings.
        padding: usize,
        /// The most that the mode can do for an input of this extent.
        limit: usize,
    }: "padding[{axis}] is {padding}, limit {limit} with padding_mode {mode}";
    /// The output padding of a transposed convolution is not less than its stride or its dilation.
    OutputPadding {
        /// Spatial axis, counted from 0.
        axis: usize,
        /// The output padding.
        output_padding: usize,
        /// One less than the larger of stride and dilation.
        limit: usize,
    }: "output_padding[{axis}] is {output_padding}, limit {limit} (less than stride or dilation)";
    /// The padding of a transposed convolution removes all of its output.
    NoOutput {
        /// Spatial axis, counted from 0.
        axis: usize,
        /// The padding, which both ends lack.
        padding: usize,
        /// Elements of the output without padding.
        full: u128,
    }: "padding[{axis}] is {padding} on both sides, which removes all {full} elements of the output";
    /// A norm would divide by the deviation of a single value.
    SingleValue {
        /// What there is one of.
        quantity: &'static str,
    }: "{quantity} is 1, minimum 2 (one value has no deviation)";
    /// `eps` is NaN or negative, or 0 where that is refused.
    Eps {
        /// The value.
        eps: f64,
        /// Whether it takes 0.
        takes_zero: bool,
    }: "eps is {eps}, {}", if *takes_zero { "minimum 0" } else { "expected more than 0" };
    /// A batch norm in training without a finite momentum.
    Momentum {
        /// The momentum.
        momentum: Option<f64>,
    }: "momentum is {}, expected a finite number in training", if momentum.is_some() { "not finite" } else { "null" };
    /// An average with a divisor of 0.
    ZeroDivisor {}: "divisor_override is 0, expected any other number";
    /// A reduction over the batch, over an axis that the input does not have, or twice over one.
    ReducedDimension {
        /// The axis, as PyTorch counts.
        dim: isize,
    }: "dim is {dim}, {}", crate::reduction::EXPECTED;
    /// A reduction over no axis, which to PyTorch is one over all axes.
    ReducesNothing {}: "dim is [], {}", crate::reduction::EXPECTED;
    /// A reduction over too many groups of axes that are not neighbours.
    ReducedApart {
        /// The most groups.
        limit: usize,
    }: "dim has too many groups of adjacent axes, limit {limit}";
    /// An axis where the channels are the only one.
    NotChannels {
        /// The axis.
        dim: usize,
    }: "dim is {dim}, expected 1 (the channels), or no dim";
    /// An extent of a shape that is none.
    NoExtent {
        /// Index into the shape.
        axis: usize,
        /// What stands there.
        extent: isize,
    }: "shape[{axis}] is {extent}, minimum 1, or -1 once";
    /// Samples do not have as many elements as a shape, or as a multiple of its known part.
    OtherElements {
        /// Elements of a sample.
        actual: usize,
        /// Elements of the shape, without the extent that is left.
        expected: usize,
        /// Whether an extent is left.
        multiple: bool,
    }: "a sample has {actual} elements, expected {}{expected} by shape",
        if *multiple { "a multiple of " } else { "" };
    /// A part of an axis goes beyond its end.
    BeyondAxis {
        /// The axis.
        dim: usize,
        /// The index behind the part.
        end: usize,
        /// The axis' extent.
        extent: usize,
    }: "start + length is {end}, limit {extent}, the input's extent on axis {dim}";
    /// An upsampling to a size by a factor, or without either.
    SizeOrFactor {
        /// Whether there are both.
        both: bool,
    }: "size and scale_factor are {}, expected one of them",
        if *both { "both given" } else { "both absent" };
    /// Corners of values that are not interpolated.
    AlignCorners {
        /// The mode.
        mode: &'static str,
    }: "align_corners is true with mode {mode}, expected a mode that interpolates";
    /// A factor that is no finite number above 0.
    ScaleFactor {
        /// Spatial axis, counted from 0.
        axis: usize,
        /// The factor.
        scale_factor: f64,
    }: "scale_factor[{axis}] is {scale_factor}, expected a finite number above 0";
    /// A clamp without any bound.
    NoBound {}: "min and max are both absent, at least one is needed";
    /// A lower bound above the upper one, where PyTorch refuses that.
    CrossedBounds {
        /// The lower bound.
        min_val: f64,
        /// The upper bound.
        max_val: f64,
    }: "min_val is {min_val}, above max_val, which is {max_val}";
    /// A tensor has more elements than an address can reach.
    TooManyElements {
        /// Which of its tensors.
        tensor: &'static str,
    }: "{tensor} has more elements than memory addresses, limit {}", crate::MAX_ELEMENTS;
    /// An extent does not fit the integer that kernels hold it in.
    BeyondKernel {
        /// Which extent.
        quantity: Quantity,
        /// Its value.
        actual: usize,
        /// The largest value a kernel can hold.
        limit: usize,
    }: "{quantity} is {actual}, limit {limit} on a GPU";
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
