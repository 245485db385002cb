//! Sliding windows along one axis, for convolution and pooling.

use crate::error::{Quantity, SpecError, at_least_one};

/// One axis of a sliding window.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    pub(crate) kernel: usize,
    pub(crate) stride: usize,
    pub(crate) padding: usize,
    pub(crate) dilation: usize,
    /// Whether a last window may hang over the padded end.
    pub(crate) ceil_mode: bool,
}

impl Window {
    /// Checks the attributes before any input shape is known.
    pub(crate) fn check(self, operator: &'static str, axis: usize) -> Result<(), SpecError> {
        at_least_one(operator, Quantity::entry("kernel_size", axis), self.kernel)?;
        at_least_one(operator, Quantity::entry("stride", axis), self.stride)?;
        at_least_one(operator, Quantity::entry("dilation", axis), self.dilation)
    }

    /// Returns the number of windows along an axis of `input` elements.
    ///
    /// A window that hangs over the end (with `ceil_mode`) counts only if it starts inside the
    /// input or its left padding, so that no window holds right padding alone.
    pub(crate) fn output_extent(
        self,
        operator: &'static str,
        axis: usize,
        input: usize,
    ) -> Result<usize, SpecError> {
        self.check(operator, axis)?;
        // 128 bits hold the product of any two extents, so nothing below can overflow.
        let [kernel, stride, padding, dilation, input] =
            [self.kernel, self.stride, self.padding, self.dilation, input]
                .map(|extent| extent as u128);
        let window = (kernel - 1) * dilation + 1;
        let padded = input + 2 * padding;
        let overhang = if self.ceil_mode { stride - 1 } else { 0 };
        let Some(slack) = (padded + overhang).checked_sub(window) else {
            return Err(SpecError::WindowTooLarge {
                operator,
                axis,
                window,
                padded,
            });
        };
        let mut count = slack / stride + 1;
        if self.ceil_mode && (count - 1) * stride >= input + padding {
            count -= 1;
        }
        usize::try_from(count).map_err(|_| SpecError::TooManyElements {
            operator,
            tensor: "output",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the windows one by one.
    fn counted(window: Window, input: usize) -> usize {
        let span = (window.kernel - 1) * window.dilation + 1;
        let end = input + 2 * window.padding;
        (0..)
            .map(|i| i * window.stride)
            .take_while(|&start| {
                start + span <= end
                    || window.ceil_mode
                        && start < input + window.padding
                        && start + span < end + window.stride
            })
            .count()
    }

    #[test]
    fn output_extent_equals_the_number_of_windows() {
        for kernel in 1..5 {
            for stride in 1..5 {
                for padding in 0..=kernel / 2 {
                    for dilation in 1..4 {
                        for input in 1..20 {
                            for ceil_mode in [false, true] {
                                let window = Window {
                                    kernel,
                                    stride,
                                    padding,
                                    dilation,
                                    ceil_mode,
                                };
                                let got = window.output_extent("op", 0, input).unwrap_or(0);
                                assert_eq!(
                                    got,
                                    counted(window, input),
                                    "kernel {kernel} stride {stride} padding {padding} \
                                     dilation {dilation} input {input} ceil {ceil_mode}"
                                );
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn absurd_extents_are_errors_not_overflows() {
        let window = Window {
            kernel: usize::MAX,
            stride: usize::MAX,
            padding: usize::MAX,
            dilation: usize::MAX,
            ceil_mode: true,
        };
        assert!(matches!(
            window.output_extent("op", 0, usize::MAX),
            Err(SpecError::WindowTooLarge { .. })
        ));
        let thin = Window {
            kernel: 1,
            stride: 1,
            ..window
        };
        assert!(matches!(
            thin.output_extent("op", 0, usize::MAX),
            Err(SpecError::TooManyElements { .. })
        ));
    }
}
