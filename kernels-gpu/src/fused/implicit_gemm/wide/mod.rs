//! The product of wide tiles (sm_90a): all operands in shared memory.
//!
//! # Idea
//! The widest instructions keep the tensor cores busiest, and leave a thread no registers but for sums. So the filters
//! come to shared memory too, once for 256 pixels. Two warpgroups do nothing but multiply (`consume`) and finish their tiles
//! (`results`, `rows`), each by itself, so that neither waits for the other but for operands. The warps of a third bring operands into two
//! rings of slots (`produce`): one brings filters by bulk copies, three bring patches of planes, cell by cell, in turn, or start copies of a patch
//! of lines (`lines`), or round such patches from f32 that they bring (`pieces`).
//!
//! ```text
//! one warp:      for each tile of pixels, for each chain of three steps:
//!                    wait for a free filter slot; copy the filters
//! three warps:   for each tile of pixels, for each stage of its share:
//!                    wait for a free patch slot; copy the patch, or boxes of it: each a third of many, or one all of few
//! eight warps:   for each tile of pixels:
//!                    for each stage: wait for its patch
//!                        for each chain: wait for its filters; start it
//!                            until the chain before is over; its filters' slot is free, and its patch's after the last of a stage
//!                    value = sums * descale + bias; moments; y = value
//! ```
//! Tiles, slots and shared memory: `op_spec::launch::implicit_gemm::wide`.
//!
//! # Sums
//! Those of 16-bit operands and of rounded f32 are added up by the tensor cores alone. A chain of split values starts from zero,
//! and its sums are added in the ordinary way, which rounds, while the other warpgroup's chain is multiplied (`warpgroup`
//! says why). These are the first product's registers, so a block has one tile of split values, never two.
//! In the format of parts chains go on as where values have one, and every few of them their sums are put aside likewise.
//!
//! # Alternation
//! Where a block has one tile of filters, its warpgroups may alternate (`rings.alternate`): each has every second tile of pixels. Both rings are then one
//! warpgroup's for a whole tile, and the other's for the next, so the tensor cores have one warpgroup's chains at a time while the other finishes its
//! tile. A barrier tells the parity of its phase alone, so nobody may wait for a slot that is to be filled twice until then: a warpgroup begins when all
//! warps of the other one have waited for all of their tile, which they say at a barrier as the last chain is started.
//!
//! # Clusters
//! Where sums are split (`rings.splits`), the blocks of a cluster have the same tiles and a share of the stages each; behind a tile's last
//! chain they add up what they have (`exchange`), and each warp's results are finished in one of the blocks.
//!
//! # Barriers
//! One of the block, or the cluster, when tables and barriers are there. From then on a slot has two transaction barriers: it is filled, for which
//! who fills it arrives; and it is free again, for which each of the eight warps, or of the four whose turn it is, arrives after its own products
//! with the slot are over. Where warpgroups alternate, there is one for each that says that it may begin. Where sums are split, `exchange` has its own.
//!
//! # Invariants
//! - A warp's results are in shared memory of its own.
//! - A slot is filled in the order in which it is read, whoever fills it.

#[cfg(not(target_arch = "nvptx64"))]
mod boxes;
mod consume;
mod exchange;
mod format;
mod lines;
mod memory;
mod pieces;
mod produce;
mod results;
mod rings;
mod rows;

#[cfg(not(target_arch = "nvptx64"))]
pub use boxes::boxes;

use cuda_std::global::Global;
use cuda_std::tensor_map::TensorMap;
use cuda_std::{cluster, kernel, opaque, registers, thread};
use op_spec::launch::WARP_THREADS;
use op_spec::launch::implicit_gemm::wide::{BLOCK_THREADS, WARP_FILTERS, WARPS, WideRings};
use op_spec::launch::implicit_gemm::{CELL_WORDS, Ending, GemmGeometry, WIDE};

use super::again::Alone;
use super::format::{Bf16, F16, Parts, Rounded, Split};
use super::tables::{has_lines, may_round, rounds};
use crate::parts::index::div_rem;
use format::WideFormat;
use memory::Memory;
use pieces::{FOURS, FOURS_OF_HALVES, Scales};
use results::{HALF_SUMS, Output};
use rings::{Ring, Turn};

/// Registers of a thread that multiplies, and of one beside it. Together they are no more than the block starts with.
const MULTIPLYING_REGISTERS: u32 = 224;
const FILLING_REGISTERS: u32 = 56;

/// The same where those beside it may have to round.
const MULTIPLYING_BESIDE_ROUNDING: u32 = 216;
const ROUNDING_REGISTERS: u32 = 72;

/// Filters of a tile that make the same one of two outputs.
const HALF_FILTERS: u32 = WIDE.filters() / 2;
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

/// What a block computes: its filters, and one tile of pixels after another, of the sums of which it has some stages.
#[derive(Clone, Copy)]
struct Work<'a> {
    g: &'a GemmGeometry,
    group: u32,
    /// The first of its tiles of filters, in the group.
    filter_tile: u32,
    first_item: u32,
    item_step: u32,
    /// Blocks that split the same sums.
    splits: u32,
}

impl<'a> Work<'a> {
    /// That of the block; blocks have `tiles` tiles, and `splits` of them split sums.
    #[inline(always)]
    unsafe fn of(g: &'a GemmGeometry, tiles: u32, splits: u32) -> Self {
        let sets = g.wide_sets(tiles);
        let shift = splits.trailing_zeros();
        let (first_item, set) = div_rem(thread::block_idx_x() >> shift, sets);
        let (item_step, _) = div_rem(thread::grid_dim_x() >> shift, sets);
        let (group, set) = div_rem(set, g.wide_sets_of_group(tiles));
        Self {
            g,
            group,
            filter_tile: set * tiles,
            first_item,
            item_step,
            splits,
        }
    }

    /// What a warp's filters make, the first of which is `filter` among those of the block.
    #[inline(always)]
    fn made_by(&self, filter: u32) -> Made {
        let of_all = self.g.conv.group_k;
        let output = which_output(self.g, filter);
        let of_group = self.filter_tile * WIDE.filters() + filter - output * HALF_FILTERS;
        Made {
            channel: self.group * of_all + of_group,
            filters: of_all.saturating_sub(of_group).min(WARP_FILTERS),
        }
    }

    /// The block's first stage, and the one behind its last; computed where it is asked for.
    #[inline(always)]
    fn stages(&self) -> [u32; 2] {
        let splits = opaque::to_compiler(self.splits);
        self.g.wide_stages(rank(splits), splits)
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
        (warpgroup * (tiles - 1) * WIDE.filters() + of_tile, 0)
    }
}

/// The block's number among the `splits` that split the same sums.
#[inline(always)]
fn rank(splits: u32) -> u32 {
    thread::block_idx_x() & (splits - 1)
}

/// A block, or a cluster, computes tiles of filters times pixels, the moments of each filter over each half of those pixels, and
/// writes them.
///
/// *Launch*: the config's `shape(..)`, with its `wide_rings`. *Mapping*, *barriers*: at the head of the module.
/// *Traffic*: each cell of the packed input about once for each tile or two of filters, these once for each
/// tile of pixels (from cache), the output once.
///
/// # Safety
/// `packed` and `input_descales` are what the packing kernels of the same config wrote, and not looked at where the input is not packed:
/// then `x` starts on 16 bytes and has the `cells.all_cells(&conv)` cells that the geometry's `cells` say. Where patches are of lines, `boxes` is the map of the
/// geometry's [`boxes()`] of `packed`, or of `x`; else it is not looked at. Where values are rounded on their way, a first launch writes `noted`
/// elements of `largest` for each tile of pixels of all samples, as many as the config's `noted_of_tile`; in a second one, behind `implicit_gemm_repack`, which wrote `input_descales`, `noted` is 0, as it is elsewhere. `operands` and
/// `filter_descales` are what the filters kernel wrote; `bias` is null or has an element for each output channel; `y` has an
/// element for each output; `moments` has the config's `moment_elements()`. `x`, `weight`, `gain` and `shift` are else as for
/// `implicit_gemm`. `y` and `moments` are apart from all else and start on 16 bytes.
#[kernel(
    instances(S: [halves: Halves], F: [split_f32: Split, parts_f32: Parts]),
    instances(S: [halves: Halves, whole: Whole], F: [rounded_f32: Rounded, f16: F16, bf16: Bf16]),
    max_threads = BLOCK_THREADS,
    min_blocks = 1
)]
pub unsafe fn implicit_gemm_wide<S: Share, F: WideFormat<64> + WideFormat<128>>(
    packed: *const u32,
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
    rings: WideRings,
    ending: Ending,
    noted: u32,
) {
    let format = F::OPERANDS;
    let scales = Scales {
        noted,
        descales: Global::new(input_descales, g.conv.n as usize),
        largest,
    };
    if rounds::<F>(g) && scales.are_usual(g.conv.n as u32) {
        return;
    }
    let work = Work::of(g, rings.tiles, rings.splits);
    let memory = Memory::of(g, rings, format);
    memory.prepare::<F>(g);
    let channels = g.conv.output_channels() as usize;
    let output = Output::<F> {
        y,
        moments,
        scales,
        alone: Alone {
            x,
            weight,
            gain,
            shift,
            ending,
        },
    };
    let filter_descales = Global::new(filter_descales, channels);
    results::load_channels::<F>(&memory, &work, bias, filter_descales, &output.alone);
    if rings.splits > 1 {
        cluster::sync();
    } else {
        thread::sync_threads();
    }

    let warp = opaque::uniform(thread::thread_idx_x() / WARP_THREADS);
    if warp >= WARPS {
        if may_round::<F>() {
            registers::decrease::<ROUNDING_REGISTERS>();
        } else {
            registers::decrease::<FILLING_REGISTERS>();
        }
        let is_first = thread::thread_idx_x().is_multiple_of(WARP_THREADS);
        if warp > WARPS && rounds::<F>(g) {
            let warp = warp - WARPS - 1;
            // The emulator's program has room for one of them.
            if S::SUMS == HALF_SUMS && cfg!(target_arch = "nvptx64") {
                pieces::round::<F, FOURS_OF_HALVES>(&work, &memory, boxes, &scales, warp);
            } else {
                pieces::round::<F, FOURS>(&work, &memory, boxes, &scales, warp);
            }
        } else if warp > WARPS && has_lines::<F>(g, WIDE) {
            if is_first {
                lines::bring_patches(&work, &memory, boxes, warp - WARPS - 1);
            }
        } else if warp > WARPS {
            let planes = g.conv.n as usize * (g.conv.groups * g.planes * format.parts) as usize;
            let packed_words = planes * g.plane_cells() as usize * CELL_WORDS as usize;
            let packed = Global::new(packed, packed_words);
            produce::bring_patches(&work, &memory, packed, warp - WARPS - 1);
        } else if is_first {
            let words = g.filter_words(WIDE, format.step_parts()) as usize;
            let operands = Global::new(operands, g.conv.groups as usize * words);
            let operands = operands.slice(work.group as usize * words, words);
            produce::bring_filters(&work, &memory, operands);
        }
        return;
    }
    if may_round::<F>() {
        registers::increase::<MULTIPLYING_BESIDE_ROUNDING>();
    } else {
        registers::increase::<MULTIPLYING_REGISTERS>();
    }
    if S::SUMS > HALF_SUMS {
        consume::consume::<F, 128>(&work, &memory, &output, warp);
    } else {
        consume::consume::<F, 64>(&work, &memory, &output, warp);
    }
}
