//! The producers, which load the operands. Each one has a thread of its own: a thread takes as long to start
//! two copies as a tensor map takes for small ones.

use cuda_std::mbarrier::Barrier;
use cuda_std::shared::SharedAddr;
use cuda_std::tensor_map::{TensorMap, copy_box, copy_im2col};
use cuda_std::{opaque, thread, wgmma};
use launch_config::gemm::{GemmGeometry, LINE_BYTES, Rows};

use super::Memory;
use crate::parts::index::div_rem;
use crate::parts::pipeline::PipelineState;

/// The position of a part of a stage in K.
#[derive(Clone, Copy)]
struct Depth {
    channel: u32,
    tap: u32,
    /// Column, row and slice of the tap in the filter, and their distances from the window's first element.
    of_filter: [u32; 3],
    offsets: [u32; 3],
}

impl Depth {
    const FIRST: Self = Self {
        channel: 0,
        tap: 0,
        of_filter: [0; 3],
        offsets: [0; 3],
    };

    /// Returns the position of the next part.
    #[inline(always)]
    fn next(self, g: &GemmGeometry) -> Self {
        let Self {
            mut channel,
            mut tap,
            of_filter: [mut s, mut r, mut t],
            offsets: [mut w, mut h, mut d],
        } = self;
        let conv = &g.conv;
        channel += g.stage_channels();
        if channel >= g.channels() {
            channel = 0;
            tap += 1;
            s += 1;
            w += conv.dilation_w;
        }
        if s == conv.s {
            [s, w] = [0; 2];
            r += 1;
            h += conv.dilation_h;
        }
        if r == conv.r {
            [r, h] = [0; 2];
            t += 1;
            d += conv.dilation_d;
        }
        Self {
            channel,
            tap,
            of_filter: [s, r, t],
            offsets: [w, h, d],
        }
    }
}

/// Returns column, row and slice at which the window of a pixel of the output begins, and the pixel's sample.
///
/// # Safety
/// The output has pixels.
#[inline(always)]
unsafe fn window(pixel: u32, g: &GemmGeometry) -> [i32; 4] {
    let conv = &g.conv;
    let (rest, q) = div_rem(pixel, conv.q);
    let (rest, p) = div_rem(rest, conv.p);
    let (sample, z) = div_rem(rest, conv.z);
    let first = |at: u32, stride: u32, pad: u32| (at * stride).wrapping_sub(pad).cast_signed();
    [
        first(q, conv.stride_w, conv.pad_w),
        first(p, conv.stride_h, conv.pad_h),
        first(z, conv.stride_d, conv.pad_d),
        sample.cast_signed(),
    ]
}

/// Fills the stages of all of the block's tiles, one after the other. It waits until a stage is empty and
/// announces `bytes` to its barrier. Then `copy` copies the parts of the stage and returns the position of
/// the next stage. `of_tile` computes the argument of `copy` from the tile's first pixel and filter.
#[inline(always)]
unsafe fn produce<S: Copy>(
    memory: &Memory,
    bytes: u32,
    of_tile: impl Fn([u32; 2]) -> S,
    copy: impl Fn(SharedAddr, S, Depth, Barrier) -> Depth,
) {
    let g = &memory.g;
    let stages = memory.stages();
    let mut state = PipelineState::FIRST;
    let mut tile = thread::block_idx_x();
    while tile < g.tiles {
        let found = of_tile(memory.start(tile));
        let (mut k_block, mut depth) = (0, Depth::FIRST);
        while k_block < g.k_blocks {
            opaque::not_unrolled();
            // The phase of parity 1 of a new barrier counts as over: its stage is empty.
            stages.empty(state.stage).wait(state.parity ^ 1);
            let full = stages.full(state.stage);
            full.arrive_expect(bytes);
            depth = copy(memory.stage(state.stage), found, depth, full);
            state = state.next(&stages);
            k_block = opaque::to_compiler(k_block + 1);
        }
        tile += thread::grid_dim_x();
    }
}

/// Loads the windows of all stages.
///
/// # Safety
/// One thread calls it, after the barrier that follows the initialisation. `x` is the tensor map of the
/// geometry.
#[inline(always)]
pub(super) unsafe fn produce_windows(memory: &Memory, x: &TensorMap) {
    let g = &memory.g;
    let (parts, taps) = (g.stage_taps(), g.conv.taps());
    // Bytes of shared memory of one tap in a stage.
    let of_part = (g.tile_pixels << g.unit_shift) * wgmma::UNIT_BYTES;
    let of_tile = |[pixel, _]: [u32; 2]| (pixel.cast_signed(), window(pixel, g));
    let copy = |to: SharedAddr, found: (i32, [i32; 4]), mut depth: Depth, full: Barrier| {
        let (pixel, [w, h, d, sample]) = found;
        let mut part = 0;
        while part < parts {
            opaque::not_unrolled();
            let to = to.offset(part * of_part);
            if g.rows == Rows::PIXELS {
                let channel = depth.channel.cast_signed();
                copy_box(to, x, [channel, pixel, 0, 0, 0], full);
            } else {
                // Offsets are at most 31 (`AxisWindows`). Parts behind the last tap are zeros.
                let (channel, offsets) = match depth.tap < taps {
                    true => (depth.channel, depth.offsets.map(|offset| offset as u16)),
                    false => (g.channels(), [0; 3]),
                };
                let at = [channel.cast_signed(), w, h, d, sample];
                copy_im2col(to, x, at, offsets, full);
            }
            depth = depth.next(g);
            part = opaque::to_compiler(part + 1);
        }
        depth
    };
    produce(memory, g.tile_pixels * LINE_BYTES, of_tile, copy);
}

/// Loads the filters: once if they are resident, otherwise for all stages.
///
/// # Safety
/// As for [`produce_windows`].
#[inline(always)]
pub(super) unsafe fn produce_filters(memory: &Memory, filters: &TensorMap) {
    let g = &memory.g;
    let parts = g.stage_taps();
    let of_part = (memory.tile[1] << g.unit_shift) * wgmma::UNIT_BYTES;
    let copy = |to: SharedAddr, filter: i32, mut depth: Depth, barrier: Barrier| {
        let mut part = 0;
        while part < parts {
            opaque::not_unrolled();
            // Parts behind the last tap are zeros.
            let [channel, tap] = [depth.channel, depth.tap].map(u32::cast_signed);
            let to = to.offset(part * of_part);
            copy_box(to, filters, [channel, tap, filter, 0, 0], barrier);
            depth = depth.next(g);
            part = opaque::to_compiler(part + 1);
        }
        depth
    };
    if g.residency.is_resident() {
        let [_, filter] = memory.start(thread::block_idx_x());
        let there = memory.filters_are_there();
        there.arrive_expect(g.k_blocks * memory.filter_bytes());
        let (mut k_block, mut depth) = (0, Depth::FIRST);
        while k_block < g.k_blocks {
            opaque::not_unrolled();
            depth = copy(memory.resident(k_block), filter.cast_signed(), depth, there);
            k_block = opaque::to_compiler(k_block + 1);
        }
    } else {
        let behind_pixels = g.tile_pixels * LINE_BYTES;
        let of_tile = |[_, filter]: [u32; 2]| filter.cast_signed();
        let copy = |to: SharedAddr, filter, depth, full| {
            copy(to.offset(behind_pixels), filter, depth, full)
        };
        produce(memory, memory.filter_bytes(), of_tile, copy);
    }
}
