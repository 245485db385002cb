//! The epilogue of a warpgroup's tile.

use cuda_std::global::Global;
use cuda_std::{async_proxy, barrier, f16, math, opaque, thread, warp};
use launch_config::WARP_THREADS;
use launch_config::elementwise::Bounds;
use launch_config::gemm::{CHANNEL_VALUES, GemmGeometry, LINE_BYTES, WARPGROUP_WARPS};
use launch_config::implicit_gemm::{Epilogue, RoundedFunction};

use super::{MMA_ROWS, Memory, Output};
use crate::parts::map::clamp;
use crate::parts::pipeline::PipelineState;
use crate::parts::pointwise::{apply, hardswish, silu};
use crate::parts::store::{Packed, sloped};
use crate::parts::unroll::unroll;

/// Threads of a warpgroup.
const WARPGROUP_THREADS: u32 = WARPGROUP_WARPS * WARP_THREADS;

/// Values that a list is applied to at a time.
const LISTED: usize = 16;

/// The most octets of filters whose results are computed side by side.
const MOST_OCTETS: usize = 4;

/// Words of a line, and of its units of 16 bytes, which the swizzle exchanges by the line's index.
const LINE_WORDS: u32 = LINE_BYTES / 4;
const UNIT_WORDS: u32 = 4;

/// The type to whose accuracy functions of results are computed: f32 is multiplied as tf32.
type Accuracy = f16;

impl<T: Packed> Output<'_, T> {
    /// Returns gain, shift and bias of a filter. If there are no gain and shift, the bias is the shift.
    /// Results of filters that do not exist are not stored.
    #[inline(always)]
    unsafe fn of_filter(&self, filter: u32, g: &GemmGeometry) -> [f32; CHANNEL_VALUES as usize] {
        if filter >= g.filters() {
            return [0.0; CHANNEL_VALUES as usize];
        }
        let (channel, channels) = (filter as usize, g.filters() as usize);
        let [gain, shift] = if self.norm.presence.is_present() {
            self.norm.folded::<T>(channel)
        } else {
            self.store.of_channel(channel, channels)
        };
        if !g.conv.bias.is_present() {
            return [gain, shift, 0.0];
        }
        let bias = Global::new(self.bias, channels)
            .load_readonly(channel)
            .to_f32();
        if self.has_gain() {
            [gain, shift, bias]
        } else {
            [gain, bias, 0.0]
        }
    }

    /// Whether filters have a gain and a shift.
    #[inline(always)]
    fn has_gain(&self) -> bool {
        self.norm.presence.is_present() || self.store.epilogue.gain_and_shift.is_present()
    }

    /// Whether the bounds of the epilogue come last. They are then applied to rounded results.
    #[inline(always)]
    fn ends_with_bounds(&self) -> bool {
        self.rounded.function == RoundedFunction::NONE
            && !self.rounded.residual.is_present()
            && self.list.is_empty()
    }
}

/// The results of a warpgroup's tiles of `BLOCKS * MMA_ROWS` pixels and `2 * SUMS` filters.
pub(super) struct Results<'a, T, const SUMS: usize, const BLOCKS: usize> {
    memory: &'a Memory,
    output: &'a Output<'a, T>,
    /// The warpgroup's index.
    number: u32,
    /// The thread's index in the warpgroup.
    thread: u32,
}

impl<'a, T: Packed, const SUMS: usize, const BLOCKS: usize> Results<'a, T, SUMS, BLOCKS> {
    const FILTERS: u32 = 2 * SUMS as u32;
    const PIXELS: u32 = BLOCKS as u32 * MMA_ROWS;
    /// Octets of filters whose results are computed side by side.
    const GROUP: usize = MOST_OCTETS / BLOCKS;

    #[inline(always)]
    pub(super) unsafe fn new(memory: &'a Memory, output: &'a Output<'a, T>, number: u32) -> Self {
        Self {
            memory,
            output,
            number,
            thread: thread::thread_idx_x() % WARPGROUP_THREADS,
        }
    }

    /// Stores bias, gain and shift of the tile's filters, from `filter` on, in shared memory.
    ///
    /// # Safety
    /// All threads of the warpgroup make this call.
    #[inline(always)]
    pub(super) unsafe fn keep_channels(&self, filter: u32) {
        let of_channels = self.memory.of_channels(self.number);
        // All threads have read the values of the previous tile. Barrier 0 is the block's.
        barrier::sync(1 + self.number, WARPGROUP_THREADS);
        let mut of_tile = self.thread;
        while of_tile < Self::FILTERS {
            let [gain, shift, bias] = self.output.of_filter(filter + of_tile, &self.memory.g);
            of_channels.store_vec(2 * of_tile, [gain, shift]);
            of_channels.store(2 * Self::FILTERS + of_tile, bias);
            of_tile += WARPGROUP_THREADS;
        }
        barrier::sync(1 + self.number, WARPGROUP_THREADS);
    }

    /// Stores the results of a tile in the warpgroup's shared memory. `sums` has the sums of its one or two
    /// blocks of rows.
    ///
    /// # Safety
    /// All threads of the warpgroup make this call.
    #[inline(always)]
    pub(super) unsafe fn finish(&self, mut sums: [[f32; SUMS]; 2], state: PipelineState) {
        self.map(&mut sums);
        if BLOCKS == 1 && !self.output.list.is_empty() {
            self.list(&mut sums[0]);
        }
        let pipeline = self.memory.results_pipeline(self.number);
        pipeline.empty(state.stage).wait(state.parity);
        // One branch for each form, so that values of different filters are computed side by side.
        let (rounded, at) = (&self.output.rounded, state.stage);
        match (rounded.function, rounded.residual.is_present()) {
            (RoundedFunction::SILU, false) => self.mapped::<false>(&sums, at, silu::<Accuracy>),
            (RoundedFunction::SILU, true) => self.mapped::<true>(&sums, at, silu::<Accuracy>),
            (RoundedFunction::HARDSWISH, false) => self.mapped::<false>(&sums, at, hardswish),
            (RoundedFunction::HARDSWISH, true) => self.mapped::<true>(&sums, at, hardswish),
            (_, true) if rounded.after.slope != 1.0 => self.mapped::<true>(&sums, at, |x| x),
            (_, true) => {
                let bounds = T::bounds(rounded.after.bounds);
                let added = |pair, residual| T::clamp(bounds, T::sum(pair, residual));
                self.stage::<true>(&sums, at, added);
            }
            (_, false) => {
                let bounds = match self.output.ends_with_bounds() {
                    true => self.output.store.epilogue.bounds,
                    false => Bounds::NONE,
                };
                let bounds = T::bounds(bounds);
                self.stage::<false>(&sums, at, |pair, _| T::clamp(bounds, pair));
            }
        }
        async_proxy::fence_shared();
        // All lanes have stored their results, and one arrives for them.
        warp::sync_warp(warp::ALL_LANES);
    }

    /// Stores `function` of rounded results. With `RESIDUAL`, the residual is added to it, and slope and
    /// bounds follow.
    #[inline(always)]
    unsafe fn mapped<const RESIDUAL: bool>(
        &self,
        sums: &[[f32; SUMS]; 2],
        buffer: u32,
        function: impl Fn(f32) -> f32,
    ) {
        let after = &self.output.rounded.after;
        self.stage::<RESIDUAL>(sums, buffer, |pair, residual| {
            let mut values = T::values(pair).map(&function);
            if RESIDUAL {
                let [a, b] = T::values(residual);
                values = [values[0] + a, values[1] + b].map(|value| sloped(after, value));
            }
            T::pair(values)
        });
    }

    /// Applies the epilogue up to the rounding, each existing part to all sums. Bounds that come last are
    /// left for rounded results.
    #[inline(always)]
    unsafe fn map(&self, sums: &mut [[f32; SUMS]; 2]) {
        let of_channels = self.memory.of_channels(self.number);
        let Epilogue { slope, bounds, .. } = self.output.store.epilogue;
        // The first of the lane's two filters in each octet.
        let first = 2 * (self.thread % 4);
        if self.memory.g.conv.bias.is_present() && self.output.has_gain() {
            self.each(sums, |n| {
                let biases = of_channels.load_vec::<2>(2 * Self::FILTERS + 8 * n + first);
                move |j, sum| sum + biases[j]
            });
        }
        self.each(sums, |n| {
            let of = of_channels.load_vec::<4>(2 * (8 * n + first));
            move |j, sum| math::fma(of[2 * j], sum, of[2 * j + 1])
        });
        if slope != 1.0 {
            self.each(sums, |_| move |_, x| if x > 0.0 { x } else { x * slope });
        }
        if bounds != Bounds::NONE && !self.output.ends_with_bounds() {
            self.each(sums, |_| move |_, x| clamp(bounds, x));
        }
    }

    /// Applies to all sums the function that `f` returns for their octet of filters. The function also gets
    /// the index of the filter among the lane's two.
    #[inline(always)]
    unsafe fn each<F: Fn(usize, f32) -> f32>(
        &self,
        sums: &mut [[f32; SUMS]; 2],
        f: impl Fn(u32) -> F,
    ) {
        unroll!(16, |n| {
            if n < SUMS / 4 {
                let f = f(n as u32);
                unroll!(2, |block| {
                    unroll!(4, |i| {
                        if block < BLOCKS {
                            sums[block][4 * n + i] = f(i % 2, sums[block][4 * n + i]);
                        }
                    });
                });
            }
        });
    }

    /// Rounds the sums and applies the list to some of them at a time, which then move to the end: the list's
    /// code is written out for every value.
    #[inline(always)]
    unsafe fn list(&self, sums: &mut [f32; SUMS]) {
        let mut done = 0;
        while done < SUMS as u32 {
            opaque::not_unrolled();
            let mut values = [0.0; LISTED];
            unroll!(8, |pair| {
                let rounded = T::from_f32_pair([sums[2 * pair], sums[2 * pair + 1]]);
                [values[2 * pair], values[2 * pair + 1]] = T::to_f32_pair(rounded);
            });
            let values = apply::<Accuracy, LISTED>(self.output.list, values);
            unroll!(3, |part| {
                unroll!(16, |i| {
                    if LISTED * (part + 1) < SUMS {
                        sums[LISTED * part + i] = sums[LISTED * (part + 1) + i];
                    }
                });
            });
            unroll!(16, |i| {
                sums[SUMS - LISTED + i] = values[i];
            });
            done = opaque::to_compiler(done + LISTED as u32);
        }
    }

    /// Writes `function` of pairs of rounded results to shared memory. With `RESIDUAL` the function also gets
    /// the residual's pairs, which lie where the results will be.
    #[inline(always)]
    unsafe fn stage<const RESIDUAL: bool>(
        &self,
        sums: &[[f32; SUMS]; 2],
        buffer: u32,
        function: impl Fn(T::Pair, T::Pair) -> T::Pair,
    ) {
        let staged = self.memory.results(self.number, buffer);
        // Opaque; otherwise the compiler would keep the places of all results from tile to tile, in local
        // memory.
        let thread = opaque::to_compiler(self.thread);
        let (warp, lane) = (thread / WARP_THREADS, thread % WARP_THREADS);
        let (quad, of_quad) = (lane / 4, lane % 4);
        let row = 16 * warp + quad;
        let pair_words = size_of::<T::Pair>() as u32 / 4;
        let line_octets = LINE_WORDS / (4 * pair_words);
        // The first word of two filters of octet `n`, of a line of the block.
        let word = |n: usize, block: usize, i: usize| {
            let (part, octet) = (n as u32 / line_octets, n as u32 % line_octets);
            let line = part * Self::PIXELS + row + MMA_ROWS * block as u32 + 8 * i as u32;
            let of_line = (4 * octet + of_quad) * pair_words;
            let (unit, of_unit) = (of_line / UNIT_WORDS, of_line % UNIT_WORDS);
            // Bits 7 to 9 of an address are the line's number within eight.
            line * LINE_WORDS + (unit ^ quad) * UNIT_WORDS + of_unit
        };
        // A few octets of filters at a time. All loads come before the first store, because the compiler
        // would not move a load over a store.
        unroll!(8, |group| {
            if Self::GROUP * group < SUMS / 4 {
                let mut added = [[[T::ZEROS; 2]; 2]; MOST_OCTETS];
                unroll!(4, |octet| {
                    unroll!(2, |block| {
                        unroll!(2, |i| {
                            if RESIDUAL && octet < Self::GROUP && block < BLOCKS {
                                let at = word(Self::GROUP * group + octet, block, i);
                                added[octet][block][i] = T::load(staged, at);
                            }
                        });
                    });
                });
                let mut pairs = [[[T::ZEROS; 2]; 2]; MOST_OCTETS];
                unroll!(4, |octet| {
                    unroll!(2, |block| {
                        unroll!(2, |i| {
                            if octet < Self::GROUP && block < BLOCKS {
                                let at = 4 * (Self::GROUP * group + octet) + 2 * i;
                                let pair = [sums[block][at], sums[block][at + 1]];
                                let residual = added[octet][block][i];
                                pairs[octet][block][i] = function(T::pair(pair), residual);
                            }
                        });
                    });
                });
                unroll!(4, |octet| {
                    unroll!(2, |block| {
                        unroll!(2, |i| {
                            if octet < Self::GROUP && block < BLOCKS {
                                let at = word(Self::GROUP * group + octet, block, i);
                                T::store(staged, at, pairs[octet][block][i]);
                            }
                        });
                    });
                });
            }
        });
    }
}
const _: () = assert!(MMA_ROWS == 64);
