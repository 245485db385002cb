//! Definitions that the public modules share with the backends.

use half::{bf16, f16};

/// The maximum shared memory of a block in bytes, on the devices with the most (sm_90 and later). Above 48
/// KiB, the host must opt in to the dynamic part.
pub const MAX_SHARED_BYTES: u32 = 227 * 1024;

/// A value that can be stored in global or shared memory and held in registers.
///
/// # Safety
/// Implementors are plain bits: no padding, every bit pattern valid, 1, 2, 4 or 8 bytes, aligned
/// to their size.
pub unsafe trait Element: Copy + 'static {}

macro_rules! elements {
    ($($(#[$hidden:meta])? $ty:ty),*) => {$(
        $(#[$hidden])?
        // SAFETY: a primitive number without padding or niche, aligned to its size.
        unsafe impl Element for $ty {}
    )*};
}
// Hidden, because users of convfuse see the pages of f16 and bf16, which list their traits.
elements! { u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, #[doc(hidden)] f16, #[doc(hidden)] bf16 }

/// The source lane of a shuffle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarpShuffleMode {
    /// The lane `own - delta`.
    Up,
    /// The lane `own + delta`.
    Down,
    /// The lane with the given number.
    Idx,
    /// The lane `own ^ lane_mask`.
    Xor,
}

/// The operation of a warp reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum WarpReductionOp {
    /// The sum, wrapping.
    Add,
    /// The minimum.
    Min,
    /// The maximum.
    Max,
    /// The bitwise and.
    And,
    /// The bitwise or.
    Or,
    /// The bitwise exclusive or.
    Xor,
}
