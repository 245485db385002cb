//! The warp-specialized mainloop for Hopper (sm_90a): warpgroup MMA with both operands in shared memory.
//!
//! # Idea
//! `wgmma` with 64 filters and 128 or 256 pixels keeps the tensor cores busiest, but leaves a thread
//! registers for accumulators only. Filters therefore come through shared memory, as the halo tile does.
//! Eight consumer warps (two warpgroups) multiply (`consume`) and run the epilogue of their tiles (`results`,
//! and the store of each kernel). Four producer warps load operands into two pipelines (`parts::pipeline`).
//! One warp loads filters, prepared or in place (`produce`). Three warps load halo tiles, in one of four
//! ways:
//!
//! | halo tile | loaded by | file |
//! |---|---|---|
//! | planes of K-vectors | `cp.async`, K-vector by K-vector | `produce` |
//! | NHWC | tensor maps (TMA), box by box | `nhwc_tile` |
//! | NHWC, from channels-last f32 | TMA into staged tiles, converted to f16 by the producer | `staged_f32` |
//! | planes, from dense f32 | as above | `dense_f32` |
//!
//! ```text
//! filter producer, one warp:    for each tile of pixels, for each MMA batch of three MMA steps:
//!                                   wait until the filter stage is empty; copy the filters
//! halo producers, three warps:  for each tile of pixels, for each K block of the block's split:
//!                                   wait until the halo stage is empty; load the halo tile
//! consumers, eight warps:       for each tile of pixels:
//!                                   for each K block:    wait until its halo stage is full
//!                                       for each MMA batch: wait until its filter stage is full; start wgmma
//!                                           wait for the MMA batch before; release its filter stage and,
//!                                           after the last MMA batch of a K block, its halo stage
//!                                       (resident filters are waited for in the first round alone)
//!                                   epilogue: value = accumulator * descale + bias; moments; y = value
//! ```
//! `launch_config::implicit_gemm::sm90` has the tiles, the stages and the layout of shared memory.
//!
//! # Accumulators
//! Tensor cores accumulate 16-bit operands and scaled f16 by themselves. An MMA batch of the f16x2 split
//! starts from zero and is promoted: ordinary additions, which round, add it to the total while the other
//! warpgroup multiplies (`warpgroup` says why). The promoted total takes the registers of a second tile, so a
//! block has one tile of f16x2 split values. In the bf16x3 split, accumulators are promoted every few MMA
//! batches.
//!
//! # Schedules
//! *Cooperative*: both warpgroups work on the same pixels, each on a tile of filters or on half of the
//! pixels. *Ping-pong* (`Schedule::PING_PONG`): a block has one tile of filters, and each warpgroup has every
//! second tile of pixels, so one runs its epilogue while the other multiplies. Both pipelines belong to one
//! warpgroup for a whole tile, then to the other. A transaction barrier tells only the parity of its phase,
//! so no warp may wait for a stage that is filled twice in between. A warpgroup therefore starts when all
//! warps of the other one have waited for all stages of their tile, which they signal at a barrier when they
//! start the last MMA batch.
//!
//! # Split-K
//! With `mainloop.split_k` above 1 the blocks of a cluster have the same tiles and a share of the K blocks
//! each. After the last MMA batch of a tile they reduce their accumulators through distributed shared memory
//! (`cluster_reduce`), and each warp's results are finished in one of the blocks.
//!
//! # Barriers
//! One barrier of the block, or of the cluster, follows the initialisation of tables and barriers. Each
//! pipeline stage has two transaction barriers. `full`: the producers of the stage arrive. `empty`: each
//! consumer warp of the stage arrives when its MMA of the stage is over. The ping-pong schedule has one more
//! barrier for each warpgroup. `cluster_reduce` has its own.
//!
//! # Invariants
//! A warp's results have shared memory of their own. Stages are filled in the order in which they are read.

#[cfg(not(target_arch = "nvptx64"))]
mod boxes;
mod channels;
mod cluster_reduce;
mod consume;
mod dense_f32;
mod format;
mod listed;
mod memory;
mod nhwc_tile;
mod output;
mod pixel_rows;
mod prepare;
mod produce;
mod reduced;
mod reduced_fixup;
mod reduced_pixels;
mod results;
mod rows;
mod scaled;
mod scales;
mod share;
mod shared_rows;
mod shuffled;
mod staged_f32;
mod tile_epilogue;
pub(super) mod warpgroup;
mod without_norm;
mod work;

#[cfg(not(target_arch = "nvptx64"))]
pub use boxes::{boxes, filter_boxes};
pub use without_norm::*;

use core::marker::PhantomData;

use cuda_std::global::Global;
use cuda_std::tensor_map::TensorMap;
use cuda_std::{cluster, kernel, registers, thread};
use launch_config::WARP_THREADS;
use launch_config::implicit_gemm::sm90::{BLOCK_THREADS, MainloopConfig, WARPS};
use launch_config::implicit_gemm::{ImplicitGemmGeometry, K_VECTOR_WORDS, WARP_SPECIALIZED};

use super::fixup::WithoutNorm;
use super::format::{Bf16, DenseF32, F16, F16x2, Format, ScaledF16};
use super::tables::{converts, has_nhwc_tile, may_convert_in_producer};
use crate::parts::pipeline::{Pipeline, PipelineState};
use format::WarpSpecializedFormat;
use memory::Memory;
use output::Output;
use produce::FilterSource;
use results::TileEpilogue;
use scales::Scales;
use share::{Halves, Share, Whole};
use staged_f32::{HALVES_VECTORS, VECTORS};
use tile_epilogue::WithMoments;
use work::{OutputChannels, WARPGROUP_WARPS, Work, rank, share_of, warp_of_block, which_output};

/// Registers of a consumer thread and of a producer thread (`setmaxnreg`). All threads together have the
/// registers of a new block.
const CONSUMER_REGISTERS: u32 = 224;
const PRODUCER_REGISTERS: u32 = 56;

/// The same for kernels whose producers may convert f32.
const CONSUMER_REGISTERS_BESIDE_CONVERSION: u32 = 216;
const CONVERTING_PRODUCER_REGISTERS: u32 = 72;

/// A block, or a cluster, computes tiles of filters times pixels and the moments of each filter over each
/// half of those pixels, and writes both.
///
/// *Launch*: the config's `shape(..)`, with its `mainloop_config`. *Mapping*, *barriers*: at the head of the
/// module. *Traffic*: each K-vector of the input about once for each one or two tiles of filters, filters
/// once for each tile of pixels (from the level-2 cache), the output once.
///
/// # Safety
/// If the input is reformatted, the reformatting kernels of the same config wrote `reformatted` and
/// `input_descales`. If it is read in place, `reformatted` is not read. If halo tiles are NHWC, `boxes` is
/// the tensor map of the geometry's [`boxes()`] over `reformatted` or over the input; otherwise it is not
/// read. If the producer converts f32, a first launch writes `recorded` elements of `largest` for each tile
/// of pixels of all samples, as many as the config's `recorded_of_tile`. The second launch follows
/// `implicit_gemm_rescale`, which wrote `input_descales`; its `recorded` is 0, as in all other launches. The
/// filters kernel wrote `operands` and `filter_descales`. If the geometry's filters are read in place, these
/// two are not read, and `filter_boxes` is the tensor map of its [`filter_boxes()`] over the filters. `bias`
/// is null or has an element for each output channel, `y` one for each output, and `moments` the config's
/// `moment_elements()`. `y` and `moments` overlap nothing else and are 16-byte aligned.
#[kernel(
    instances(S: [halves: Halves], F: [f16x2_f32: F16x2]),
    instances(
        S: [halves: Halves, whole: Whole],
        F: [scaled_f16_f32: ScaledF16, dense_f32: DenseF32, f16: F16, bf16: Bf16]
    ),
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
    y: *mut F::Stored,
    moments: *mut f32,
    largest: *mut u32,
    boxes: &TensorMap,
    filter_boxes: &TensorMap,
    g: &ImplicitGemmGeometry,
    mainloop: MainloopConfig,
    recorded: u32,
) {
    let input = Input {
        reformatted,
        operands,
        filter_descales,
        bias,
        boxes,
        filter_boxes,
    };
    let output = Output::<F, WithMoments> {
        y,
        moments,
        scales: Scales::of(g, recorded, input_descales, largest),
        without_norm: WithoutNorm::UNUSED,
        reduced: None,
        tile_epilogue: PhantomData,
    };
    compute::<S, F, WithMoments>(&input, &output, g, mainloop);
}

/// The inputs of a block other than the original tensors.
struct Input<'a, F: Format> {
    reformatted: *const u32,
    operands: *const u32,
    filter_descales: *const f32,
    bias: *const F::Stored,
    boxes: &'a TensorMap,
    filter_boxes: &'a TensorMap,
}

/// The body of the kernels.
#[inline(always)]
unsafe fn compute<
    S: Share,
    F: WarpSpecializedFormat<64> + WarpSpecializedFormat<128>,
    E: TileEpilogue,
>(
    input: &Input<'_, F>,
    output: &Output<F, E>,
    g: &ImplicitGemmGeometry,
    mainloop: MainloopConfig,
) {
    let (format, scales) = (F::OPERANDS, &output.scales);
    let mut mainloop = mainloop;
    if F::READS_DENSE {
        mainloop.split_k = 1;
    }
    if converts::<F>(g) && scales.are_optimistic(g.conv.n as u32) {
        return;
    }
    let work = Work::of(g, mainloop.tiles, mainloop.split_k);
    let memory = Memory::of(g, mainloop, format);
    memory.prepare::<F>(&work);
    let memory = memory.again::<F>(g);
    let channels = g.conv.output_channels() as usize;
    let filter_descales = Global::new(input.filter_descales, channels);
    channels::load_channels(&memory, &work, input.bias, filter_descales, output);
    if mainloop.split_k > 1 {
        cluster::sync();
    } else {
        thread::sync_threads();
    }

    if warp_of_block() >= WARPS {
        if may_convert_in_producer::<F>() {
            registers::decrease::<CONVERTING_PRODUCER_REGISTERS>();
        } else {
            registers::decrease::<PRODUCER_REGISTERS>();
        }
        let (warp, work) = (warp_of_block(), memory.work(g));
        let is_first = thread::thread_idx_x().is_multiple_of(WARP_THREADS);
        if warp > WARPS && converts::<F>(g) {
            let warp = warp - WARPS - 1;
            // The emulator's program has room for one instance.
            if S::IS_HALF && cfg!(target_arch = "nvptx64") {
                staged_f32::convert::<F, HALVES_VECTORS>(&work, &memory, input.boxes, scales, warp);
            } else {
                staged_f32::convert::<F, VECTORS>(&work, &memory, input.boxes, scales, warp);
            }
        } else if warp > WARPS && has_nhwc_tile::<F>(g, WARP_SPECIALIZED) {
            if is_first {
                nhwc_tile::load_halos(&work, &memory, input.boxes, warp - WARPS - 1);
            }
        } else if warp > WARPS {
            let planes = g.conv.n as usize * (g.conv.groups * g.planes * format.parts) as usize;
            let reformatted_words = planes * g.plane_k_vectors() as usize * K_VECTOR_WORDS as usize;
            let reformatted = Global::new(input.reformatted, reformatted_words);
            produce::load_halos(&work, &memory, reformatted, warp - WARPS - 1);
        } else if is_first {
            let words = match g.filters.is_in_place() {
                true => 0,
                false => g.filter_words(WARP_SPECIALIZED, format.step_parts()) as usize,
            };
            let operands = Global::new(input.operands, g.conv.groups as usize * words);
            let source = FilterSource {
                operands: operands.slice(work.group as usize * words, words),
                boxes: input.filter_boxes,
            };
            produce::load_filters(&work, &memory, &source);
        }
        return;
    }
    if may_convert_in_producer::<F>() {
        registers::increase::<CONSUMER_REGISTERS_BESIDE_CONVERSION>();
    } else {
        registers::increase::<CONSUMER_REGISTERS>();
    }
    S::consume::<F, E>(&memory.work(g), &memory, output);
}
