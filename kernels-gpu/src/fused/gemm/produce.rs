//! The producer: what loads the operands.

use cuda_std::mbarrier::Barrier;
use cuda_std::shared::SharedAddr;
use cuda_std::tensor_map::{TensorMap, copy_box, copy_im2col};
use cuda_std::{opaque, thread, wgmma};
use launch_config::gemm::{GemmGeometry, LINE_BYTES, Rows};

use super::Memory;
use crate::parts::index::div_rem;
use crate::parts::pipeline::PipelineState;

/// Where a part of a stage is in K.
#[derive(Clone, Copy)]
struct Depth {
    channel: u32,
    tap: u32,
    /// Column, row and slice of the tap in the filter, and how far it is from the window's first element.
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

    /// The next part's.
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

/// Column, row and slice where the window of a pixel of the output begins, and its sample.
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

/// Loads the stages of all of the block's tiles, one after the other.
///
/// # Safety
/// One thread calls it, after the barrier behind the initialisation. `x` and `filters` are the tensor maps of
/// the geometry.
#[inline(always)]
pub(super) unsafe fn produce(memory: &Memory, [x, filters]: [&TensorMap; 2]) {
    let g = &memory.g;
    let stages = memory.stages();
    let mut state = PipelineState::FIRST;
    let mut tile = thread::block_idx_x();
    let stay = g.residency.is_resident();
    // What a stage has of a tap, in bytes of shared memory, and how many of them.
    let [part_of_pixels, part_of_filters] =
        [g.tile_pixels, memory.tile[1]].map(|lines| (lines << g.unit_shift) * wgmma::UNIT_BYTES);
    let (parts, taps) = (g.stage_taps(), g.conv.taps());
    let copy_filters = |to: SharedAddr, filter: i32, mut depth: Depth, barrier: Barrier| {
        let mut part = 0;
        while part < parts {
            opaque::not_unrolled();
            // Behind the last tap there are zeros.
            let [channel, tap] = [depth.channel, depth.tap].map(u32::cast_signed);
            let to = to.offset(part * part_of_filters);
            copy_box(to, filters, [channel, tap, filter, 0, 0], barrier);
            depth = depth.next(g);
            part = opaque::to_compiler(part + 1);
        }
        depth
    };
    if stay {
        let [_, filter] = memory.start(tile).map(u32::cast_signed);
        let there = memory.filters_are_there();
        there.arrive_expect(g.k_blocks * memory.filter_bytes());
        let (mut k_block, mut depth) = (0, Depth::FIRST);
        while k_block < g.k_blocks {
            opaque::not_unrolled();
            depth = copy_filters(memory.resident(k_block), filter, depth, there);
            k_block = opaque::to_compiler(k_block + 1);
        }
    }
    while tile < g.tiles {
        let [pixel, filter] = memory.start(tile).map(u32::cast_signed);
        let [w, h, d, sample] = window(pixel.cast_unsigned(), g);
        let (mut k_block, mut depth) = (0, Depth::FIRST);
        while k_block < g.k_blocks {
            opaque::not_unrolled();
            // The phase of parity 1 of a new barrier counts as over: its stage is empty.
            stages.empty(state.stage).wait(state.parity ^ 1);
            let full = stages.full(state.stage);
            full.arrive_expect(memory.layout.stage_bytes);
            let to = memory.stage(state.stage);
            if !stay {
                copy_filters(to.offset(g.tile_pixels * LINE_BYTES), filter, depth, full);
            }
            let mut part = 0;
            while part < parts {
                opaque::not_unrolled();
                let to = to.offset(part * part_of_pixels);
                if g.rows == Rows::PIXELS {
                    let channel = depth.channel.cast_signed();
                    copy_box(to, x, [channel, pixel, 0, 0, 0], full);
                } else {
                    // At most 31 each: `AxisWindows`. Behind the last tap there are zeros.
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
            state = state.next(&stages);
            k_block = opaque::to_compiler(k_block + 1);
        }
        tile += thread::grid_dim_x();
    }
}
