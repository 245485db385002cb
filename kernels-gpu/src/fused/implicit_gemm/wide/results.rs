//! What a warp does with its sums: moments, and the output.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::shared::Shared;
use cuda_std::{Storage, math, opaque, thread, warp};
use op_spec::launch::WARP_THREADS;
use op_spec::launch::implicit_gemm::wide::{
    BLOCK_THREADS, HALF_PIXELS, HALVES, WARP_FILTERS, WARPS, WRITTEN_PITCH, WRITTEN_PIXELS,
    WideRings,
};
use op_spec::launch::implicit_gemm::{CELL_WORDS, GemmGeometry, WIDE};
use op_spec::launch::norm::COUNTED_ELEMENTS;

use super::super::again::{Alone, Written, judged};
use super::super::format::Format;
use super::super::place::Place;
use super::super::results::moments::Inside;
use super::super::results::{in_order, is_inside, is_normal, is_within, limits};
use super::{Memory, Work};
use crate::parts::moments::stored;
use crate::parts::unroll::unroll;

/// Octets of pixels of a half.
const HALF_OCTETS: u32 = HALF_PIXELS / 8;

/// Sums that a thread has of a half: two pixels of each octet, of two filters.
const HALF_SUMS: usize = 4 * HALF_OCTETS as usize;
const _: () = assert!(HALF_OCTETS == 16);

/// The place of a pixel that is not in the output. No plane is as long as this.
const NOWHERE: u32 = u32::MAX;

/// The tensors behind the product, and what undoes the scaling of each sample.
pub(super) struct Output<F: Format> {
    pub(super) y: *mut F::Stored,
    pub(super) moments: *mut f32,
    pub(super) input_descales: Global<f32>,
    /// For results that no norm follows.
    pub(super) alone: Alone<F::Stored>,
}

/// Whether no norm follows. Only in some formats may that be.
#[inline(always)]
fn is_alone<F: Format>(g: &GemmGeometry) -> bool {
    WIDE.ends(F::OPERANDS) && g.alone != 0
}

/// Brings bias and reciprocal of the scale of each of the block's filters to shared memory, and gain and shift where no norm
/// follows.
///
/// # Safety
/// All threads of the block call it, and a barrier follows.
#[inline(always)]
pub(super) unsafe fn load_channels<F: Format>(
    memory: &Memory,
    work: &Work<'_>,
    bias: *const F::Stored,
    descales: Global<f32>,
    alone: &Alone<F::Stored>,
) {
    let conv = &work.g.conv;
    let channels = conv.output_channels() as usize;
    let first = work.filter_tile * WIDE.filters();
    let mut filter = thread::thread_idx_x();
    while filter < memory.rings.tiles * WIDE.filters() {
        // What is computed for filters that do not exist is written nowhere.
        let mut of_channel = [0.0, 1.0, 0.0, 0.0];
        if first + filter < conv.group_k {
            let channel = (work.group * conv.group_k + first + filter) as usize;
            if conv.has_bias != 0 {
                of_channel[0] = Global::new(bias, channels).load_readonly(channel).to_f32();
            }
            if F::OPERANDS.scaled {
                of_channel[1] = descales.load_readonly(channel);
            }
            if is_alone::<F>(work.g) {
                [of_channel[2], of_channel[3]] = alone.of_channel(channel, channels);
            }
        }
        memory.channels.store_vec(filter * CELL_WORDS, of_channel);
        filter += BLOCK_THREADS;
    }
}

/// Makes each sum of row `i` of a thread what `f` makes of it.
#[inline(always)]
fn each_of_row<const SUMS: usize>(sums: &mut [f32; SUMS], i: usize, f: impl Fn(f32) -> f32) {
    unroll!(2, |half| {
        if half < SUMS / HALF_SUMS {
            unroll!(16, |n| {
                unroll!(2, |j| {
                    let at = HALF_SUMS * half + 4 * n + 2 * i + j;
                    sums[at] = f(sums[at]);
                });
            });
        }
    });
}

/// The results of a warp: of [`WARP_FILTERS`] filters, and of the tile's pixels from the first of half `first_half` on as many
/// as it has sums for.
pub(super) struct Results<'a, F: Format, const SUMS: usize> {
    memory: Memory,
    output: &'a Output<F>,
    g: GemmGeometry,
    place: &'a Place,
    first_half: u32,
    lane: u32,
    /// The warp's first filter among those of the block, and its channel.
    filter: u32,
    channel: u32,
    /// How many of the warp's filters there are.
    filters: u32,
    /// The warp's place for results in shared memory.
    written: Shared<f32>,
}

impl<'a, F: Format, const SUMS: usize> Results<'a, F, SUMS> {
    /// Those of tile `filter_tile` of the block's.
    #[inline(always)]
    pub(super) unsafe fn new(
        g: &GemmGeometry,
        rings: WideRings,
        output: &'a Output<F>,
        filter_tile: u32,
        first_half: u32,
        place: &'a Place,
    ) -> Self {
        // Computed anew, or what depends on it would take the products' registers.
        let thread = opaque::to_compiler(thread::thread_idx_x());
        let g = GemmGeometry {
            offsets: opaque::to_compiler(g.offsets),
            filter_tiles: opaque::to_compiler(g.filter_tiles),
            ..*g
        };
        // A half of the pixels for each of the block's tiles.
        let work = Work::of(&g, (SUMS / HALF_SUMS) as u32, rings.splits);
        let warp = thread / WARP_THREADS;
        let filter = filter_tile * WIDE.filters() + warp % (WARPS / 2) * WARP_FILTERS;
        let of_group = work.filter_tile * WIDE.filters() + filter;
        let memory = Memory::of(&g, rings, F::OPERANDS);
        let written = WARP_FILTERS * WRITTEN_PITCH;
        Self {
            memory,
            output,
            g,
            place,
            first_half,
            lane: thread % WARP_THREADS,
            filter,
            channel: work.group * g.conv.group_k + of_group,
            filters: g.conv.group_k.saturating_sub(of_group).min(WARP_FILTERS),
            written: memory.results.slice(warp * written, written),
        }
    }

    /// Writes all that there is to write of the tile.
    ///
    /// # Safety
    /// All lanes of the warp call it together.
    #[inline(always)]
    pub(super) unsafe fn finish(&self, mut sums: [f32; SUMS]) {
        let g = &self.g;
        self.scale(&mut sums);
        let mut seen = false;
        let is_whole = g.tile_pixels() == WIDE.pixels() && is_within(g, self.place);
        unroll!(2, |half| {
            if half < SUMS / HALF_SUMS {
                let half_of_tile = self.first_half + half as u32;
                let first = half_of_tile * HALF_PIXELS;
                let inside = if is_whole {
                    Inside::all(HALF_OCTETS)
                } else {
                    let pixels = self.memory.pixels;
                    let at = first + 2 * (self.lane % 4);
                    let coordinates = |n: usize| pixels.load_vec::<2>(at + 8 * n as u32);
                    Inside::find(limits(g, self.place), HALF_OCTETS, coordinates)
                };
                let of = |i: usize| {
                    let sums = &sums;
                    move |n: usize, j: usize| sums[HALF_SUMS * half + 4 * n + 2 * i + j]
                };
                if !is_alone::<F>(g) {
                    unroll!(2, |i| {
                        let [mean, m2] = inside.moments(HALF_OCTETS, of(i));
                        let filter = self.lane / 4 + 8 * i as u32;
                        if self.lane.is_multiple_of(4) && filter < self.filters {
                            self.write_moments(filter, half_of_tile, [inside.count, mean, m2, 0.0]);
                        }
                    });
                }
                unroll!(2, |quarter| {
                    // Nobody reads what was there before.
                    warp::sync_warp(warp::ALL_LANES);
                    unroll!(2, |i| {
                        let row = (self.lane / 4 + 8 * i as u32) * WRITTEN_PITCH;
                        unroll!(8, |n| {
                            let value = of(i);
                            let n_of_half = 8 * quarter + n;
                            let values = [value(n_of_half, 0), value(n_of_half, 1)];
                            let at = row + 8 * n as u32 + 2 * (self.lane % 4);
                            self.written.store_vec(at, values);
                        });
                    });
                    warp::sync_warp(warp::ALL_LANES);
                    seen |= self.write(first + quarter as u32 * WRITTEN_PIXELS);
                });
            }
        });
        if is_alone::<F>(g) {
            self.look_again(seen);
        }
    }

    /// Computes again what the warp wrote of the tile that is NaN, if a lane has `seen` one.
    #[inline(always)]
    unsafe fn look_again(&self, seen: bool) {
        let g = &self.g;
        let planes = g.conv.n as usize * g.conv.output_channels() as usize;
        let first_pixel = self.first_half * HALF_PIXELS;
        let written = Written {
            alone: &self.output.alone,
            y: GlobalMut::new(self.output.y, planes * g.conv.output_pixels() as usize),
            g,
            place: self.place,
            pixels: self.memory.pixels,
            channels: self.memory.channels,
            first_filter: self.filter,
            filter_step: 1,
            filters_end: self.filter + self.filters,
            first_channel: self.channel.wrapping_sub(self.filter),
            first_pixel,
            pixels_end: first_pixel + (SUMS / HALF_SUMS) as u32 * HALF_PIXELS,
        };
        written.look_again::<true>(seen);
    }

    /// Undoes the scaling, adds the bias, and rounds to what is stored where a norm follows.
    #[inline(always)]
    unsafe fn scale(&self, sums: &mut [f32; SUMS]) {
        let mut input_descale = 1.0;
        if F::OPERANDS.scaled {
            let sample = self.place.sample as usize;
            input_descale = self.output.input_descales.load_readonly(sample);
        }
        unroll!(2, |i| {
            let at = (self.filter + self.lane / 4 + 8 * i as u32) * CELL_WORDS;
            let [bias, descale] = self.memory.channels.load_vec::<2>(at);
            let mut factor = descale * input_descale;
            if F::OPERANDS.scaled && !is_normal(factor) {
                let first;
                [first, factor] = in_order(descale, input_descale);
                each_of_row(sums, i, |sum| sum * first);
            }
            each_of_row(sums, i, |sum| math::fma(sum, factor, bias));
        });
        if !is_alone::<F>(&self.g) {
            // Nothing moves across this, or results in both forms would take more registers than there are.
            warp::sync_warp(warp::ALL_LANES);
            self.round(sums);
        }
    }

    /// Makes the values what is stored of them, so that moments are those of what the norm will read.
    #[inline(always)]
    fn round(&self, sums: &mut [f32; SUMS]) {
        unroll!(2, |half| {
            if half < SUMS / HALF_SUMS {
                unroll!(16, |n| {
                    unroll!(2, |i| {
                        let at = HALF_SUMS * half + 4 * n + 2 * i;
                        [sums[at], sums[at + 1]] = stored::<F::Stored>([sums[at], sums[at + 1]]);
                    });
                });
            }
        });
    }

    /// Writes the moments of the warp's filter `filter` over a half of the tile's pixels.
    #[inline(always)]
    unsafe fn write_moments(&self, filter: u32, half: u32, moments: [f32; COUNTED_ELEMENTS]) {
        let conv = &self.g.conv;
        let parts = (self.g.pixel_tiles() * HALVES) as usize;
        let planes = conv.n as usize * conv.output_channels() as usize;
        let at = self.plane(filter) * parts + (self.place.tile * HALVES + half) as usize;
        GlobalMut::new(self.output.moments, planes * parts * COUNTED_ELEMENTS)
            .store_vec(at * COUNTED_ELEMENTS, moments);
    }

    /// The plane of the warp's filter `filter` in a tensor of `(n, k, ..)`.
    #[inline(always)]
    fn plane(&self, filter: u32) -> usize {
        let channels = self.g.conv.output_channels() as usize;
        self.place.sample as usize * channels + (self.channel + filter) as usize
    }

    /// Writes what shared memory has of the results, of pixels from `first` of the tile on. Where no norm follows, whether the lane
    /// has seen a NaN.
    #[inline(always)]
    unsafe fn write(&self, first: u32) -> bool {
        let g = &self.g;
        // How many pixels are neighbours in the output, from a multiple of that on.
        let together = g.conv.q | g.tile_w | g.tile_pitch | g.slice_pitch;
        if together.is_multiple_of(4) {
            self.write_of::<4>(first)
        } else if together.is_multiple_of(2) {
            self.write_of::<2>(first)
        } else {
            self.write_of::<1>(first)
        }
    }

    /// The same, `TOGETHER` (1, 2 or 4) pixels at a time: lanes have consecutive ones.
    #[inline(always)]
    unsafe fn write_of<const TOGETHER: usize>(&self, first: u32) -> bool {
        let (g, conv) = (&self.g, &self.g.conv);
        let spatial = conv.output_pixels() as usize;
        let planes = conv.n as usize * conv.output_channels() as usize;
        let y = GlobalMut::new(self.output.y, planes * spatial);
        let limits = limits(g, self.place);
        let of_tile = (self.place.z * conv.p + self.place.p) * conv.q + self.place.q;
        // Lanes side by side along the pixels, and how many filters they have at a time.
        let lanes = (WRITTEN_PIXELS / TOGETHER as u32).min(WARP_THREADS);
        let filters = WARP_THREADS / lanes;
        let mut seen = false;
        let mut pixel = self.lane % lanes * TOGETHER as u32;
        while pixel < WRITTEN_PIXELS {
            let of_pixel = first + pixel;
            let position = match is_inside(limits, self.memory.pixels.load(of_pixel)) {
                true => of_tile + self.memory.positions.load(of_pixel),
                false => NOWHERE,
            };
            let mut filter = self.lane / lanes;
            while filter < self.filters {
                if position != NOWHERE {
                    let from = filter * WRITTEN_PITCH + pixel;
                    let to = self.plane(filter) * spatial + position as usize;
                    seen |= self.copy::<TOGETHER>(y, filter, from, to);
                }
                filter += filters;
            }
            pixel += lanes * TOGETHER as u32;
        }
        seen
    }

    /// Writes `TOGETHER` results of the warp's filter `filter` from place `from` of shared memory on to elements of `y` from
    /// `to` on. Where no norm follows, whether one of them is NaN.
    #[inline(always)]
    unsafe fn copy<const TOGETHER: usize>(
        &self,
        y: GlobalMut<F::Stored>,
        filter: u32,
        from: u32,
        to: usize,
    ) -> bool {
        let mut seen = false;
        let mut map = [0.0; 2];
        // Asked anew for each filter, or there would be two of these loops.
        let is_alone = is_alone::<F>(&self.g) && opaque::to_compiler(self.g.alone) != 0;
        if is_alone {
            let at = (self.filter + filter) * CELL_WORDS + 2;
            map = self.memory.channels.load_vec::<2>(at);
        }
        let mut mapped = |value: f32| {
            if !is_alone {
                return value;
            }
            let value = judged::<F>(value);
            seen |= value.is_nan();
            self.output.alone.map(map, value)
        };
        match TOGETHER {
            4 => {
                let values = self.written.load_vec::<4>(from).map(&mut mapped);
                y.store_vec(to, F::Stored::from_f32_vector(values));
            }
            2 => {
                let values = self.written.load_vec::<2>(from).map(&mut mapped);
                y.store_vec(to, F::Stored::from_f32_pair(values));
            }
            _ => {
                let value = mapped(self.written.load(from));
                y.store(to, F::Stored::from_f32(value));
            }
        }
        seen
    }
}
