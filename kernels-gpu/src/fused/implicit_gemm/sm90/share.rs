//! The share of a tile's pixels that a warpgroup has.

use super::consume::consume;
use super::format::WarpSpecializedFormat;
use super::output::Output;
use super::results::HALF_SUMS;
use super::{Memory, TileEpilogue, Work};

/// The share of a tile's pixels that a warpgroup has.
pub(super) trait Share {
    /// Whether the share is half of the pixels.
    const IS_HALF: bool;

    /// Runs [`consume()`] with accumulators for the share.
    ///
    /// # Safety
    /// As for [`consume()`].
    unsafe fn consume<F, E: TileEpilogue>(work: &Work<'_>, memory: &Memory, output: &Output<F, E>)
    where
        F: WarpSpecializedFormat<64> + WarpSpecializedFormat<128>;
}

/// Half of the pixels; the other warpgroup has the other half.
pub(super) struct Halves;
/// All pixels. The other warpgroup has another tile: further filters and the same pixels, or, in the
/// ping-pong schedule, the block's next tile of pixels.
pub(super) struct Whole;

impl Share for Halves {
    const IS_HALF: bool = true;

    #[inline(always)]
    unsafe fn consume<F, E: TileEpilogue>(work: &Work<'_>, memory: &Memory, output: &Output<F, E>)
    where
        F: WarpSpecializedFormat<64> + WarpSpecializedFormat<128>,
    {
        consume::<F, HALF_SUMS, E>(work, memory, output);
    }
}

impl Share for Whole {
    const IS_HALF: bool = false;

    #[inline(always)]
    unsafe fn consume<F, E: TileEpilogue>(work: &Work<'_>, memory: &Memory, output: &Output<F, E>)
    where
        F: WarpSpecializedFormat<64> + WarpSpecializedFormat<128>,
    {
        consume::<F, { 2 * HALF_SUMS }, E>(work, memory, output);
    }
}
