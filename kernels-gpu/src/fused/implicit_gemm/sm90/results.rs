//! The epilogue of a consumer warp: moments, and the output.

use cuda_std::global::GlobalMut;
use cuda_std::{opaque, thread, warp};
use launch_config::WARP_THREADS;
use launch_config::conv::ConvGeometry;
use launch_config::implicit_gemm::sm90::{HALF_PIXELS, HALVES, WARP_FILTERS, WRITTEN_WORDS};
use launch_config::implicit_gemm::{ImplicitGemmGeometry, OUTSIDE, PLACE_BITS, WARP_SPECIALIZED};
use launch_config::norm::COUNTED_ELEMENTS;

use super::super::fixup::Written;
use super::super::format::Format;
use super::super::results::moments::Inside;
use super::super::results::{BEYOND, is_inside, is_within, limits};
use super::super::tile_coord::TileCoord;
use super::output::Output;
use super::shared_rows::Rows;
use super::{Memory, OutputChannels, share_of, which_output};
use crate::parts::moments::Moments;
use crate::parts::unroll::unroll;

/// Octets of pixels of a half.
pub(super) const HALF_OCTETS: u32 = HALF_PIXELS / 8;

/// Limits that exclude every pixel: the bit above the depth's bits is not set.
pub(super) const NO_PIXELS: u32 = OUTSIDE | BEYOND & ((1 << (2 * PLACE_BITS)) - 1);

/// Filters of a row of accumulators: one for each quad of lanes.
pub(super) const ROW_FILTERS: u32 = WARP_THREADS / 4;
const _: () = assert!(2 * ROW_FILTERS == WARP_FILTERS);

/// Accumulators of a thread for a half of the tile: two pixels of each octet, for two filters.
pub(super) const HALF_SUMS: usize = 4 * HALF_OCTETS as usize;
const _: () = assert!(HALF_OCTETS == 16);

/// Whether results have no norm. For an NCHW output, this is a condition at run time: without the branch,
/// epilogue and list would spill registers together with the code around them.
#[inline(always)]
pub(super) fn is_without_norm<E: TileEpilogue>(g: &ImplicitGemmGeometry) -> bool {
    !E::HAS_NORM && (E::IS_NHWC || g.epilogue.is_store())
}

/// The binary logarithm of the number of filters of an output channel.
#[inline(always)]
pub(super) fn filter_shift<E: TileEpilogue>(g: &ImplicitGemmGeometry) -> u32 {
    if E::HAS_NORM || E::IS_NHWC {
        0
    } else {
        opaque::to_compiler(g.shuffle.shift)
    }
}

/// Elements of the output.
#[inline(always)]
pub(super) fn elements<E: TileEpilogue>(g: &ImplicitGemmGeometry) -> usize {
    let planes = g.conv.n as usize * (g.conv.output_channels() >> filter_shift::<E>(g)) as usize;
    let plane = if filter_shift::<E>(g) > 0 {
        g.shuffle.plane
    } else {
        g.conv.output_pixels()
    };
    planes * plane as usize
}

/// The epilogue of a warp's results, one staged tile of pixels after another: a warp's shared memory has room
/// for one. All lanes of the warp make each call together.
pub(super) trait TileEpilogue: Sized {
    /// Whether a norm follows. The kernel then writes moments besides, and has no fix-up: a value that is not
    /// finite makes its sample NaN anyway.
    const HAS_NORM: bool;
    /// Whether the output is NHWC.
    const IS_NHWC: bool = false;
    /// Whether a staged tile is f32, not of the stored type.
    const STAGES_F32: bool = false;

    /// Applies the list to the accumulators of a half of the tile, unless results go through it as they are
    /// written.
    #[inline(always)]
    unsafe fn apply_list<F: Format, const SUMS: usize>(
        results: &Results<'_, F, SUMS, Self>,
        sums: &mut [f32; SUMS],
    ) {
        if is_without_norm::<Self>(&results.g) && !results.output.without_norm.list.is_empty() {
            results.list(sums);
        }
    }

    /// Stores staged tile `number` of a half to shared memory. Moments are taken of the values that it leaves
    /// in `sums`.
    ///
    /// # Safety
    /// No lane reads the previous staged tile any more.
    unsafe fn stage<F: Format, const SUMS: usize>(
        results: &Results<'_, F, SUMS, Self>,
        sums: &mut [f32; SUMS],
        number: usize,
    );

    /// Writes the staged tile, whose pixels are those from `first` on, to the output.
    ///
    /// # Safety
    /// After a warp barrier that follows the stores to shared memory.
    unsafe fn write<F: Format, const SUMS: usize>(results: &Results<'_, F, SUMS, Self>, first: u32);

    /// Recomputes NaN results of the tile, if a lane has `seen` a NaN.
    ///
    /// # Safety
    /// After all calls of [`write`](Self::write).
    #[inline(always)]
    unsafe fn fix_up<F: Format, const SUMS: usize>(
        results: &Results<'_, F, SUMS, Self>,
        seen: bool,
    ) {
        results.fix_up(seen);
    }
}

/// The results of a warp: `WARP_FILTERS` filters by the pixels of its accumulators, from the first pixel of
/// half `first_half` on.
pub(super) struct Results<'a, F: Format, const SUMS: usize, E: TileEpilogue> {
    pub(super) memory: Memory,
    pub(super) output: &'a Output<'a, F, E>,
    pub(super) g: ImplicitGemmGeometry,
    pub(super) place: &'a TileCoord,
    pub(super) first_half: u32,
    pub(super) lane: u32,
    /// The warp's first filter among those of the block, and its channel.
    pub(super) filter: u32,
    pub(super) channel: u32,
    /// The number of the warp's filters that exist.
    pub(super) filters: u32,
    /// The warp's rows of results in shared memory.
    pub(super) rows: Rows<F::Stored>,
}

impl<'a, F: Format, const SUMS: usize, E: TileEpilogue> Results<'a, F, SUMS, E> {
    /// Staged tiles of a half: the rows in shared memory hold one at a time.
    pub(super) const STAGED_TILES: usize = (HALF_PIXELS / Self::STAGED_PIXELS) as usize;

    /// Pixels of a staged tile.
    const STAGED_PIXELS: u32 = match E::STAGES_F32 {
        true => Rows::<f32>::PIXELS,
        false => Rows::<F::Stored>::PIXELS,
    };

    /// The results of this thread's warp.
    #[inline(always)]
    pub(super) unsafe fn new(
        g: &ImplicitGemmGeometry,
        memory: &Memory,
        output: &'a Output<'a, F, E>,
        place: &'a TileCoord,
    ) -> Self {
        // Recomputed here; kept values derived from it would take registers during the mainloop.
        let thread = opaque::to_compiler(thread::thread_idx_x());
        let g = ImplicitGemmGeometry {
            offsets: opaque::to_compiler(g.offsets),
            filter_tiles: opaque::to_compiler(g.filter_tiles),
            conv: ConvGeometry {
                z: opaque::to_compiler(g.conv.z),
                ..g.conv
            },
            ..*g
        };
        let work = memory.work(&g);
        let warp = thread / WARP_THREADS;
        let (filter, first_half) = share_of(
            warp,
            opaque::to_compiler(memory.mainloop.tiles),
            SUMS == HALF_SUMS,
        );
        let OutputChannels {
            channel, filters, ..
        } = work.output_channels(filter);
        let memory = Memory::of(&g, memory.mainloop, F::OPERANDS);
        let words = (memory.results).slice(warp * WRITTEN_WORDS, WRITTEN_WORDS);
        Self {
            memory,
            output,
            g,
            place,
            first_half,
            lane: thread % WARP_THREADS,
            filter,
            channel,
            filters,
            rows: Rows::of(words),
        }
    }

    /// Writes the warp's output and moments of the tile. `input_descale` is the reciprocal scale of its
    /// sample.
    ///
    /// # Safety
    /// All lanes of the warp make this call together.
    #[inline(always)]
    pub(super) unsafe fn finish(&self, mut sums: [f32; SUMS], input_descale: f32) {
        let is_whole = self.is_whole();
        let mut seen = false;
        let mut half = self.first_half;
        loop {
            seen |= self.finish_half(&mut sums, half, is_whole, input_descale);
            if SUMS == HALF_SUMS || half + 1 == HALVES {
                break;
            }
            // The second half's registers are moved to the first half's, so that there is one copy of the
            // code.
            half = opaque::to_compiler(half + 1);
            unroll!(4, |quarter| {
                unroll!(16, |i| {
                    let at = 16 * quarter + i;
                    sums[at] = sums[(HALF_SUMS + at) % SUMS];
                });
            });
        }
        if !E::HAS_NORM && F::READS_DENSE && self.is_repeated(seen) {
            return;
        }
        E::fix_up(self, seen);
    }

    /// Whether a lane has `seen` a NaN in a tile that the second launch computes again.
    #[inline(always)]
    unsafe fn is_repeated(&self, seen: bool) -> bool {
        if !warp::warp_vote_any(warp::ALL_LANES, seen) {
            return false;
        }
        let work = self.memory.work(&self.g);
        let work_tile = self.place.sample * self.g.pixel_tiles() + self.place.tile;
        self.output.scales.are_exceeded(&work, work_tile)
    }

    /// Writes half `half` of the pixels, whose accumulators are the first [`HALF_SUMS`]. Without a norm,
    /// returns whether one of its results needs the fix-up.
    #[inline(always)]
    unsafe fn finish_half(
        &self,
        sums: &mut [f32; SUMS],
        half: u32,
        is_whole: bool,
        input_descale: f32,
    ) -> bool {
        let seen = self.scale(sums, input_descale);
        // All lanes have read the previous staged tile.
        warp::sync_warp(warp::ALL_LANES);
        E::stage(self, sums, 0);
        warp::sync_warp(warp::ALL_LANES);
        if E::HAS_NORM {
            // All values of the half have been rounded by now: f32 needs no rounding, and other types have
            // one staged tile.
            self.take_moments(sums, half, is_whole);
        }
        let mut staged_tile = 0;
        loop {
            let first = half * HALF_PIXELS + staged_tile * Self::STAGED_PIXELS;
            E::write(self, first);
            staged_tile = opaque::to_compiler(staged_tile + 1);
            // There are one or two.
            if Self::STAGED_TILES == 1 || staged_tile > 1 {
                break;
            }
            warp::sync_warp(warp::ALL_LANES);
            E::stage(self, sums, 1);
            warp::sync_warp(warp::ALL_LANES);
        }
        seen
    }

    /// Writes the moments of the warp's filters over half `half` of the tile's pixels, one for each
    /// `moment_channels` neighbouring filters.
    #[inline(always)]
    unsafe fn take_moments(&self, sums: &[f32; SUMS], half: u32, is_whole: bool) {
        let value = |i: usize, n: usize, j: usize| sums[4 * n + 2 * i + j];
        // A whole tile needs no bounds check for each pixel.
        let (count, both) = if is_whole {
            let inside = Inside::all(HALF_OCTETS);
            (inside.count, inside.moments_of_two(HALF_OCTETS, value))
        } else {
            let inside = self.inside(half);
            (inside.count, inside.moments_of_two(HALF_OCTETS, value))
        };
        let mut both = both.map(|[mean, m2]| Moments { count, mean, m2 });
        let together = self.g.moment_channels;
        let mut filters = 1;
        // Combine with the next quads. Each round leaves half as many moments.
        while filters < together.min(ROW_FILTERS) {
            opaque::not_unrolled();
            both = both.map(|moments| moments.and(moments.of_lane_behind(4 * filters)));
            filters = opaque::to_compiler(2 * filters);
        }
        if together > ROW_FILTERS {
            both[0] = both[0].and(both[1]);
        }
        // Each lane of a quad has both rows; two lanes write one each.
        let i = self.lane % 4;
        let Moments { count, mean, m2 } = if i == 0 { both[0] } else { both[1] };
        let filter = self.lane / 4 + ROW_FILTERS * i;
        if i < 2 && filter < self.filters && filter & (together - 1) == 0 {
            self.write_moments(filter, half, [count, mean, m2, 0.0]);
        }
    }

    /// Whether all pixels of the tile are within the output.
    #[inline(always)]
    pub(super) fn is_whole(&self) -> bool {
        self.g.tile_pixels() == WARP_SPECIALIZED.pixels() && is_within(&self.made(), self.place)
    }

    /// The index of the warp's filters among neighbouring outputs in depth.
    #[inline(always)]
    pub(super) fn output_d(&self) -> u32 {
        which_output(&self.g, self.filter)
    }

    /// Returns the geometry with only the outputs in depth that the warp's filters compute.
    #[inline(always)]
    fn made(&self) -> ImplicitGemmGeometry {
        let others = self.g.outputs_d - 1 - self.output_d();
        ImplicitGemmGeometry {
            conv: ConvGeometry {
                z: (self.g.conv.z + others) >> self.g.outputs_d.trailing_zeros(),
                ..self.g.conv
            },
            ..self.g
        }
    }

    /// Returns the last coordinates of the tile within the output, in the form of [`limits`].
    #[inline(always)]
    pub(super) unsafe fn limits(&self) -> u32 {
        let made = self.made();
        // The second of two outputs may be beyond the output's depth.
        if self.place.z < made.conv.z {
            limits(&made, self.place)
        } else {
            NO_PIXELS
        }
    }

    /// The first output slice of the tile.
    #[inline(always)]
    pub(super) fn first_slice(&self) -> u32 {
        self.place.z * self.g.outputs_d + self.output_d()
    }

    /// The pixels of half `half` that are within the output.
    #[inline(always)]
    unsafe fn inside(&self, half: u32) -> Inside {
        Inside::of_bits(self.inside_bits(half))
    }

    /// Returns the pixels of half `half` that are within the output, as bits: the lane's two pixels of octet
    /// `n` are bits `2 * n` and `2 * n + 1`.
    #[inline(always)]
    pub(super) unsafe fn inside_bits(&self, half: u32) -> u32 {
        let limits = self.limits();
        let first = half * HALF_PIXELS + 2 * (self.lane % 4);
        let (mut bits, mut n) = (0, 0);
        while n < HALF_OCTETS {
            opaque::not_unrolled();
            unroll!(4, |i| {
                let octet = n + i as u32;
                let pixels = self.memory.pixels.load_vec::<2>(first + 8 * octet);
                unroll!(2, |j| {
                    bits |= u32::from(is_inside(limits, pixels[j])) << (2 * octet + j as u32);
                });
            });
            n = opaque::to_compiler(n + 4);
        }
        bits
    }

    /// Recomputes NaN results that the warp wrote, if a lane has `seen` one.
    #[inline(always)]
    pub(super) unsafe fn fix_up(&self, seen: bool) {
        let g = &self.g;
        let first_pixel = self.first_half * HALF_PIXELS;
        let written = Written {
            without_norm: &self.output.without_norm,
            y: GlobalMut::new(self.output.y, elements::<E>(g)),
            g,
            place: self.place,
            output_d: self.output_d(),
            pixels: self.memory.pixels,
            channels: self.memory.channels,
            first_filter: self.filter,
            filter_step: 1,
            filters_end: self.filter + self.filters,
            first_channel: self.channel.wrapping_sub(self.filter),
            first_pixel,
            pixels_end: first_pixel + (SUMS / HALF_SUMS) as u32 * HALF_PIXELS,
        };
        written.fix_up::<true>(seen);
    }

    /// Writes the moments of the warp's filter `filter` over a half of the tile's pixels, combined with the
    /// moments of the following filters.
    #[inline(always)]
    unsafe fn write_moments(&self, filter: u32, half: u32, moments: [f32; COUNTED_ELEMENTS]) {
        let conv = &self.g.conv;
        let outputs = self.g.outputs_d;
        let parts = (self.g.pixel_tiles() * outputs * HALVES) as usize;
        let planes = conv.n as usize * conv.output_channels() as usize;
        let shift = self.g.moment_channels.trailing_zeros();
        let at = (self.plane(filter) >> shift) * parts
            + ((self.place.tile * outputs + self.output_d()) * HALVES + half) as usize;
        let elements = (planes >> shift) * parts * COUNTED_ELEMENTS;
        GlobalMut::new(self.output.moments, elements).store_vec(at * COUNTED_ELEMENTS, moments);
    }

    /// The plane of the warp's filter `filter` in a tensor of `(n, k, ..)`.
    #[inline(always)]
    pub(super) fn plane(&self, filter: u32) -> usize {
        let channels = self.g.conv.output_channels() as usize;
        self.place.sample as usize * channels + (self.channel + filter) as usize
    }
}
