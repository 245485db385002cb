//! What becomes of results: each kernel has one of these.

use cuda_std::opaque;

use super::super::format::Format;
use super::results::{Results, is_without_norm};

/// What a kernel does with the results of a warp, one staged tile of pixels after another: a warp has room
/// for one in shared memory. All lanes of the warp make each call together.
pub(super) trait TileEpilogue: Sized {
    /// Whether a norm follows, so that it writes moments besides. A value that is not finite makes its sample
    /// NaN anyway, so there is no fix-up.
    const HAS_NORM: bool;
    /// Whether the output is NHWC.
    const IS_NHWC: bool = false;
    /// Whether a staged tile is f32, not of the stored type.
    const STAGES_F32: bool = false;

    /// Applies the list to the accumulators of a half of the tile, unless that is done as they are written.
    #[inline(always)]
    unsafe fn apply_list<F: Format, const SUMS: usize>(
        results: &Results<'_, F, SUMS, Self>,
        sums: &mut [f32; SUMS],
    ) {
        if is_without_norm::<Self>(&results.g) && !results.output.without_norm.list.is_empty() {
            results.list(sums);
        }
    }

    /// Stores staged tile `number` of a half to shared memory. What it leaves in `sums` is what moments are
    /// taken of.
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
    /// After a warp barrier behind the stores to shared memory.
    unsafe fn write<F: Format, const SUMS: usize>(results: &Results<'_, F, SUMS, Self>, first: u32);

    /// Computes results of the tile that are NaN again, if a lane has `seen` a NaN.
    ///
    /// # Safety
    /// Behind all calls of [`write`](Self::write).
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
        results: &Results<'_, F, SUMS, Self>,
        sums: &mut [f32; SUMS],
    ) {
        if is_without_norm::<Self>(&results.g)
            && !results.output.without_norm.list.is_empty()
            && !results.is_listed_in_rows()
        {
            results.list(sums);
        }
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
        if results.is_listed_in_rows() {
            results.write_shuffled_through_list(opaque::to_compiler(first));
        } else if results.is_shuffled() {
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
