//! The error of this crate, worded `operator: quantity is actual, rule limit`.

use core::fmt;

/// The maximum number of elements of a tensor: the largest count whose bytes an address difference can
/// express if each is an f32. Tensors of smaller elements have the same limit, because their intermediate
/// results are f32.
pub const MAX_ELEMENTS: usize = isize::MAX as usize / size_of::<f32>();

/// The expected axes in words, for errors.
const EXPECTED_AXES: &str = "expected axes of the input behind the batch, each once";

/// An attribute or extent under its public name, with an axis if it is a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quantity {
    /// PyTorch's name, such as `stride` or `num_groups`.
    pub name: &'static str,
    /// Index into the attribute or shape, if it is a list.
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

/// A rule for the rank of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RankRule {
    /// Exactly this rank.
    Exactly(usize),
    /// This rank or a higher one.
    AtLeast(usize),
    /// This rank or a lower one.
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

/// Refuses any axis but the channels.
#[cfg(feature = "graph")]
pub(crate) fn channels_alone(operator: &'static str, dim: usize) -> Result<(), SpecError> {
    match dim {
        1 => Ok(()),
        _ => Err(SpecError::NotChannels { operator, dim }),
    }
}

/// Defines the error: its variants, each with its fields beside the operator, and its message behind it.
macro_rules! spec_error {
    ($(
        $(#[$doc:meta])*
        $Variant:ident { $($(#[$field_doc:meta])* $field:ident: $ty:ty,)* }: $message:literal $(, $value:expr)?;
    )+) => {
        /// A mismatch between a specification and its tensors. Every variant names the operator.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum SpecError {$(
            $(#[$doc])*
            $Variant {
                /// The operator that refused.
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
        /// The tensor's name.
        tensor: &'static str,
        /// The tensor's rank.
        actual: usize,
        /// The rule for the rank.
        rule: RankRule,
    }: "{tensor} has rank {actual}, {rule}";
    /// A count or extent is below the operator's minimum.
    TooSmall {
        /// The quantity that is too small.
        quantity: Quantity,
        /// Its value.
        actual: usize,
        /// The smallest value accepted.
        minimum: usize,
    }: "{quantity} is {actual}, minimum {minimum}";
    /// A quantity cannot be divided into equal parts.
    NotMultiple {
        /// The quantity to divide.
        quantity: &'static str,
        /// Its value.
        actual: usize,
        /// Name of the divisor.
        divisor_name: &'static str,
        /// The divisor's value.
        divisor: usize,
    }: "{quantity} is {actual}, which is not a multiple of {divisor_name} {divisor}";
    /// Two tensors disagree about an extent.
    Mismatch {
        /// The extent that does not fit.
        quantity: Quantity,
        /// Its value.
        actual: usize,
        /// The value that the other tensors or attributes require.
        expected: usize,
    }: "{quantity} is {actual}, expected {expected}";
    /// The number of values is neither 1 nor the number of channels.
    OneOrEach {
        /// The quantity with the wrong number of values.
        quantity: Quantity,
        /// Its number of values.
        actual: usize,
        /// The number of channels of the input.
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
    /// The padding of a pool is more than half the window. A window could then hold padding alone.
    PaddingTooLarge {
        /// Spatial axis, counted from 0.
        axis: usize,
        /// The padding.
        padding: usize,
        /// Half the kernel size.
        limit: usize,
    }: "padding[{axis}] is {padding}, limit kernel_size[{axis}] / 2 = {limit}";
    /// Padding `same` with a stride other than 1, whose output would be smaller than the input.
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
        /// The maximum of the mode for an input of this extent.
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
        /// The padding, cut off at both ends.
        padding: usize,
        /// Elements of the output without padding.
        full: u128,
    }: "padding[{axis}] is {padding} on both sides, which removes all {full} elements of the output";
    /// A norm would divide by the standard deviation of a single value.
    SingleValue {
        /// The quantity that is 1.
        quantity: &'static str,
    }: "{quantity} is 1, minimum 2 (one value has no deviation)";
    /// `eps` is NaN or negative, or 0 for a norm that refuses 0.
    Eps {
        /// The value.
        eps: f64,
        /// Whether the norm accepts 0.
        takes_zero: bool,
    }: "eps is {eps}, {}", if *takes_zero { "minimum 0" } else { "expected more than 0" };
    /// A batch norm in training without a finite momentum.
    Momentum {
        /// The momentum.
        momentum: Option<f64>,
    }: "momentum is {}, expected a finite number in training", if momentum.is_some() { "not finite" } else { "null" };
    /// An average with a divisor of 0.
    ZeroDivisor {}: "divisor_override is 0, expected any other number";
    /// A reduction over the batch, over an axis that the input does not have, or twice over the same axis.
    ReducedDimension {
        /// The axis as PyTorch counts it; negative from the end.
        dim: isize,
    }: "dim is {dim}, {}", EXPECTED_AXES;
    /// A reduction over no axis. PyTorch treats it as a reduction over all axes.
    ReducesNothing {}: "dim is [], {}", EXPECTED_AXES;
    /// A reduction over too many separate groups of adjacent axes.
    ReducedApart {
        /// The maximum number of groups.
        limit: usize,
    }: "dim has too many groups of adjacent axes, limit {limit}";
    /// Another axis than the channels, for an operator that takes only the channels.
    NotChannels {
        /// The axis.
        dim: usize,
    }: "dim is {dim}, expected 1 (the channels), or no dim";
    /// An invalid extent of a shape.
    NoExtent {
        /// Index into the shape.
        axis: usize,
        /// The invalid extent.
        extent: isize,
    }: "shape[{axis}] is {extent}, minimum 1, or -1 once";
    /// The number of elements of a sample differs from the shape's, or is no multiple of the shape's known
    /// part.
    OtherElements {
        /// Elements of a sample.
        actual: usize,
        /// Elements of the shape without its extent of -1.
        expected: usize,
        /// Whether the shape has an extent of -1.
        multiple: bool,
    }: "a sample has {actual} elements, expected {}{expected} by shape",
        if *multiple { "a multiple of " } else { "" };
    /// A slice ends beyond its axis.
    BeyondAxis {
        /// The axis.
        dim: usize,
        /// The index behind the slice.
        end: usize,
        /// The axis' extent.
        extent: usize,
    }: "start + length is {end}, limit {extent}, the input's extent on axis {dim}";
    /// An upsampling with both a size and a factor, or with neither.
    SizeOrFactor {
        /// Whether both are given.
        both: bool,
    }: "size and scale_factor are {}, expected one of them",
        if *both { "both given" } else { "both absent" };
    /// `align_corners` with a mode that does not interpolate.
    AlignCorners {
        /// The mode.
        mode: &'static str,
    }: "align_corners is true with mode {mode}, expected a mode that interpolates";
    /// A factor that is not a finite number above 0.
    ScaleFactor {
        /// Spatial axis, counted from 0.
        axis: usize,
        /// The factor.
        scale_factor: f64,
    }: "scale_factor[{axis}] is {scale_factor}, expected a finite number above 0";
    /// A clamp without any bound.
    NoBound {}: "min and max are both absent, at least one is needed";
    /// A lower bound above the upper one, for a function whose bounds PyTorch checks.
    CrossedBounds {
        /// The lower bound.
        min_val: f64,
        /// The upper bound.
        max_val: f64,
    }: "min_val is {min_val}, above max_val, which is {max_val}";
    /// A tensor has more elements than memory can address.
    TooManyElements {
        /// The tensor's name.
        tensor: &'static str,
    }: "{tensor} has more elements than memory addresses, limit {}", MAX_ELEMENTS;
    /// An extent exceeds the range of the integer that kernels hold it in.
    BeyondKernel {
        /// The extent.
        quantity: Quantity,
        /// Its value.
        actual: usize,
        /// The largest value that a kernel can hold.
        limit: usize,
    }: "{quantity} is {actual}, limit {limit} on a GPU";
}

impl core::error::Error for SpecError {}

/// Checks the `eps` of a norm. Norms by statistics of their input accept zero and infinity as ordinary
/// numbers; PyTorch's batch norm alone refuses zero. NaN and negative values are refused, because they would
/// only turn the output into NaN.
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

/// Refuses 0.
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
