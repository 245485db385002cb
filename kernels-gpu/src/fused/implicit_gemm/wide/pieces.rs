//! Patches of f32 that is rounded on its way, piece by piece.
//!
//! The three warps that bring patches take pieces in turn: each starts copies to places of its own, and rounds from there into the patch. How boxes are divided: `op_spec::launch::implicit_gemm::pieces`.
//!
//! # Scales
//! Of the kernel's two launches the first one takes the usual scale for all samples, and notes the largest magnitude of what each warp rounds of each tile. `implicit_gemm_repack` finds
//! each sample's scale from those, and the second launch has them; where all are the usual one, it returns at once.
//!
//! # Bits
//! A value is scaled and rounded as where it is packed. What no window sees is not among the magnitudes: it may change the scale of a packed sample, and so what f16 cannot
//! hold of the smallest values, but not of this one.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::mbarrier::Barrier;
use cuda_std::shared::Shared;
use cuda_std::tensor_map::{TensorMap, copy_box};
use cuda_std::{async_proxy, math, opaque, shared, thread, warp};
use op_spec::launch::WARP_THREADS;
use op_spec::launch::implicit_gemm::wide::PATCH_WARPS;
use op_spec::launch::implicit_gemm::{CELL_WORDS, GemmGeometry, PIECE_WORDS, STAGED_WIDTH};

use super::super::format::Format;
use super::super::pack::{USUAL_DESCALE, magnitude};
use super::super::place::Place;
use super::lines::{coordinates, start_of};
use super::{Memory, Turn, Work};
use crate::parts::index::div_rem;
use crate::parts::prescale::reciprocal;
use crate::parts::unroll::unroll;

/// Fours of values that a lane has under way at a time, where a piece has so many for all lanes: an even number, for warpgroups that have half of a tile's pixels each; beside
/// others there are registers for fewer.
pub(super) const FOURS_OF_HALVES: usize = 8;
pub(super) const FOURS: usize = 6;

/// The same of what is left.
const PARTIAL: usize = 4;

/// Words of four f32, and of what they are rounded to.
const FOUR_WORDS: u32 = 4;
const ROUNDED_WORDS: u32 = FOUR_WORDS / STAGED_WIDTH;

/// Words of the patch from a lane's store to its next one.
const STORE_WORDS: u32 = WARP_THREADS * ROUNDED_WORDS;
const _: () =
    assert!(4 * STORE_WORDS == 256 && (FOURS | FOURS_OF_HALVES | PARTIAL).is_multiple_of(2));

/// What a launch that rounds knows of scales.
#[derive(Clone, Copy)]
pub(super) struct Scales {
    /// Magnitudes that the first launch, which takes the usual one, notes of each tile; 0 in the second one.
    pub(super) noted: u32,
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
        if opaque::to_compiler(self.noted) == 0 {
            self.descales.load_readonly(sample as usize)
        } else {
            USUAL_DESCALE
        }
    }

    /// Whether there is nothing to do in the second launch, as all samples have the usual scale. All lanes of a warp call it, and get the same.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    pub(super) unsafe fn are_usual(&self, samples: u32) -> bool {
        if self.noted != 0 {
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
    /// Makes the barriers of staged pieces.
    #[inline(always)]
    pub(super) unsafe fn init_staged(&self) {
        let mut slot = 0;
        while slot < PATCH_WARPS * self.rings.staged {
            opaque::not_unrolled();
            self.has_come(slot).init(1);
            slot = opaque::to_compiler(slot + 1);
        }
    }

    /// The barrier of a staged piece, which has come.
    #[inline(always)]
    fn has_come(&self, slot: u32) -> Barrier {
        Barrier::at(self.barriers, self.rings.staged_barrier + slot)
    }

    /// A staged piece.
    #[inline(always)]
    unsafe fn staged(&self, slot: u32) -> Shared<f32> {
        let bytes = self.rings.staged_bytes;
        shared::dynamic(self.rings.staged_at + slot * bytes, bytes / 4)
    }
}

/// Which of the pieces of all of the block's work is a warp's turn. They come one after the other, stage by stage; each warp has one in every stage.
#[derive(Clone, Copy)]
struct PieceTurn {
    item: u32,
    stage: u32,
    /// Its number in the stage.
    number: u32,
}

impl PieceTurn {
    /// The first of warp `warp`.
    #[inline(always)]
    unsafe fn first(work: &Work<'_>, warp: u32) -> Self {
        let [stage, _] = work.stages();
        Self {
            item: work.first_item,
            stage,
            number: warp,
        }
    }

    /// Whether there is one.
    #[inline(always)]
    fn is_there(&self, work: &Work<'_>) -> bool {
        self.item < work.g.items() as u32
    }

    /// Goes on to the warp's next; whether it is of the next stage.
    #[inline(always)]
    unsafe fn advance(&mut self, work: &Work<'_>) -> bool {
        self.number += PATCH_WARPS;
        let is_of_next = self.number >= work.g.pieces.of_stage;
        if is_of_next {
            self.number -= work.g.pieces.of_stage;
            let [first_stage, end_stage] = work.stages();
            self.stage += 1;
            if self.stage == end_stage {
                self.stage = first_stage;
                self.item += work.item_step;
            }
        }
        is_of_next
    }
}

/// What a warp brings to places of its own, one piece after the other.
struct Copies<'a> {
    work: &'a Work<'a>,
    next: PieceTurn,
    /// Where the copies of its stage start.
    start: [i32; 5],
}

impl<'a> Copies<'a> {
    /// From the first piece of warp `warp` on.
    #[inline(always)]
    unsafe fn from_first(work: &'a Work<'a>, warp: u32) -> Self {
        let next = PieceTurn::first(work, warp);
        let place = Place::of(next.item, work.g);
        let start = start_of(work, &place, next.stage, STAGED_WIDTH);
        Self { work, next, start }
    }

    /// Starts the next copy, if there is one, to place `slot` of those of all warps.
    #[inline(always)]
    unsafe fn start(&mut self, memory: &Memory, map: &TensorMap, slot: u32) {
        let work = self.work;
        if !self.next.is_there(work) {
            return;
        }
        if thread::thread_idx_x().is_multiple_of(WARP_THREADS) {
            let from = memory.sources.load_vec(PIECE_WORDS * self.next.number);
            let has_come = memory.has_come(slot);
            has_come.arrive_expect(work.g.pieces.bytes);
            let to = memory.staged(slot).addr(0);
            copy_box(to, map, coordinates(self.start, from), has_come);
        }
        if self.next.advance(work) {
            let place = Place::of(self.next.item, work.g);
            self.start = start_of(work, &place, self.next.stage, STAGED_WIDTH);
        }
    }
}

/// Brings and rounds every piece of the block's work that is the turn of warp `warp` of those that bring patches, into its patch as soon as that is free.
///
/// # Safety
/// All lanes of each warp that brings patches call it, after the barrier behind `prepare`. The geometry has pieces, and `map` brings them.
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
    let ring = memory.patches();
    let mut copies = Copies::from_first(work, warp);
    let staged = memory.rings.staged;
    let first_slot = warp * staged;
    let mut slot = first_slot;
    while slot < first_slot + staged {
        opaque::not_unrolled();
        copies.start(memory, map, slot);
        slot = opaque::to_compiler(slot + 1);
    }
    let mut turn = PieceTurn::first(work, warp);
    let mut patch = Turn::FIRST;
    let (mut slot, mut parity) = (first_slot, 0);
    while turn.is_there(work) {
        let item = turn.item;
        let (sample, _) = div_rem(item, g.pixel_tiles());
        let scale = reciprocal(scales.descale(sample));
        let mut largest = 0;
        while turn.item == item {
            opaque::not_unrolled();
            let [to, words] = memory.sources.load_vec(PIECE_WORDS * turn.number + 4);
            let piece = Piece {
                values: memory.staged(slot),
                to: patch.slot * (g.stage_bytes(1) / 4) + to,
                words,
            };
            // A new barrier's phase of parity 1 is over, as it were: its slot is free.
            ring.free(patch.slot).wait(patch.parity ^ 1);
            memory.has_come(slot).wait(parity);
            largest = largest.max(piece.round::<F, WHOLE>(g, memory, scale));
            async_proxy::fence_shared();
            warp::sync_warp(warp::ALL_LANES);
            if thread::thread_idx_x().is_multiple_of(WARP_THREADS) {
                ring.filled(patch.slot).arrive();
            }
            copies.start(memory, map, slot);
            slot += 1;
            if slot == first_slot + staged {
                slot = first_slot;
                parity ^= 1;
            }
            if turn.advance(work) {
                patch = patch.next(&ring);
            }
        }
        if scales.noted != 0 {
            note(work, scales, [item, warp], largest);
        }
    }
}

/// Notes the largest magnitude that a warp saw of a tile.
#[inline(always)]
unsafe fn note(work: &Work<'_>, scales: &Scales, [item, warp]: [u32; 2], largest: u32) {
    let largest = warp::warp_reduce_max(warp::ALL_LANES, largest);
    let noted = scales.noted;
    let all = work.g.items() as u32 * noted;
    // Blocks of the same tile are neighbours.
    let block = thread::block_idx_x() - work.first_item * (noted / PATCH_WARPS);
    if thread::thread_idx_x().is_multiple_of(WARP_THREADS) {
        let at = item * noted + block * PATCH_WARPS + warp;
        GlobalMut::new(scales.largest, all as usize).store(at as usize, largest);
    }
}

/// Some of a piece's fours of values.
struct Round {
    staged: Shared<f32>,
    patches: Shared<u32>,
    /// The lane's next four, of those of the piece.
    four: u32,
    fours: u32,
    /// The word of the patch that they are rounded to, and how that of every second one differs.
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
                    self.patches.store_vec(to ^ exchanged, rounded);
                }
            }
        });
        self.largest = largest;
        self.to += N as u32 * STORE_WORDS;
        self.four = opaque::to_compiler(self.four + N as u32 * WARP_THREADS);
    }
}

/// A piece: `words` words of the patch from word `to` on, and what is staged for it.
struct Piece {
    values: Shared<f32>,
    to: u32,
    words: u32,
}

impl Piece {
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
        let start = memory.patches.addr(0).0 / 4;
        let exchanged = ((1 << g.line_shift()) - 1) * CELL_WORDS;
        let first = to + lane * ROUNDED_WORDS;
        let mut round = Round {
            staged,
            patches: memory.patches,
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
