//! The epilogues of a tile, one for each kernel.

use cuda_std::opaque;

use super::super::format::Format;
use super::results::{Results, is_without_norm};

/// The epilogue of a warp's results, one staged tile of pixels after another: a warp's shared memory has room
/// for one. All lanes of the warp make each call together.
pub(super) trait TileEpilogue: Sized {
    /// Whether a norm follows. The kernel then writes moments besides, and has no fix-up: a value that is not
    /// finite makes its sample NaN anyway.
    const HAS_NORM: bool;
    /// Whether the output is NHWC.
    const IS_NHWC: bool = false;
    /// Whether a staged tile is f32, not of the stored type.
    const STAGES_F32: bool = false;

    /// Applies the list to the accumulators of a half of the tile, unless results go through it as they are
    /// written.
    #[inline(always)]
    unsafe fn apply_list<F: Format, const SUMS: usize>(
        results: &Results<'_, F, SUMS, Self>,
        sums: &mut [f32; SUMS],
    ) {
        if is_without_norm::<Self>(&results.g) && !results.output.without_norm.list.is_empty() {
            results.list(sums);
        }
    }

    /// Stores staged tile `number` of a half to shared memory. Moments are taken of the values that it leaves
    /// in `sums`.
    ///
    /// # Safety
    /// No lane reads the previous staged tile any more.
    unsafe fn stage<F: Format, const SUMS: usize>(
        results: &Results<'_, F, SUMS, Self>,
        sums: &mut [f32; SUMS],
        number: usize,
    );

    /// Writes the staged tile, whose pixels are those from `first` on, to the output.
    ///
    /// # Safety
    /// After a warp barrier that follows the stores to shared memory.
    unsafe fn write<F: Format, const SUMS: usize>(results: &Results<'_, F, SUMS, Self>, first: u32);

    /// Recomputes NaN results of the tile, if a lane has `seen` a NaN.
    ///
    /// # Safety
    /// After all calls of [`write`](Self::write).
    #[inline(always)]
    unsafe fn fix_up<F: Format, const SUMS: usize>(
        results: &Results<'_, F, SUMS, Self>,
        seen: bool,
    ) {
        results.fix_up(seen);
    }
}

/// With moments for a norm, to NCHW.
pub(super) struct WithMoments;
/// Without a norm, to NCHW; neighbouring filters may be neighbouring columns.
pub(super) struct Stored;
/// Without a norm, to NHWC.
pub(super) struct StoredNhwc;
/// Without a norm, reduced, to NCHW.
pub(super) struct Reduced;

impl TileEpilogue for WithMoments {
    const HAS_NORM: bool = true;

    #[inline(always)]
    unsafe fn apply_list<F: Format, const SUMS: usize>(
        _: &Results<'_, F, SUMS, Self>,
        _: &mut [f32; SUMS],
    ) {
    }

    #[inline(always)]
    unsafe fn stage<F: Format, const SUMS: usize>(
        results: &Results<'_, F, SUMS, Self>,
        sums: &mut [f32; SUMS],
        number: usize,
    ) {
        results.stage_rows(sums, number);
    }

    #[inline(always)]
    unsafe fn write<F: Format, const SUMS: usize>(
        results: &Results<'_, F, SUMS, Self>,
        first: u32,
    ) {
        results.write_rows(first);
    }

    #[inline(always)]
    unsafe fn fix_up<F: Format, const SUMS: usize>(_: &Results<'_, F, SUMS, Self>, _: bool) {}
}

impl TileEpilogue for Stored {
    const HAS_NORM: bool = false;

    #[inline(always)]
    unsafe fn apply_list<F: Format, const SUMS: usize>(
        _: &Results<'_, F, SUMS, Self>,
        _: &mut [f32; SUMS],
    ) {
    }

    #[inline(always)]
    unsafe fn stage<F: Format, const SUMS: usize>(
        results: &Results<'_, F, SUMS, Self>,
        sums: &mut [f32; SUMS],
        number: usize,
    ) {
        if results.is_shuffled() {
            results.store_shuffled(sums, number);
        } else {
            results.stage_rows(sums, number);
        }
    }

    #[inline(always)]
    unsafe fn write<F: Format, const SUMS: usize>(
        results: &Results<'_, F, SUMS, Self>,
        first: u32,
    ) {
        results.list_staged(opaque::to_compiler(first));
        if results.is_shuffled() {
            results.write_shuffled(opaque::to_compiler(first));
        } else {
            results.write_rows(first);
        }
    }
}

impl TileEpilogue for StoredNhwc {
    const HAS_NORM: bool = false;
    const IS_NHWC: bool = true;

    #[inline(always)]
    unsafe fn stage<F: Format, const SUMS: usize>(
        results: &Results<'_, F, SUMS, Self>,
        sums: &mut [f32; SUMS],
        number: usize,
    ) {
        results.store_pixels(sums, number);
    }

    #[inline(always)]
    unsafe fn write<F: Format, const SUMS: usize>(
        results: &Results<'_, F, SUMS, Self>,
        first: u32,
    ) {
        results.write_pixels(first);
    }
}

impl TileEpilogue for Reduced {
    const HAS_NORM: bool = false;
    const STAGES_F32: bool = true;

    #[inline(always)]
    unsafe fn apply_list<F: Format, const SUMS: usize>(
        results: &Results<'_, F, SUMS, Self>,
        sums: &mut [f32; SUMS],
    ) {
        if !results.output.without_norm.list.is_empty() {
            results.list(sums);
        }
        results.leave_out(sums);
    }

    #[inline(always)]
    unsafe fn stage<F: Format, const SUMS: usize>(
        results: &Results<'_, F, SUMS, Self>,
        sums: &mut [f32; SUMS],
        number: usize,
    ) {
        results.store_windows(sums, number);
    }

    #[inline(always)]
    unsafe fn write<F: Format, const SUMS: usize>(
        results: &Results<'_, F, SUMS, Self>,
        first: u32,
    ) {
        results.write_windows(opaque::to_compiler(first));
    }

    #[inline(always)]
    unsafe fn fix_up<F: Format, const SUMS: usize>(
        results: &Results<'_, F, SUMS, Self>,
        seen: bool,
    ) {
        results.fix_up_windows(seen);
    }
}
