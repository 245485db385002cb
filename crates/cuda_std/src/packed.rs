//! Arithmetic on two 16-bit floats in one 32-bit word.
//!
//! **Emulator**: the same values as on the device.

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
    /// The larger f16 of each half; NaN if either is. `max.NaN.f16x2`.
    max_nan_f16x2;
    /// The smaller f16 of each half; NaN if either is. `min.NaN.f16x2`.
    min_nan_f16x2;
    /// The larger bf16 of each half; NaN if either is. `max.NaN.bf16x2`.
    max_nan_bf16x2;
    /// The smaller bf16 of each half; NaN if either is. `min.NaN.bf16x2`.
    min_nan_bf16x2;
    /// The sum of the f16 of each half, rounded once. `add.rn.f16x2`.
    add_f16x2;
    /// The sum of the bf16 of each half, rounded once. `add.rn.bf16x2` (sm_90 and later).
    add_bf16x2;
}
