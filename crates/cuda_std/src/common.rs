//! What the public modules and the backends beneath them both name.

use half::{bf16, f16};

/// The most shared memory that a block can have, in bytes, on the devices with the most (sm_90 and
/// later). Above 48 KiB, the host must opt in to the dynamic part.
pub const MAX_SHARED_BYTES: u32 = 227 * 1024;

/// A value that can lie in global or shared memory and travel in registers.
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
// The library's users see the pages of the last two.
elements! { u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, #[doc(hidden)] f16, #[doc(hidden)] bf16 }

/// How a shuffle finds its source lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarpShuffleMode {
    /// The lane `own - delta`.
    Up,
    /// The lane `own + delta`.
    Down,
    /// The lane given.
    Idx,
    /// The lane `own ^ lane_mask`.
    Xor,
}

/// What a warp reduction computes.
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
