//! The NaN/Inf fix-up pass of convolutions without a norm.
//!
//! A window's operands are padded with filters of 0, which meet values outside of the window. The product of
//! 0 and a finite value is 0. The product of 0 and an infinity is NaN, and makes the sum NaN. Therefore a
//! result that is not NaN never met an infinity outside of its window. A NaN result is recomputed from the
//! original input and filters, with one FMA for each value of its own window. If it is NaN again, it is NaN
//! in PyTorch, too.
//!
//! One thread computes a whole window, and nothing is shared. An input with a few infinities costs a few
//! windows; an input full of NaN costs as much as a naive convolution.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::shared::Shared;
use cuda_std::{Storage, math, opaque, thread, warp};
use launch_config::WARP_THREADS;
use launch_config::implicit_gemm::{
    FilterLoader, ImplicitGemmGeometry, K_VECTOR_VALUES, K_VECTOR_WORDS, Loader, OUTSIDE,
    PixelShuffle, RoundedEpilogue, RoundedFunction,
};

use launch_config::pointwise::OperandList;

use super::format::Format;
use super::tables::from_word;
use super::tile_coord::TileCoord;
use crate::parts::index::div_rem;
use crate::parts::pointwise::{InRegisters, apply_with, hardswish, silu};
use crate::parts::store::{GainAndShift, StoreEpilogue, sloped};

/// The original tensors of a convolution, and its epilogue.
#[derive(Clone, Copy)]
pub(super) struct WithoutNorm<'a, T: Storage> {
    pub(super) x: *const T,
    pub(super) weight: *const T,
    pub(super) store: StoreEpilogue,
    /// The pointwise operations on rounded results, and their residual.
    pub(super) list: &'a OperandList,
    pub(super) residual: *const T,
    /// Gain and shift of the list, if it has them.
    pub(super) behind: GainAndShift,
    /// The epilogue of rounded results of an NHWC output; `None` for other outputs.
    pub(super) rounded: Option<Rounded<T>>,
}

/// The epilogue of rounded NHWC results, and the residual that it adds, in the layout of the output.
#[derive(Clone, Copy)]
pub(super) struct Rounded<T> {
    pub(super) epilogue: RoundedEpilogue,
    pub(super) residual: *const T,
}

impl<T: Storage> WithoutNorm<'_, T> {
    /// The placeholder for kernels with a norm, which do not read it.
    #[cfg(hopper)]
    pub(super) const UNUSED: Self = Self {
        x: core::ptr::null(),
        weight: core::ptr::null(),
        store: StoreEpilogue {
            of_channels: GainAndShift::UNUSED,
            epilogue: launch_config::implicit_gemm::Epilogue::NONE,
        },
        list: &OperandList::EMPTY,
        residual: core::ptr::null(),
        behind: GainAndShift::UNUSED,
        rounded: None,
    };

    /// Whether the list has a residual. Read at each call: a kept flag would take a register during the
    /// mainloop.
    #[inline(always)]
    pub(super) fn has_residual(&self) -> bool {
        opaque::to_compiler(self.list.residual_at) != OperandList::ABSENT
    }

    /// Applies the list to rounded results of channel `channel` of `channels`, with their residuals, to the
    /// accuracy of `A`.
    ///
    /// # Safety
    /// The output has the channel.
    #[inline(always)]
    pub(super) unsafe fn listed<A: Storage, const N: usize>(
        &self,
        values: [f32; N],
        residual: Option<[f32; N]>,
        (channel, channels): (u32, u32),
    ) -> [f32; N] {
        let (behind, channels) = (self.behind, channels as usize);
        let of_channels = move || [behind.of_channel(channel as usize, channels); N];
        apply_with::<A, N>(
            self.list,
            values,
            residual,
            Some(of_channels),
            InRegisters(values),
        )
    }

    /// Recomputes the result of a sample and a channel (`of`) at a pixel of the output from the original
    /// tensors, and applies epilogue and list. The array has bias, reciprocal scale, gain and shift of the
    /// filter.
    ///
    /// # Safety
    /// The output has the channel and the pixel. Only `WARP_SPECIALIZED` tiles have channels-last inputs.
    #[inline(always)]
    pub(super) unsafe fn recomputed<const WARP_SPECIALIZED: bool>(
        &self,
        g: &ImplicitGemmGeometry,
        shuffle: &PixelShuffle,
        of: (u32, u32),
        pixel: [u32; 3],
        [bias, _, gain, shift]: [f32; 4],
        residual: Option<[f32; 1]>,
    ) -> T {
        let sum = convolve::<T, WARP_SPECIALIZED>(self.x, self.weight, g, shuffle, of, pixel);
        let value = T::from_f32(self.store.map([gain, shift], sum + bias));
        if self.list.is_empty() {
            return value;
        }
        let of_output = g.conv.output_channels() >> shuffle.shift;
        let channel = (of.1 >> shuffle.shift, of_output);
        let [listed] = self.listed::<T, 1>([value.to_f32()], residual, channel);
        T::from_f32(listed)
    }
}

/// Returns the result, or NaN if it needs the fix-up. In the bf16x3 split, a large finite value may round to
/// an infinite bf16, so infinite results need the fix-up too. (Scaled values never become infinite by
/// rounding.)
#[inline(always)]
pub(super) fn judged<F: Format>(result: f32) -> f32 {
    if F::OPERANDS.passes > 1 && !result.is_finite() {
        return f32::NAN;
    }
    result
}

/// Strides of samples, slices, rows and columns of a channels-last input, in elements. Channels are
/// contiguous.
struct Pixels {
    sample: usize,
    slice: usize,
    row: usize,
    column: usize,
}

impl Pixels {
    /// Recomputes the strides at each call: kept values would take registers during the mainloop.
    #[inline(always)]
    fn of(g: &ImplicitGemmGeometry) -> Self {
        let k_vectors = &g.k_vectors;
        let k_vector = opaque::to_compiler(K_VECTOR_VALUES) as usize;
        Self {
            sample: k_vectors.sample as usize * k_vector,
            slice: k_vectors.slice as usize * k_vector,
            row: k_vectors.row as usize * k_vector,
            column: k_vectors.column as usize * k_vector,
        }
    }

    /// Returns the offset of a pixel from its sample's first one.
    #[inline(always)]
    fn pixel(&self, [d, h, w]: [u32; 3]) -> usize {
        d as usize * self.slice + h as usize * self.row + w as usize * self.column
    }
}

/// Convolves one output window of a sample with filter `channel`, tap by tap and channel by channel, in the
/// order of `conv_direct`. Padding is 0.
///
/// Only `WARP_SPECIALIZED` tiles have channels-last inputs.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
unsafe fn convolve<T: Storage, const WARP_SPECIALIZED: bool>(
    x: *const T,
    weight: *const T,
    g: &ImplicitGemmGeometry,
    shuffle: &PixelShuffle,
    (sample, channel): (u32, u32),
    [z, p, q]: [u32; 3],
) -> f32 {
    let conv = &g.conv;
    let pixels = conv.input_pixels() as usize;
    let is_channels_last = WARP_SPECIALIZED
        && opaque::to_compiler(g.k_vectors.loader.code()) == Loader::CHANNELS_LAST.code();
    let all = if is_channels_last {
        (g.k_vectors.all_k_vectors(conv) * u64::from(K_VECTOR_VALUES)) as usize
    } else {
        conv.n as usize * conv.input_channels() as usize * pixels
    };
    let filters = conv.output_channels() as usize * conv.reduction() as usize;
    let (x, weight) = (Global::new(x, all), Global::new(weight, filters));
    let (group, _) = div_rem(channel, conv.group_k);
    let first_of_group = (group * conv.group_c) as usize;
    let first_plane = sample as usize * conv.input_channels() as usize + first_of_group;
    let filter = channel as usize * conv.reduction() as usize;
    let are_filters_channels_last =
        WARP_SPECIALIZED && opaque::to_compiler(g.filters.code()) == FilterLoader::IN_PLACE.code();
    let (mut sum, mut tap) = (0.0, 0);
    // The loops are not unrolled: this code rarely runs, and every instance of the kernel has it.
    let mut t = 0;
    while t < conv.t {
        // Negative (wrapped) in the padding.
        let d = (z * conv.stride_d + t * conv.dilation_d).wrapping_sub(conv.pad_d);
        let mut r = 0;
        while r < conv.r {
            let h = (p * conv.stride_h + r * conv.dilation_h).wrapping_sub(conv.pad_h);
            let mut s = 0;
            while s < conv.s {
                let w = (q * conv.stride_w + s * conv.dilation_w).wrapping_sub(conv.pad_w);
                let inside =
                    d < conv.d && h < conv.h && w < conv.w && shuffle.has_tap(channel, [t, r, s]);
                let element = if !inside {
                    0
                } else if is_channels_last {
                    let pixels = Pixels::of(g);
                    sample as usize * pixels.sample + pixels.pixel([d, h, w]) + first_of_group
                } else {
                    ((d * conv.h + h) * conv.w + w) as usize
                };
                let mut c = 0;
                while c < conv.group_c {
                    let at = if is_channels_last {
                        element + c as usize
                    } else {
                        (first_plane + c as usize) * pixels + element
                    };
                    let value = x.load(at).to_f32();
                    let value = if inside { value } else { 0.0 };
                    let of_filter = if are_filters_channels_last {
                        tap * conv.group_c + c
                    } else {
                        c * conv.taps() + tap
                    };
                    let weight = weight.load(filter + of_filter as usize);
                    sum = math::fma(value, weight.to_f32(), sum);
                    c = opaque::to_compiler(c + 1);
                }
                tap += 1;
                s = opaque::to_compiler(s + 1);
            }
            r = opaque::to_compiler(r + 1);
        }
        t = opaque::to_compiler(t + 1);
    }
    sum
}

/// The results that a warp wrote, of pixels of one tile.
pub(super) struct Written<'a, T: Storage> {
    pub(super) without_norm: &'a WithoutNorm<'a, T>,
    pub(super) y: GlobalMut<T>,
    pub(super) g: &'a ImplicitGemmGeometry,
    pub(super) place: &'a TileCoord,
    /// The index among neighbouring outputs in depth; only warp-specialized tiles have several.
    pub(super) output_d: u32,
    /// For each pixel, its packed coordinates in the tile.
    pub(super) pixels: Shared<u32>,
    /// For each filter of the block: bias, reciprocal of its scale, gain, shift.
    pub(super) channels: Shared<f32>,
    /// The warp's first filter, the distance to its next one, and the end of its filters.
    pub(super) first_filter: u32,
    pub(super) filter_step: u32,
    pub(super) filters_end: u32,
    /// The output channel of `first_filter`, less `first_filter`. It may wrap in the second half of a tile's
    /// filters.
    pub(super) first_channel: u32,
    /// The range of the warp's pixels.
    pub(super) first_pixel: u32,
    pub(super) pixels_end: u32,
}

impl<T: Storage> Written<'_, T> {
    /// Recomputes NaN results that the warp wrote, if any lane has seen one. Only `WARP_SPECIALIZED` tiles
    /// have channels-last inputs.
    ///
    /// # Safety
    /// All lanes of the warp make this call together, and no other warp wrote these results.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    pub(super) unsafe fn fix_up<const WARP_SPECIALIZED: bool>(&self, seen: bool) {
        warp::sync_warp(warp::ALL_LANES);
        if !warp::warp_vote_any(warp::ALL_LANES, seen) {
            return;
        }
        let (g, place) = (self.g, self.place);
        let conv = &g.conv;
        let shuffle = match self.without_norm.rounded {
            None if WARP_SPECIALIZED => PixelShuffle {
                shift: opaque::to_compiler(g.shuffle.shift),
                plane: opaque::to_compiler(g.shuffle.plane),
                ..g.shuffle
            },
            _ => PixelShuffle::NONE,
        };
        let of_output = conv.output_channels() >> shuffle.shift;
        let mut filter = self.first_filter;
        while filter < self.filters_end {
            let channel = self.first_channel.wrapping_add(filter);
            let (sample, pixels) = (place.sample as usize, conv.output_pixels() as usize);
            let channels = conv.output_channels() as usize;
            let mut pixel = self.first_pixel + thread::thread_idx_x() % WARP_THREADS;
            while pixel < self.pixels_end {
                let word = self.pixels.load(pixel);
                let [d, h, w] = from_word(word);
                let slice = if WARP_SPECIALIZED {
                    (place.z + d) * g.outputs_d + self.output_d
                } else {
                    place.z + d
                };
                let (z, p, q) = (slice, place.p + h, place.q + w);
                let is_inside = word != OUTSIDE && z < conv.z && p < conv.p && q < conv.q;
                if is_inside && shuffle.has_column(channel, q) {
                    let at = ((z * conv.p + p) * conv.q + q) as usize;
                    let to = match self.without_norm.rounded {
                        Some(_) => (sample * pixels + at) * channels + channel as usize,
                        None if shuffle.is_present() => {
                            let [channel, at] = shuffle.place(channel, [z, p, q]);
                            let plane = sample * of_output as usize + channel as usize;
                            plane * shuffle.plane as usize + at as usize
                        }
                        None => (sample * channels + channel as usize) * pixels + at,
                    };
                    if self.y.load(to).to_f32().is_nan() {
                        let mut residual = WARP_SPECIALIZED.then_some([0.0]);
                        if let Some(residual) = &mut residual
                            && self.without_norm.has_residual()
                        {
                            let all = Global::new(self.without_norm.residual, self.y.len());
                            *residual = [all.load(to).to_f32()];
                        }
                        let constants = self.channels.load_vec::<4>(filter * K_VECTOR_WORDS);
                        let mut value = self.without_norm.recomputed::<WARP_SPECIALIZED>(
                            g,
                            &shuffle,
                            (place.sample, channel),
                            [z, p, q],
                            constants,
                            residual,
                        );
                        if let Some(Rounded { epilogue, residual }) = self.without_norm.rounded
                            && size_of::<T>() == 2
                        {
                            let rounded = value.to_f32();
                            let mut finished = match epilogue.function {
                                RoundedFunction::SILU => silu::<T>(rounded),
                                RoundedFunction::HARDSWISH => hardswish(rounded),
                                _ => rounded,
                            };
                            if epilogue.residual.is_present() {
                                let added = Global::new(residual, self.y.len()).load(to);
                                finished = sloped(&epilogue.after, finished + added.to_f32());
                            }
                            value = T::from_f32(finished);
                        }
                        self.y.store(to, value);
                    }
                }
                pixel = opaque::to_compiler(pixel + WARP_THREADS);
            }
            filter = opaque::to_compiler(filter + self.filter_step);
        }
    }
}
