//! The epilogues of a tile, one for each kernel.

use cuda_std::opaque;

use super::super::format::Format;
use super::results::{Results, TileEpilogue};

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
