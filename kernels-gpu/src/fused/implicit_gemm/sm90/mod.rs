//! The product of warp-specialized tiles (sm_90a): all operands in shared memory.
//!
//! # Idea
//! The widest instructions keep the tensor cores busiest, and leave a thread no registers but for sums. So the filters
//! come to shared memory too, once for 256 pixels. Two warpgroups do nothing but multiply (`consume`) and finish their tiles
//! (`results`, `rows`), each by itself, so that neither waits for the other but for operands. The warps of a third load operands into two
//! pipelines of pipeline stages (`produce`): one loads filters by bulk copies, three load halo tiles of planes, K-vector by K-vector, in turn, or start copies of a halo tile
//! of lines (`lines`), or round such halo tiles from f32 that they load (`staged_tiles`).
//!
//! ```text
//! one warp:      for each tile of pixels, for each MMA batch of three steps:
//!                    wait for a free filter pipeline stage; copy the filters
//! three warps:   for each tile of pixels, for each K block of its share:
//!                    wait for a free halo tile pipeline stage; copy the halo tile, or boxes of it: each a third of many, or one all of few
//! eight warps:   for each tile of pixels:
//!                    for each K block: wait for its halo tile
//!                        for each MMA batch: wait for its filters; start it
//!                            until the MMA batch before is over; its filters' pipeline stage is free, and its halo tile's after the last of a K block
//!                    value = sums * descale + bias; moments; y = value
//! ```
//! Tiles, pipeline stages and shared memory: `launch_config::implicit_gemm::sm90`.
//!
//! # Sums
//! Those of 16-bit operands and of rounded f32 are added up by the tensor cores alone. A MMA batch of split values starts from zero,
//! and its sums are added in the ordinary way, which rounds, while the other warpgroup's MMA batch is multiplied (`warpgroup`
//! says why). These are the first product's registers, so a block has one tile of split values, never two.
//! In the format of parts MMA batches go on as where values have one, and every few of them their sums are promoted likewise.
//!
//! # Alternation
//! Where a block has one tile of filters, its warpgroups may alternate (`mainloop.ping_pong`): each has every second tile of pixels. Both pipelines are then one
//! warpgroup's for a whole tile, and the other's for the next, so the tensor cores have one warpgroup's MMA batches at a time while the other finishes its
//! tile. A barrier tells the parity of its phase alone, so nobody may wait for a pipeline stage that is to be filled twice until then: a warpgroup begins when all
//! warps of the other one have waited for all of their tile, which they say at a barrier as the last MMA batch is started.
//!
//! # Clusters
//! Where sums are split (`mainloop.split_k`), the blocks of a cluster have the same tiles and a share of the K blocks each; behind a tile's last
//! MMA batch they add up what they have (`exchange`), and each warp's results are finished in one of the blocks.
//!
//! # Barriers
//! One of the block, or the cluster, when tables and barriers are there. From then on a pipeline stage has two transaction barriers: it is filled, for which
//! who fills it arrives; and it is free again, for which each of the eight warps, or of the four whose turn it is, arrives after its own products
//! with the pipeline stage are over. Where warpgroups alternate, there is one for each that says that it may begin. Where sums are split, `exchange` has its own.
//!
//! # Invariants
//! - A warp's results are in shared memory of its own.
//! - A pipeline stage is filled in the order in which it is read, whoever fills it.

#[cfg(not(target_arch = "nvptx64"))]
mod boxes;
mod cluster_reduce;
mod consume;
mod format;
mod memory;
mod nhwc_tile;
mod pipeline;
mod produce;
mod results;
mod rows;
mod staged_f32;

#[cfg(not(target_arch = "nvptx64"))]
pub use boxes::boxes;

use cuda_std::global::Global;
use cuda_std::tensor_map::TensorMap;
use cuda_std::{cluster, kernel, opaque, registers, thread};
use launch_config::WARP_THREADS;
use launch_config::implicit_gemm::sm90::{BLOCK_THREADS, MainloopConfig, WARP_FILTERS, WARPS};
use launch_config::implicit_gemm::{Epilogue, GemmGeometry, K_VECTOR_WORDS, WARP_SPECIALIZED};

use super::fixup::WithoutNorm;
use super::format::{Bf16, Bf16x3, F16, F16x2, ScaledF16};
use super::tables::{has_nhwc_tile, may_convert_in_producer, rounds};
use crate::parts::index::div_rem;
use format::WarpSpecializedFormat;
use memory::Memory;
use pipeline::{Pipeline, PipelineState};
use results::{HALF_SUMS, Output};
use staged_f32::{FOURS, FOURS_OF_HALVES, Scales};

/// Registers of a thread that multiplies, and of one beside it. Together they are no more than the block starts with.
const CONSUMER_REGISTERS: u32 = 224;
const PRODUCER_REGISTERS: u32 = 56;

/// The same where those beside it may have to round.
const CONSUMER_REGISTERS_BESIDE_CONVERSION: u32 = 216;
const CONVERTING_PRODUCER_REGISTERS: u32 = 72;

/// Filters of a tile that make the same one of two outputs.
const HALF_FILTERS: u32 = WARP_SPECIALIZED.filters() / 2;
const _: () = assert!(HALF_FILTERS.is_multiple_of(WARP_FILTERS));

/// Warps of a warpgroup.
const WARPGROUP_WARPS: u32 = WARPS / 2;

/// What a warpgroup has of a tile's pixels.
pub(super) trait Share {
    const SUMS: usize;
}

/// Half of them, and the other warpgroup the other half.
pub(super) struct Halves;
/// All of them. The other warpgroup has another tile: of further filters and the same pixels, or, if they alternate, the block's next one.
pub(super) struct Whole;

impl Share for Halves {
    const SUMS: usize = HALF_SUMS;
}

impl Share for Whole {
    const SUMS: usize = 2 * HALF_SUMS;
}

/// What a block computes: its filters, and one tile of pixels after another, of the sums of which it has some K blocks.
#[derive(Clone, Copy)]
struct Work<'a> {
    g: &'a GemmGeometry,
    group: u32,
    /// The first of its tiles of filters, in the group.
    filter_tile: u32,
    first_work_tile: u32,
    work_tile_step: u32,
    /// Blocks that split the same sums.
    split_k: u32,
}

impl<'a> Work<'a> {
    /// That of the block; blocks have `tiles` tiles, and `split_k` of them split sums.
    #[inline(always)]
    unsafe fn of(g: &'a GemmGeometry, tiles: u32, split_k: u32) -> Self {
        let sets = g.warp_specialized_sets(tiles);
        let shift = split_k.trailing_zeros();
        let (first_work_tile, set) = div_rem(thread::block_idx_x() >> shift, sets);
        let (work_tile_step, _) = div_rem(thread::grid_dim_x() >> shift, sets);
        let (group, set) = div_rem(set, g.warp_specialized_sets_of_group(tiles));
        Self {
            g,
            group,
            filter_tile: set * tiles,
            first_work_tile,
            work_tile_step,
            split_k,
        }
    }

    /// What a warp's filters make, the first of which is `filter` among those of the block.
    #[inline(always)]
    fn made_by(&self, filter: u32) -> Made {
        let of_all = self.g.conv.group_k;
        let output = which_output(self.g, filter);
        let of_group =
            self.filter_tile * WARP_SPECIALIZED.filters() + filter - output * HALF_FILTERS;
        Made {
            channel: self.group * of_all + of_group,
            filters: of_all.saturating_sub(of_group).min(WARP_FILTERS),
        }
    }

    /// The block's first K block, and the one behind its last; computed where it is asked for.
    #[inline(always)]
    fn k_blocks(&self) -> [u32; 2] {
        let split_k = opaque::to_compiler(self.split_k);
        self.g.warp_specialized_k_blocks(rank(split_k), split_k)
    }
}

/// What a warp's filters make.
#[derive(Clone, Copy)]
struct Made {
    /// The output channel of the first.
    channel: u32,
    /// How many of them there are.
    filters: u32,
}

/// Which of neighbouring outputs in depth filter `filter` of a block makes, which has one tile if there are two.
#[inline(always)]
fn which_output(g: &GemmGeometry, filter: u32) -> u32 {
    if g.outputs_d == 1 {
        0
    } else {
        filter / HALF_FILTERS
    }
}

/// What warp `warp` has part of in a block of `tiles` tiles of filters: the first of its filters among those of the block, and the
/// first half of the pixels, of which it has one half or both.
#[inline(always)]
fn share_of(warp: u32, tiles: u32, has_half: bool) -> (u32, u32) {
    let warpgroup = warp / WARPGROUP_WARPS;
    let of_tile = warp % WARPGROUP_WARPS * WARP_FILTERS;
    if has_half {
        (of_tile, warpgroup)
    } else {
        (
            warpgroup * (tiles - 1) * WARP_SPECIALIZED.filters() + of_tile,
            0,
        )
    }
}

/// The block's number among the `split_k` that split the same sums.
#[inline(always)]
fn rank(split_k: u32) -> u32 {
    thread::block_idx_x() & (split_k - 1)
}

/// A block, or a cluster, computes tiles of filters times pixels, the moments of each filter over each half of those pixels, and
/// writes them.
///
/// *Launch*: the config's `shape(..)`, with its `mainloop_config`. *Mapping*, *barriers*: at the head of the module.
/// *Traffic*: each K-vector of the reformatted input about once for each tile or two of filters, these once for each
/// tile of pixels (from cache), the output once.
///
/// # Safety
/// `reformatted` and `input_descales` are what the reformatting kernels of the same config wrote, and not looked at where the input is not reformatted:
/// then `x` starts on 16 bytes and has the `k_vectors.all_k_vectors(&conv)` K-vectors that the geometry's `k_vectors` say. Where halo tiles are of lines, `boxes` is the map of the
/// geometry's [`boxes()`] of `reformatted`, or of `x`; else it is not looked at. Where values are converted in the producer, a first launch writes `recorded`
/// elements of `largest` for each tile of pixels of all samples, as many as the config's `recorded_of_tile`; in a second one, behind `implicit_gemm_rescale`, which wrote `input_descales`, `recorded` is 0, as it is elsewhere. `operands` and
/// `filter_descales` are what the filters kernel wrote; `bias` is null or has an element for each output channel; `y` has an
/// element for each output; `moments` has the config's `moment_elements()`. `x`, `weight`, `gain` and `shift` are else as for
/// `implicit_gemm`. `y` and `moments` are apart from all else and start on 16 bytes.
#[kernel(
    instances(S: [halves: Halves], F: [f16x2_f32: F16x2, bf16x3_f32: Bf16x3]),
    instances(S: [halves: Halves, whole: Whole], F: [scaled_f16_f32: ScaledF16, f16: F16, bf16: Bf16]),
    max_threads = BLOCK_THREADS,
    min_blocks = 1
)]
pub unsafe fn implicit_gemm_sm90<
    S: Share,
    F: WarpSpecializedFormat<64> + WarpSpecializedFormat<128>,
>(
    reformatted: *const u32,
    input_descales: *const f32,
    operands: *const u32,
    filter_descales: *const f32,
    bias: *const F::Stored,
    x: *const F::Stored,
    weight: *const F::Stored,
    gain: *const f32,
    shift: *const f32,
    y: *mut F::Stored,
    moments: *mut f32,
    largest: *mut u32,
    boxes: &TensorMap,
    g: &GemmGeometry,
    mainloop: MainloopConfig,
    epilogue: Epilogue,
    recorded: u32,
) {
    let format = F::OPERANDS;
    let scales = Scales {
        recorded,
        descales: Global::new(input_descales, g.conv.n as usize),
        largest,
    };
    if rounds::<F>(g) && scales.are_optimistic(g.conv.n as u32) {
        return;
    }
    let work = Work::of(g, mainloop.tiles, mainloop.split_k);
    let memory = Memory::of(g, mainloop, format);
    memory.prepare::<F>(g);
    let channels = g.conv.output_channels() as usize;
    let output = Output::<F> {
        y,
        moments,
        scales,
        without_norm: WithoutNorm {
            x,
            weight,
            gain,
            shift,
            epilogue,
        },
    };
    let filter_descales = Global::new(filter_descales, channels);
    results::load_channels::<F>(&memory, &work, bias, filter_descales, &output.without_norm);
    if mainloop.split_k > 1 {
        cluster::sync();
    } else {
        thread::sync_threads();
    }

    let warp = opaque::uniform(thread::thread_idx_x() / WARP_THREADS);
    if warp >= WARPS {
        if may_convert_in_producer::<F>() {
            registers::decrease::<CONVERTING_PRODUCER_REGISTERS>();
        } else {
            registers::decrease::<PRODUCER_REGISTERS>();
        }
        let is_first = thread::thread_idx_x().is_multiple_of(WARP_THREADS);
        if warp > WARPS && rounds::<F>(g) {
            let warp = warp - WARPS - 1;
            // The emulator's program has room for one of them.
            if S::SUMS == HALF_SUMS && cfg!(target_arch = "nvptx64") {
                staged_f32::round::<F, FOURS_OF_HALVES>(&work, &memory, boxes, &scales, warp);
            } else {
                staged_f32::round::<F, FOURS>(&work, &memory, boxes, &scales, warp);
            }
        } else if warp > WARPS && has_nhwc_tile::<F>(g, WARP_SPECIALIZED) {
            if is_first {
                nhwc_tile::load_halos(&work, &memory, boxes, warp - WARPS - 1);
            }
        } else if warp > WARPS {
            let planes = g.conv.n as usize * (g.conv.groups * g.planes * format.parts) as usize;
            let reformatted_words = planes * g.plane_k_vectors() as usize * K_VECTOR_WORDS as usize;
            let reformatted = Global::new(reformatted, reformatted_words);
            produce::load_halos(&work, &memory, reformatted, warp - WARPS - 1);
        } else if is_first {
            let words = g.filter_words(WARP_SPECIALIZED, format.step_parts()) as usize;
            let operands = Global::new(operands, g.conv.groups as usize * words);
            let operands = operands.slice(work.group as usize * words, words);
            produce::load_filters(&work, &memory, operands);
        }
        return;
    }
    if may_convert_in_producer::<F>() {
        registers::increase::<CONSUMER_REGISTERS_BESIDE_CONVERSION>();
    } else {
        registers::increase::<CONSUMER_REGISTERS>();
    }
    if S::SUMS > HALF_SUMS {
        consume::consume::<F, 128>(&work, &memory, &output, warp);
    } else {
        consume::consume::<F, 64>(&work, &memory, &output, warp);
    }
}
