//! The producer that converts f32: staged f32 tiles, loaded by TMA and converted to f16 into the halo tile.
//! Tiles of a channels-last input are converted here, those of a dense one in `dense_f32`.
//!
//! The three producer warps of halo tiles take staged tiles in turn. Each warp starts copies into staging
//! memory of its own, and converts from there into the halo tile. `launch_config::implicit_gemm` says how
//! boxes divide into staged tiles.
//!
//! # Optimistic scale
//! A first launch uses the optimistic scale for all samples. For each tile, it records the largest magnitude
//! that each warp converts. `implicit_gemm_rescale` computes each sample's scale from these magnitudes. The
//! second launch uses the scales; it returns at once if all samples have the optimistic scale. The first
//! launch leaves NaN results of tiles whose values exceed the scale's range to the second one.
//!
//! # Bits
//! A value is scaled and converted as by the reformat. Values that no window sees do not count for the scale
//! here, but do in a reformatted sample. The scales may therefore differ, and with them the rounding of
//! values near f16's smallest.

use core::marker::PhantomData;

use cuda_std::mbarrier::Barrier;
use cuda_std::shared::Shared;
use cuda_std::tensor_map::{TensorMap, copy_box};
use cuda_std::{async_proxy, math, opaque, shared, thread, warp};
use launch_config::WARP_THREADS;
use launch_config::implicit_gemm::sm90::HALO_WARPS;
use launch_config::implicit_gemm::{
    ImplicitGemmGeometry, K_VECTOR_WORDS, STAGED_TILE_WORDS, STAGED_WIDTH,
};

use super::super::format::Format;
use super::super::reformat::magnitude;
use super::super::tile_coord::TileCoord;
use super::nhwc_tile::{coordinates, start_of};
use super::scales::Scales;
use super::{Memory, PipelineState, Work, dense_f32};
use crate::parts::prescale::reciprocal;
use crate::parts::unroll::unroll;

/// Vectors of four values that a lane keeps in flight in the whole rounds of a staged tile, an even number.
/// `HALVES_VECTORS` is for kernels whose consumer warpgroups have half of a tile's pixels each; other kernels
/// leave fewer registers.
pub(super) const HALVES_VECTORS: usize = 8;
pub(super) const VECTORS: usize = 6;

/// Vectors in flight in the last, partial rounds.
const PARTIAL: usize = 4;

/// Words of a vector of four f32, and of the f16 that it is converted to.
const VECTOR_WORDS: u32 = 4;
const CONVERTED_WORDS: u32 = VECTOR_WORDS / STAGED_WIDTH;

/// Words of the halo tile from one store of a lane to the next.
const STORE_WORDS: u32 = WARP_THREADS * CONVERTED_WORDS;
const _: () =
    assert!(4 * STORE_WORDS == 256 && (VECTORS | HALVES_VECTORS | PARTIAL).is_multiple_of(2));

impl Memory {
    /// Initialises the barriers of staged tiles.
    #[inline(always)]
    pub(super) unsafe fn init_staged(&self) {
        let mut stage = 0;
        while stage < HALO_WARPS * self.mainloop.staged {
            opaque::not_unrolled();
            self.staged_full(stage).init(1);
            stage = opaque::to_compiler(stage + 1);
        }
    }

    /// Returns the barrier at which the staged tile of staging buffer `stage` arrives.
    #[inline(always)]
    fn staged_full(&self, stage: u32) -> Barrier {
        Barrier::at(self.barriers, self.mainloop.staged_barrier + stage)
    }

    /// Staging buffer `stage`.
    #[inline(always)]
    unsafe fn staged(&self, stage: u32) -> Shared<f32> {
        let bytes = self.mainloop.staged_bytes;
        shared::dynamic(self.mainloop.staged_at + stage * bytes, bytes / 4)
    }
}

/// A warp's position in the sequence of all staged tiles of the block, K block by K block. Warps take staged
/// tiles in turn, and each warp has at least one in every K block.
#[derive(Clone, Copy)]
struct StagedTileState {
    work_tile: u32,
    k_block: u32,
    /// The number of the staged tile in its K block.
    number: u32,
}

impl StagedTileState {
    /// The first staged tile of warp `warp`.
    #[inline(always)]
    unsafe fn first(work: &Work<'_>, warp: u32) -> Self {
        let [k_block, _] = work.k_blocks();
        Self {
            work_tile: work.first_work_tile,
            k_block,
            number: warp,
        }
    }

    /// Whether this staged tile exists.
    #[inline(always)]
    fn is_there(&self, work: &Work<'_>) -> bool {
        self.work_tile < work.g.work_tiles() as u32
    }

    /// Advances to the warp's next staged tile. Returns whether it is of the next K block.
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

/// The sequence of copies that a warp starts into its own staging buffers.
struct Copies<'a, F> {
    work: &'a Work<'a>,
    next: StagedTileState,
    /// The coordinates of its tile of pixels, and those at which the copies of its K block start.
    place: TileCoord,
    start: [i32; 5],
    format: PhantomData<F>,
}

impl<'a, F: Format> Copies<'a, F> {
    /// The copies of warp `warp`, from its first staged tile on.
    #[inline(always)]
    unsafe fn from_first(work: &'a Work<'a>, warp: u32) -> Self {
        let next = StagedTileState::first(work, warp);
        let place = TileCoord::of(next.work_tile, work.g);
        Self {
            work,
            next,
            place,
            start: Self::start_of(work, &place, next.k_block),
            format: PhantomData,
        }
    }

    /// Returns the coordinates at which the copies of a K block start.
    #[inline(always)]
    unsafe fn start_of(work: &Work<'_>, place: &TileCoord, k_block: u32) -> [i32; 5] {
        match F::READS_DENSE {
            true => dense_f32::start_of(work, place, k_block),
            false => start_of(work, place, k_block, STAGED_WIDTH),
        }
    }

    /// Starts the next copy, if there is one, into staging buffer `stage`.
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
            let staged_full = memory.staged_full(stage);
            staged_full.arrive_expect(work.g.staged_tiles.bytes);
            let to = memory.staged(stage).addr(0);
            copy_box(to, map, coordinates(self.start, from), staged_full);
        }
        let work_tile = self.next.work_tile;
        if self.next.advance(work) {
            // Divisions.
            if self.next.work_tile != work_tile {
                self.place = TileCoord::of(self.next.work_tile, work.g);
            }
            self.start = Self::start_of(work, &self.place, self.next.k_block);
        }
    }
}

/// Loads and converts the staged tiles of producer warp `warp`. Each one is stored to its halo tile as soon
/// as the pipeline stage of the halo tile is empty.
///
/// # Safety
/// All lanes of each producer warp of halo tiles make this call, after the barrier that follows `prepare`.
/// The geometry has staged tiles, and `map` loads them.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
pub(super) unsafe fn convert<F: Format, const WHOLE: usize>(
    work: &Work<'_>,
    memory: &Memory,
    map: &TensorMap,
    scales: &Scales,
    warp: u32,
) {
    let g = work.g;
    let pipeline = memory.halos();
    let mut copies = Copies::<F>::from_first(work, warp);
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
    let mut number = 0;
    while state.is_there(work) {
        let work_tile = state.work_tile;
        let place = TileCoord::of(work_tile, g);
        if warp == 0 && thread::thread_idx_x().is_multiple_of(WARP_THREADS) {
            memory.store_coord(number, &place);
        }
        number += 1;
        let scale = reciprocal(scales.descale(place.sample));
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
            // The phase of parity 1 of a new barrier counts as complete, so a new stage is empty.
            pipeline.empty(halo.stage).wait(halo.parity ^ 1);
            memory.staged_full(stage).wait(parity);
            largest = largest.max(staged_tile.convert::<F, WHOLE>(g, memory, scale));
            async_proxy::fence_shared();
            let converted = halo.stage;
            if state.advance(work) {
                halo = halo.next(&pipeline);
            }
            // Consumers read what is recorded before they have waited for this stage.
            if state.work_tile != work_tile && scales.recorded != 0 {
                let largest = warp::warp_reduce_max(warp::ALL_LANES, largest);
                if thread::thread_idx_x().is_multiple_of(WARP_THREADS) {
                    scales
                        .magnitudes(work, work_tile)
                        .store(warp as usize, largest);
                }
            }
            warp::sync_warp(warp::ALL_LANES);
            if thread::thread_idx_x().is_multiple_of(WARP_THREADS) {
                pipeline.full(converted).arrive();
            }
            copies.start(memory, map, stage);
            stage += 1;
            if stage == first_stage + staged {
                stage = first_stage;
                parity ^= 1;
            }
        }
    }
}

/// The conversion of a staged tile by one lane.
struct Conversion {
    staged: Shared<f32>,
    halos: Shared<u32>,
    /// The lane's next vector, and the number of vectors of the staged tile.
    vector: u32,
    vectors: u32,
    /// The word of the halo tile for the next vector, and the swizzle bits that change at every second one.
    to: u32,
    exchanged: u32,
    scale: f32,
    largest: f32,
}

impl Conversion {
    /// Converts the lane's next `N` vectors. With `are_whole`, all of them exist.
    #[inline(always)]
    unsafe fn convert_next<F: Format, const N: usize>(&mut self, are_whole: bool) {
        let there = |i: usize| are_whole || self.vector + i as u32 * WARP_THREADS < self.vectors;
        let mut values = [[0.0f32; VECTOR_WORDS as usize]; N];
        unroll!(8, |i| {
            if i < N && there(i) {
                let vector = self.vector + i as u32 * WARP_THREADS;
                values[i % N] = self.staged.load_vec(vector * VECTOR_WORDS);
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
                // Opaque; otherwise the compiler would move the conversion behind a branch, one vector after
                // another.
                let converted = if are_whole {
                    [a_b, c_d]
                } else {
                    [a_b, c_d].map(opaque::to_compiler)
                };
                // `max` drops NaN.
                let of_vector =
                    (math::abs(a).max(math::abs(b))).max(math::abs(c).max(math::abs(d)));
                largest = largest.max(of_vector);
                if there(i) {
                    let to = self.to + i as u32 * STORE_WORDS;
                    let exchanged = if i % 2 == 0 { 0 } else { self.exchanged };
                    self.halos.store_vec(to ^ exchanged, converted);
                }
            }
        });
        self.largest = largest;
        self.to += N as u32 * STORE_WORDS;
        self.vector = opaque::to_compiler(self.vector + N as u32 * WARP_THREADS);
    }
}

/// A staged tile: its f32 values, and their place in the halo tile from word `to` on. A tile of a
/// channels-last input has `words` words there, one of a dense input `words` K-vectors.
struct StagedTile {
    values: Shared<f32>,
    to: u32,
    words: u32,
}

impl StagedTile {
    /// Converts the staged tile. Returns the bits of the largest finite magnitude that the lane converted.
    #[inline(always)]
    unsafe fn convert<F: Format, const WHOLE: usize>(
        &self,
        g: &ImplicitGemmGeometry,
        memory: &Memory,
        scale: f32,
    ) -> u32 {
        let largest = if F::READS_DENSE {
            let from = (self.values, memory.sources);
            let to = (memory.halos, self.to, self.words);
            dense_f32::convert::<F>(g, from, to, scale)
        } else {
            self.convert_channels_last::<F, WHOLE>(g, memory, scale)
        };
        let bits = largest.to_bits();
        if magnitude(largest) == bits {
            return bits;
        }
        // There was an infinity: find the largest finite magnitude.
        let mut bits = 0;
        let mut word = thread::thread_idx_x() % WARP_THREADS;
        while word < g.staged_tiles.bytes / 4 {
            opaque::not_unrolled();
            bits = bits.max(magnitude(self.values.load(word)));
            word = opaque::to_compiler(word + WARP_THREADS);
        }
        bits
    }

    /// Converts a staged tile of a channels-last input. Returns the largest magnitude that the lane
    /// converted.
    #[inline(always)]
    unsafe fn convert_channels_last<F: Format, const WHOLE: usize>(
        &self,
        g: &ImplicitGemmGeometry,
        memory: &Memory,
        scale: f32,
    ) -> f32 {
        let &Self {
            values: staged,
            to,
            words,
        } = self;
        let vectors = words / CONVERTED_WORDS;
        let lane = thread::thread_idx_x() % WARP_THREADS;
        // Swizzle: 16-byte chunks are exchanged within their line by their address, as by tensor maps.
        let start = memory.halos.addr(0).0 / 4;
        let span = opaque::to_compiler(g.k_vectors.span_k_vectors);
        let exchanged = (span - 1) * K_VECTOR_WORDS;
        let first = to + lane * CONVERTED_WORDS;
        let mut conversion = Conversion {
            staged,
            halos: memory.halos,
            vector: lane,
            vectors,
            to: first ^ (((start + first) / 8) & exchanged),
            // The swizzle of every second store of a lane differs from the first.
            exchanged: exchanged & (STORE_WORDS / 8),
            scale,
            largest: 0.0,
        };
        while conversion.vector - lane + WHOLE as u32 * WARP_THREADS <= vectors {
            opaque::not_unrolled();
            conversion.convert_next::<F, WHOLE>(true);
        }
        while conversion.vector - lane < vectors {
            opaque::not_unrolled();
            conversion.convert_next::<F, PARTIAL>(false);
        }
        conversion.largest
    }
}
