//! The epilogue of a warpgroup's tile.

use cuda_std::global::Global;
use cuda_std::{Storage, async_proxy, barrier, math, opaque, thread, warp};
use launch_config::WARP_THREADS;
use launch_config::elementwise::Bounds;
use launch_config::gemm::{CHANNEL_VALUES, GemmGeometry, LINE_BYTES, WARPGROUP_WARPS};
use launch_config::implicit_gemm::{Epilogue, RoundedFunction};

use super::{MMA_ROWS, Memory, Output};
use crate::parts::map::clamp;
use crate::parts::pointwise::{apply, hardswish, silu};
use crate::parts::store::{pair_of, sloped, word_of};
use crate::parts::unroll::unroll;

/// Threads of a warpgroup.
const WARPGROUP_THREADS: u32 = WARPGROUP_WARPS * WARP_THREADS;

/// Values that a list is applied to at a time.
const LISTED: usize = 16;

/// The most octets of filters whose results are computed side by side.
const MOST_OCTETS: usize = 4;

/// Words of a line, and of 16 bytes of it, which are exchanged by the line's number.
const LINE_WORDS: u32 = LINE_BYTES / 4;
const CHUNK_WORDS: u32 = 4;

impl<T: Storage> Output<'_, T> {
    /// Gain, shift and bias of a filter. Without gain and shift of its own, the bias is the shift. Results of
    /// filters that do not exist are not stored.
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
}

/// The results of a warpgroup's tiles of `BLOCKS * MMA_ROWS` pixels and `2 * SUMS` filters.
pub(super) struct Results<'a, T, const SUMS: usize, const BLOCKS: usize> {
    memory: &'a Memory,
    output: &'a Output<'a, T>,
    /// The warpgroup.
    number: u32,
    /// The thread's number in it.
    thread: u32,
}

impl<'a, T: Storage, const SUMS: usize, const BLOCKS: usize> Results<'a, T, SUMS, BLOCKS> {
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

    /// Keeps bias, gain and shift of the tile's filters, from `filter` on.
    ///
    /// # Safety
    /// All threads of the warpgroup make this call.
    #[inline(always)]
    pub(super) unsafe fn keep_channels(&self, filter: u32) {
        let of_channels = self.memory.of_channels(self.number);
        // All have read those of the tile before. Barrier 0 is the block's.
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

    /// Puts the results of a tile to shared memory, from the sums of its one or two blocks of rows. `parity`
    /// is that of the warpgroup's tiles so far.
    ///
    /// # Safety
    /// All threads of the warpgroup make this call.
    #[inline(always)]
    pub(super) unsafe fn finish(&self, mut sums: [[f32; SUMS]; 2], parity: u32) {
        self.map(&mut sums);
        if BLOCKS == 1 && !self.output.list.is_empty() {
            self.list(&mut sums[0]);
        }
        self.memory.room(self.number).wait(parity);
        // Each form by itself, so that values of different filters are computed side by side.
        let rounded = &self.output.rounded;
        match (rounded.function, rounded.residual.is_present()) {
            (RoundedFunction::SILU, false) => self.stage::<true, false>(&sums, silu::<T>),
            (RoundedFunction::SILU, true) => self.stage::<true, true>(&sums, silu::<T>),
            (RoundedFunction::HARDSWISH, false) => self.stage::<true, false>(&sums, hardswish),
            (RoundedFunction::HARDSWISH, true) => self.stage::<true, true>(&sums, hardswish),
            (_, true) => self.stage::<true, true>(&sums, |x| x),
            (_, false) => self.stage::<false, false>(&sums, |x| x),
        }
        async_proxy::fence_shared();
        // All lanes have come, and one arrives for them.
        warp::sync_warp(warp::ALL_LANES);
    }

    /// Applies the epilogue up to the rounding: each part of it that there is to all sums.
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
        if bounds != Bounds::NONE {
            self.each(sums, |_| move |_, x| clamp(bounds, x));
        }
    }

    /// Applies to all sums what `f` gives for their octet of filters; it is given the number of the filter in
    /// the lane's two.
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

    /// Rounds the sums, and applies the list to them, some at a time, which move to the end: the list's code
    /// is written out for every value.
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
            let values = apply::<T, LISTED>(self.output.list, values);
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

    /// Writes the results to shared memory, rounded, and then, if `ROUNDED`, through `function` and, with
    /// `RESIDUAL`, the residual, which lies where they will be.
    #[inline(always)]
    unsafe fn stage<const ROUNDED: bool, const RESIDUAL: bool>(
        &self,
        sums: &[[f32; SUMS]; 2],
        function: impl Fn(f32) -> f32,
    ) {
        let staged = self.memory.results(self.number);
        let rounded = &self.output.rounded;
        let (warp, lane) = (self.thread / WARP_THREADS, self.thread % WARP_THREADS);
        let (quad, of_quad) = (lane / 4, lane % 4);
        let row = 16 * warp + quad;
        // The word of two filters of octet `n`, of a line of the block.
        let word = |n: usize, block: usize, i: usize| {
            let part = n as u32 / 8 * Self::PIXELS;
            let line = part + row + MMA_ROWS * block as u32 + 8 * i as u32;
            // Bits 7 to 9 of an address are the line's number within eight.
            line * LINE_WORDS + ((n as u32 % 8) ^ quad) * CHUNK_WORDS + of_quad
        };
        // A few octets of filters at a time: all loads come before the first store, which the compiler would
        // not exchange.
        unroll!(8, |group| {
            if Self::GROUP * group < SUMS / 4 {
                let mut added = [[[0; 2]; 2]; MOST_OCTETS];
                unroll!(4, |octet| {
                    unroll!(2, |block| {
                        unroll!(2, |i| {
                            if RESIDUAL && octet < Self::GROUP && block < BLOCKS {
                                let at = word(Self::GROUP * group + octet, block, i);
                                added[octet][block][i] = staged.load(at);
                            }
                        });
                    });
                });
                let mut words = [[[0; 2]; 2]; MOST_OCTETS];
                unroll!(4, |octet| {
                    unroll!(2, |block| {
                        unroll!(2, |i| {
                            if octet < Self::GROUP && block < BLOCKS {
                                let at = 4 * (Self::GROUP * group + octet) + 2 * i;
                                let pair = [sums[block][at], sums[block][at + 1]];
                                let mut rounded_word = word_of::<T>(pair);
                                if ROUNDED {
                                    let mut values = pair_of::<T>(rounded_word).map(&function);
                                    if RESIDUAL {
                                        let [a, b] = pair_of::<T>(added[octet][block][i]);
                                        values = [values[0] + a, values[1] + b]
                                            .map(|value| sloped(&rounded.after, value));
                                    }
                                    rounded_word = word_of::<T>(values);
                                }
                                words[octet][block][i] = rounded_word;
                            }
                        });
                    });
                });
                unroll!(4, |octet| {
                    unroll!(2, |block| {
                        unroll!(2, |i| {
                            if octet < Self::GROUP && block < BLOCKS {
                                let at = word(Self::GROUP * group + octet, block, i);
                                staged.store(at, words[octet][block][i]);
                            }
                        });
                    });
                });
            }
        });
    }
}
const _: () = assert!(MMA_ROWS == 64);
