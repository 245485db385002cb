//! The producer that converts f32: staged f32 tiles, loaded by TMA and converted to f16 into the halo tile.
//!
//! The three producer warps of halo tiles take staged tiles in turn. Each warp starts copies into staging
//! memory of its own, and converts from there into the halo tile. `launch_config::implicit_gemm` says how
//! boxes divide into staged tiles.
//!
//! # Optimistic scale
//! A first launch uses the optimistic scale for all samples and records the largest magnitude that each warp
//! converts of each tile. `implicit_gemm_rescale` finds each sample's scale from those. The second launch
//! uses them; it returns at once where all samples have the optimistic scale.
//!
//! # Bits
//! A value is scaled and converted as by the reformat. Values that no window sees do not count for the scale
//! here, but do in a reformatted sample, so the two may differ in what f16 cannot hold of the smallest
//! values.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::mbarrier::Barrier;
use cuda_std::shared::Shared;
use cuda_std::tensor_map::{TensorMap, copy_box};
use cuda_std::{async_proxy, math, opaque, shared, thread, warp};
use launch_config::WARP_THREADS;
use launch_config::implicit_gemm::sm90::HALO_WARPS;
use launch_config::implicit_gemm::{GemmGeometry, K_VECTOR_WORDS, STAGED_TILE_WORDS, STAGED_WIDTH};

use super::super::format::Format;
use super::super::place::Place;
use super::super::reformat::{USUAL_DESCALE, magnitude};
use super::nhwc_tile::{coordinates, start_of};
use super::{Memory, PipelineState, Work};
use crate::parts::index::div_rem;
use crate::parts::prescale::reciprocal;
use crate::parts::unroll::unroll;

/// Fours of values that a lane has under way at a time, where a staged tile has so many for all lanes: an
/// even number, for warpgroups that have half of a tile's pixels each; beside others there are registers for
/// fewer.
pub(super) const FOURS_OF_HALVES: usize = 8;
pub(super) const FOURS: usize = 6;

/// The same of what is left.
const PARTIAL: usize = 4;

/// Words of four f32, and of what they are rounded to.
const FOUR_WORDS: u32 = 4;
const ROUNDED_WORDS: u32 = FOUR_WORDS / STAGED_WIDTH;

/// Words of the halo tile from a lane's store to its next one.
const STORE_WORDS: u32 = WARP_THREADS * ROUNDED_WORDS;
const _: () =
    assert!(4 * STORE_WORDS == 256 && (FOURS | FOURS_OF_HALVES | PARTIAL).is_multiple_of(2));

/// What a launch that rounds knows of scales.
#[derive(Clone, Copy)]
pub(super) struct Scales {
    /// Magnitudes that the first launch, which takes the usual one, notes of each tile; 0 in the second one.
    pub(super) recorded: u32,
    /// What undoes the scale of each sample, in the second one.
    pub(super) descales: Global<f32>,
    /// Where the first launch notes magnitudes.
    pub(super) largest: *mut u32,
}

impl Scales {
    /// What undoes the scale of a sample.
    #[inline(always)]
    pub(super) unsafe fn descale(&self, sample: u32) -> f32 {
        // Asked anew each time, or the answer would take a register.
        if opaque::to_compiler(self.recorded) == 0 {
            self.descales.load_readonly(sample as usize)
        } else {
            USUAL_DESCALE
        }
    }

    /// Whether there is nothing to do in the second launch, as all samples have the usual scale. All lanes of
    /// a warp call it, and get the same.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    pub(super) unsafe fn are_optimistic(&self, samples: u32) -> bool {
        if self.recorded != 0 {
            return false;
        }
        let mut others = false;
        let mut sample = thread::thread_idx_x() % WARP_THREADS;
        while sample < samples {
            others |= self.descales.load_readonly(sample as usize) != USUAL_DESCALE;
            sample += WARP_THREADS;
        }
        !warp::warp_vote_any(warp::ALL_LANES, others)
    }
}

impl Memory {
    /// Makes the barriers of staged tiles.
    #[inline(always)]
    pub(super) unsafe fn init_staged(&self) {
        let mut stage = 0;
        while stage < HALO_WARPS * self.mainloop.staged {
            opaque::not_unrolled();
            self.has_come(stage).init(1);
            stage = opaque::to_compiler(stage + 1);
        }
    }

    /// The barrier of a staged tile, which has come.
    #[inline(always)]
    fn has_come(&self, stage: u32) -> Barrier {
        Barrier::at(self.barriers, self.mainloop.staged_barrier + stage)
    }

    /// A staged tile.
    #[inline(always)]
    unsafe fn staged(&self, stage: u32) -> Shared<f32> {
        let bytes = self.mainloop.staged_bytes;
        shared::dynamic(self.mainloop.staged_at + stage * bytes, bytes / 4)
    }
}

/// Which of the staged tiles of all of the block's work is a warp's turn. They come one after the other, K
/// block by K block; each warp has one in every K block.
#[derive(Clone, Copy)]
struct StagedTileState {
    work_tile: u32,
    k_block: u32,
    /// Its number in the K block.
    number: u32,
}

impl StagedTileState {
    /// The first of warp `warp`.
    #[inline(always)]
    unsafe fn first(work: &Work<'_>, warp: u32) -> Self {
        let [k_block, _] = work.k_blocks();
        Self {
            work_tile: work.first_work_tile,
            k_block,
            number: warp,
        }
    }

    /// Whether there is one.
    #[inline(always)]
    fn is_there(&self, work: &Work<'_>) -> bool {
        self.work_tile < work.g.work_tiles() as u32
    }

    /// Goes on to the warp's next; whether it is of the next K block.
    #[inline(always)]
    unsafe fn advance(&mut self, work: &Work<'_>) -> bool {
        self.number += HALO_WARPS;
        let is_of_next = self.number >= work.g.staged_tiles.of_k_block;
        if is_of_next {
            self.number -= work.g.staged_tiles.of_k_block;
            let [first_k_block, end_k_block] = work.k_blocks();
            self.k_block += 1;
            if self.k_block == end_k_block {
                self.k_block = first_k_block;
                self.work_tile += work.work_tile_step;
            }
        }
        is_of_next
    }
}

/// What a warp loads to places of its own, one staged tile after the other.
struct Copies<'a> {
    work: &'a Work<'a>,
    next: StagedTileState,
    /// Where the copies of its K block start.
    start: [i32; 5],
}

impl<'a> Copies<'a> {
    /// From the first staged tile of warp `warp` on.
    #[inline(always)]
    unsafe fn from_first(work: &'a Work<'a>, warp: u32) -> Self {
        let next = StagedTileState::first(work, warp);
        let place = Place::of(next.work_tile, work.g);
        let start = start_of(work, &place, next.k_block, STAGED_WIDTH);
        Self { work, next, start }
    }

    /// Starts the next copy, if there is one, to place `stage` of those of all warps.
    #[inline(always)]
    unsafe fn start(&mut self, memory: &Memory, map: &TensorMap, stage: u32) {
        let work = self.work;
        if !self.next.is_there(work) {
            return;
        }
        if thread::thread_idx_x().is_multiple_of(WARP_THREADS) {
            let from = memory
                .sources
                .load_vec(STAGED_TILE_WORDS * self.next.number);
            let has_come = memory.has_come(stage);
            has_come.arrive_expect(work.g.staged_tiles.bytes);
            let to = memory.staged(stage).addr(0);
            copy_box(to, map, coordinates(self.start, from), has_come);
        }
        if self.next.advance(work) {
            let place = Place::of(self.next.work_tile, work.g);
            self.start = start_of(work, &place, self.next.k_block, STAGED_WIDTH);
        }
    }
}

/// Brings and rounds every staged tile of the block's work that is the turn of warp `warp` of those that load
/// halo tiles, into its halo tile as soon as that is free.
///
/// # Safety
/// All lanes of each warp that loads halo tiles call it, after the barrier behind `prepare`. The geometry has
/// staged tiles, and `map` loads them.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
pub(super) unsafe fn round<F: Format, const WHOLE: usize>(
    work: &Work<'_>,
    memory: &Memory,
    map: &TensorMap,
    scales: &Scales,
    warp: u32,
) {
    let g = work.g;
    let pipeline = memory.halos();
    let mut copies = Copies::from_first(work, warp);
    let staged = memory.mainloop.staged;
    let first_stage = warp * staged;
    let mut stage = first_stage;
    while stage < first_stage + staged {
        opaque::not_unrolled();
        copies.start(memory, map, stage);
        stage = opaque::to_compiler(stage + 1);
    }
    let mut state = StagedTileState::first(work, warp);
    let mut halo = PipelineState::FIRST;
    let (mut stage, mut parity) = (first_stage, 0);
    while state.is_there(work) {
        let work_tile = state.work_tile;
        let (sample, _) = div_rem(work_tile, g.pixel_tiles());
        let scale = reciprocal(scales.descale(sample));
        let mut largest = 0;
        while state.work_tile == work_tile {
            opaque::not_unrolled();
            let [to, words] = memory
                .sources
                .load_vec(STAGED_TILE_WORDS * state.number + 4);
            let staged_tile = StagedTile {
                values: memory.staged(stage),
                to: halo.stage * (g.k_block_bytes(1) / 4) + to,
                words,
            };
            // A new barrier's phase of parity 1 is over, as it were: its pipeline stage is free.
            pipeline.empty(halo.stage).wait(halo.parity ^ 1);
            memory.has_come(stage).wait(parity);
            largest = largest.max(staged_tile.round::<F, WHOLE>(g, memory, scale));
            async_proxy::fence_shared();
            warp::sync_warp(warp::ALL_LANES);
            if thread::thread_idx_x().is_multiple_of(WARP_THREADS) {
                pipeline.full(halo.stage).arrive();
            }
            copies.start(memory, map, stage);
            stage += 1;
            if stage == first_stage + staged {
                stage = first_stage;
                parity ^= 1;
            }
            if state.advance(work) {
                halo = halo.next(&pipeline);
            }
        }
        if scales.recorded != 0 {
            note(work, scales, [work_tile, warp], largest);
        }
    }
}

/// Notes the largest magnitude that a warp saw of a tile.
#[inline(always)]
unsafe fn note(work: &Work<'_>, scales: &Scales, [work_tile, warp]: [u32; 2], largest: u32) {
    let largest = warp::warp_reduce_max(warp::ALL_LANES, largest);
    let recorded = scales.recorded;
    let all = work.g.work_tiles() as u32 * recorded;
    // Blocks of the same tile are neighbours.
    let block = thread::block_idx_x() - work.first_work_tile * (recorded / HALO_WARPS);
    if thread::thread_idx_x().is_multiple_of(WARP_THREADS) {
        let at = work_tile * recorded + block * HALO_WARPS + warp;
        GlobalMut::new(scales.largest, all as usize).store(at as usize, largest);
    }
}

/// Some of a staged tile's fours of values.
struct Round {
    staged: Shared<f32>,
    halos: Shared<u32>,
    /// The lane's next four, of those of the staged tile.
    four: u32,
    fours: u32,
    /// The word of the halo tile that they are rounded to, and how that of every second one differs.
    to: u32,
    exchanged: u32,
    scale: f32,
    largest: f32,
}

impl Round {
    /// Rounds the lane's next `N` fours, all of which are there if `are_whole`.
    #[inline(always)]
    unsafe fn some<F: Format, const N: usize>(&mut self, are_whole: bool) {
        let there = |i: usize| are_whole || self.four + i as u32 * WARP_THREADS < self.fours;
        let mut values = [[0.0f32; FOUR_WORDS as usize]; N];
        unroll!(8, |i| {
            if i < N && there(i) {
                let four = self.four + i as u32 * WARP_THREADS;
                values[i % N] = self.staged.load_vec(four * FOUR_WORDS);
            }
        });
        let mut largest = self.largest;
        unroll!(8, |i| {
            if i < N {
                let [a, b, c, d] = values[i % N];
                let [a_b, c_d] = [
                    F::pack(a * self.scale, b * self.scale),
                    F::pack(c * self.scale, d * self.scale),
                ];
                // Or all of it would be computed behind a branch, one four after another.
                let rounded = if are_whole {
                    [a_b, c_d]
                } else {
                    [a_b, c_d].map(opaque::to_compiler)
                };
                // NaN is left out.
                let of_four = (math::abs(a).max(math::abs(b))).max(math::abs(c).max(math::abs(d)));
                largest = largest.max(of_four);
                if there(i) {
                    let to = self.to + i as u32 * STORE_WORDS;
                    let exchanged = if i % 2 == 0 { 0 } else { self.exchanged };
                    self.halos.store_vec(to ^ exchanged, rounded);
                }
            }
        });
        self.largest = largest;
        self.to += N as u32 * STORE_WORDS;
        self.four = opaque::to_compiler(self.four + N as u32 * WARP_THREADS);
    }
}

/// A staged tile: `words` words of the halo tile from word `to` on, and what is staged for it.
struct StagedTile {
    values: Shared<f32>,
    to: u32,
    words: u32,
}

impl StagedTile {
    /// Rounds it. The largest magnitude that the lane saw, as bits.
    #[inline(always)]
    unsafe fn round<F: Format, const WHOLE: usize>(
        &self,
        g: &GemmGeometry,
        memory: &Memory,
        scale: f32,
    ) -> u32 {
        let &Self {
            values: staged,
            to,
            words,
        } = self;
        let fours = words / ROUNDED_WORDS;
        let lane = thread::thread_idx_x() % WARP_THREADS;
        // Pieces of 16 bytes are exchanged within their line by their address, as tensor maps do.
        let start = memory.halos.addr(0).0 / 4;
        let exchanged = ((1 << g.span_shift()) - 1) * K_VECTOR_WORDS;
        let first = to + lane * ROUNDED_WORDS;
        let mut round = Round {
            staged,
            halos: memory.halos,
            four: lane,
            fours,
            to: first ^ (((start + first) / 8) & exchanged),
            // Every second store of a lane is exchanged unlike its first.
            exchanged: exchanged & (STORE_WORDS / 8),
            scale,
            largest: 0.0,
        };
        while round.four - lane + WHOLE as u32 * WARP_THREADS <= fours {
            opaque::not_unrolled();
            round.some::<F, WHOLE>(true);
        }
        while round.four - lane < fours {
            opaque::not_unrolled();
            round.some::<F, PARTIAL>(false);
        }
        let largest = round.largest;
        let bits = largest.to_bits();
        if magnitude(largest) == bits {
            return bits;
        }
        // There was an infinity; the largest that is none.
        let mut bits = 0;
        let mut word = lane;
        while word < fours * FOUR_WORDS {
            opaque::not_unrolled();
            bits = bits.max(magnitude(staged.load(word)));
            word = opaque::to_compiler(word + WARP_THREADS);
        }
        bits
    }
}
