//! Arithmetic on pairs of 16-bit floats, each pair packed in a 32-bit word.
//!
//! **Emulator**: returns the same values as the device.

use crate::backend;

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[must_use]
        #[inline(always)]
        pub fn $name(a: u32, b: u32) -> u32 {
            backend::$name(a, b)
        }
    )*};
}

functions! {
    /// The element-wise maximum of two f16 pairs; NaN if either operand is NaN. `max.NaN.f16x2`.
    max_nan_f16x2;
    /// The element-wise minimum of two f16 pairs; NaN if either operand is NaN. `min.NaN.f16x2`.
    min_nan_f16x2;
    /// The element-wise maximum of two bf16 pairs; NaN if either operand is NaN. `max.NaN.bf16x2`.
    max_nan_bf16x2;
    /// The element-wise minimum of two bf16 pairs; NaN if either operand is NaN. `min.NaN.bf16x2`.
    min_nan_bf16x2;
    /// The element-wise sum of two f16 pairs, rounded once. `add.rn.f16x2`.
    add_f16x2;
    /// The element-wise sum of two bf16 pairs, rounded once. `add.rn.bf16x2` (sm_90 and later).
    add_bf16x2;
}
