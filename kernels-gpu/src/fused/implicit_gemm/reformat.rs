//! The reformat: the padded input as K-vectors of 16-bit values.
//!
//! f32 values are multiplied by a power of two before they are rounded to f16, so that the largest magnitude
//! of a sample is between `2^8` and `2^15`. The rounding errors are then small even beside values ten
//! thousand times smaller than the largest. Any scale with this property will do, so most samples need not be
//! scanned first. A first pass reformats at the optimistic [`OPTIMISTIC_SCALE`] and records the largest
//! magnitude. A second pass reformats again the samples that the scale does not suit.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, kernel, math, shared_array, thread, warp};
use launch_config::WARP_THREADS;
use launch_config::implicit_gemm::{
    ImplicitGemmGeometry, K_VECTOR_VALUES, K_VECTOR_WORDS, K_VECTORS_PER_THREAD, SPREAD_THREADS,
};

use super::format::{Bf16, Bf16x3, F16, F16x2, Format, ScaledF16};
use crate::parts::index::div_rem;
use crate::parts::prescale::prescale_for;
use crate::parts::unroll::unroll;

/// The scale of samples whose largest magnitude is within [`OPTIMISTIC_MIN`] and [`OPTIMISTIC_MAX`].
pub(super) const OPTIMISTIC_SCALE: f32 = 512.0;
pub(super) const OPTIMISTIC_DESCALE: f32 = 1.0 / OPTIMISTIC_SCALE;

/// The smallest sample maximum for the optimistic scale, which scales it to `2^8`. Two f16 have an error of
/// up to `2^-22` of a value or `2^-25` (half of the smallest f16), whichever is more. The latter is `2^-33`
/// of the sample's largest value, which matters for channels much smaller than others.
const OPTIMISTIC_MIN: f32 = 0.5;

/// The largest sample maximum for the optimistic scale, which scales it to half of f16's range.
pub(super) const OPTIMISTIC_MAX: f32 = 64.0;

/// Values of a K-vector.
const VALUES: usize = K_VECTOR_VALUES as usize;

/// Warps of a block.
const WARPS: u32 = SPREAD_THREADS / WARP_THREADS;

shared_array! {
    /// The bits of the largest magnitude in each warp.
    static IMPLICIT_GEMM_LARGEST: [u32; WARPS as usize];
}

/// Returns the largest of `bits` over all threads of the block.
///
/// # Safety
/// All threads of the block make this call, once in a kernel.
#[inline(always)]
unsafe fn largest_of_block(bits: u32) -> u32 {
    let of_warps = IMPLICIT_GEMM_LARGEST.view();
    let thread = thread::thread_idx_x();
    warp::sync_warp(warp::ALL_LANES);
    let of_warp = warp::warp_reduce_max(warp::ALL_LANES, bits);
    if thread.is_multiple_of(WARP_THREADS) {
        of_warps.store(thread / WARP_THREADS, of_warp);
    }
    thread::sync_threads();
    let [a, b, c, d] = of_warps.load_vec::<4>(0);
    let [e, f, g, h] = of_warps.load_vec::<4>(4);
    a.max(b).max(c.max(d)).max(e.max(f).max(g.max(h)))
}
const _: () = assert!(WARPS == 8);

/// Returns the bits of a finite value's magnitude; 0 for infinities and NaN. The bits have the order of the
/// magnitudes.
#[inline(always)]
pub(super) fn magnitude(x: f32) -> u32 {
    let bits = math::abs(x).to_bits();
    if bits < f32::INFINITY.to_bits() {
        bits
    } else {
        0
    }
}

/// The input and the reformatted input.
struct Reformatter<'a, T: Storage> {
    x: *const T,
    reformatted: *mut u32,
    g: &'a ImplicitGemmGeometry,
}

impl<T: Storage> Reformatter<'_, T> {
    /// Returns the bits of the largest magnitude in the thread's share of a whole sample.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    unsafe fn largest_of_thread(&self, sample: u32) -> u32 {
        let elements = self.g.sample_elements() as usize;
        let all = self.g.conv.n as usize * elements;
        let x = Global::new(self.x, all).slice(sample as usize * elements, elements);
        const STEP: usize = SPREAD_THREADS as usize;
        let mut at = thread::thread_idx_x() as usize;
        let mut bits = 0;
        while at + 7 * STEP < elements {
            let mut values = [T::from_f32(0.0); 8];
            unroll!(8, |i| {
                values[i] = x.load(at + i * STEP);
            });
            unroll!(8, |i| {
                bits = bits.max(magnitude(values[i].to_f32()));
            });
            at += 8 * STEP;
        }
        while at < elements {
            bits = bits.max(magnitude(x.load(at).to_f32()));
            at += STEP;
        }
        bits
    }

    /// Reformats the K-vectors of block `block` of a sample, with values times `scale`, and returns the bits
    /// of the thread's largest magnitude.
    #[inline(always)]
    unsafe fn pack<F: Format<Stored = T>>(&self, sample: u32, block: u32, scale: f32) -> u32 {
        #[cfg(hopper)]
        if F::OPERANDS.parts == 1 && self.g.has_nhwc_tile() {
            return self.reformat_to_nhwc::<F>(sample, block, scale);
        }
        match self.g.k_vector_channels {
            8 => self.pack_of::<F, 8>(sample, block, scale),
            4 => self.pack_of::<F, 4>(sample, block, scale),
            2 => self.pack_of::<F, 2>(sample, block, scale),
            _ => self.pack_of::<F, 1>(sample, block, scale),
        }
    }

    /// Reformats to NHWC, two planes at a time. Each lane has two neighbouring pixels; the number of pixels
    /// is even. Two lanes then exchange K-vectors and write one pixel at a time, so that both K-vectors of a
    /// sector are written together.
    #[cfg(hopper)]
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    unsafe fn reformat_to_nhwc<F: Format<Stored = T>>(
        &self,
        sample: u32,
        block: u32,
        scale: f32,
    ) -> u32 {
        let (g, conv) = (self.g, &self.g.conv);
        // Consecutive blocks have the planes of the same pixels, so that whole memory transactions are
        // written together.
        let (block, pair) = div_rem(block, conv.groups * g.reformatted_planes());
        let (group, pair_of_group) = div_rem(pair, g.reformatted_planes());
        let pixels = conv.input_pixels();
        let first_channel = (2 * pair_of_group * K_VECTOR_VALUES).min(conv.group_c);
        let channels = (conv.group_c - first_channel).min(2 * K_VECTOR_VALUES) as usize;
        let plane = pixels as usize;
        let first_plane = sample as usize * conv.input_channels() as usize
            + (group * conv.group_c + first_channel) as usize;
        let all_planes = conv.n as usize * conv.input_channels() as usize;
        let x =
            Global::new(self.x, all_planes * plane).slice(first_plane * plane, channels * plane);
        let column = (conv.groups * g.planes) as usize;
        let all_k_vectors = conv.n as usize * plane * column;
        let reformatted = GlobalMut::new(self.reformatted, all_k_vectors * K_VECTOR_WORDS as usize);
        let thread = thread::thread_idx_x();
        let odd = thread % 2;
        let of_pixel = (2 * pair + odd) as usize;
        let mut pixel = block * K_VECTORS_PER_THREAD * SPREAD_THREADS + 2 * thread;
        let mut bits = 0;
        let mut count = 0;
        // The condition is uniform over a warp.
        while count < K_VECTORS_PER_THREAD && pixel - 2 * (thread % WARP_THREADS) < pixels {
            let mut values = [[T::from_f32(0.0); 2]; 2 * VALUES];
            unroll!(16, |c| {
                if c < channels && pixel < pixels {
                    values[c] = x.load_vec::<2>(pixel as usize + c * plane);
                }
            });
            // The two K-vectors of each of the two pixels.
            let mut words = [[0; VALUES]; 2];
            unroll!(2, |of_two| {
                unroll!(8, |i| {
                    let (low, high) = (values[2 * i][of_two], values[2 * i + 1][of_two]);
                    if F::OPERANDS.scaled {
                        let (low, high) = (low.to_f32(), high.to_f32());
                        bits = bits.max(magnitude(low)).max(magnitude(high));
                        words[of_two][i] = F::pack(low * scale, high * scale);
                    } else {
                        words[of_two][i] = F::join(low, high);
                    }
                });
            });
            unroll!(2, |of_two| {
                // The even lane keeps the first K-vector of both lanes' pixels, the odd lane the second.
                let (mut first, mut second) = ([0; 4], [0; 4]);
                let words = words[of_two];
                unroll!(4, |i| {
                    let given = if odd == 0 { words[4 + i] } else { words[i] };
                    let (taken, _) =
                        warp::warp_shuffle_xor(warp::ALL_LANES, given, 1, WARP_THREADS);
                    (first[i], second[i]) = if odd == 0 {
                        (words[i], taken)
                    } else {
                        (taken, words[4 + i])
                    };
                });
                let of_even = pixel - 2 * odd + of_two as u32;
                let at = |pixel: u32| {
                    let pixel = sample as usize * plane + pixel as usize;
                    (pixel * column + of_pixel) * K_VECTOR_WORDS as usize
                };
                if of_even < pixels {
                    reformatted.store_vec(at(of_even), first);
                }
                if of_even + 2 < pixels {
                    reformatted.store_vec(at(of_even + 2), second);
                }
            });
            count += 2;
            pixel += 2 * SPREAD_THREADS;
        }
        bits
    }

    /// Reformats to planes of K-vectors of `CHANNELS` channels.
    #[inline(always)]
    unsafe fn pack_of<F: Format<Stored = T>, const CHANNELS: usize>(
        &self,
        sample: u32,
        block: u32,
        scale: f32,
    ) -> u32 {
        let (g, conv) = (self.g, &self.g.conv);
        let (plane, block) = div_rem(block, g.plane_blocks());
        let (group, plane_of_group) = div_rem(plane, g.planes);
        let plane_elements = conv.input_pixels() as usize;
        let first_channel = plane_of_group * CHANNELS as u32;
        let channels = (conv.group_c - first_channel).min(CHANNELS as u32) as usize;
        let first_plane = sample as usize * conv.input_channels() as usize
            + (group * conv.group_c + first_channel) as usize;
        let all_planes = conv.n as usize * conv.input_channels() as usize;
        let x = Global::new(self.x, all_planes * plane_elements)
            .slice(first_plane * plane_elements, channels * plane_elements);
        let plane_k_vectors = g.plane_k_vectors();
        let parts = F::OPERANDS.parts;
        let planes = (conv.groups * g.planes) as usize;
        let all_k_vectors = conv.n as usize * planes * (parts * plane_k_vectors) as usize;
        let reformatted = GlobalMut::new(self.reformatted, all_k_vectors * K_VECTOR_WORDS as usize);
        let first_k_vector =
            (sample as usize * planes + plane as usize) * (parts * plane_k_vectors) as usize;

        let mut k_vector = block * K_VECTORS_PER_THREAD * SPREAD_THREADS + thread::thread_idx_x();
        let (mut row, mut place) = div_rem(k_vector, g.row_k_vectors());
        let (row_step, place_step) = div_rem(SPREAD_THREADS, g.row_k_vectors());
        let mut bits = 0;
        let mut count = 0;
        while count < K_VECTORS_PER_THREAD && k_vector < plane_k_vectors {
            // Most inputs have one stride phase and one depth.
            let (stride_phase, column) = if g.stride_phases == 1 {
                (0, place)
            } else {
                div_rem(place, g.stride_phase_columns)
            };
            let (d, h) = if g.reformatted_d == 1 {
                (0, row)
            } else {
                div_rem(row, g.reformatted_h)
            };
            let (d, h) = (d.wrapping_sub(conv.pad_d), h.wrapping_sub(conv.pad_h));
            let w = column * conv.stride_w + stride_phase;
            let row_inside = d < conv.d && h < conv.h;
            let row_start = d.wrapping_mul(conv.h).wrapping_add(h).wrapping_mul(conv.w);
            let mut values = [T::from_f32(0.0); VALUES];
            unroll!(8, |j| {
                let used = w + j as u32 * conv.dilation_w;
                let from = used.wrapping_sub(conv.pad_w);
                // A K-vector holds `VALUES / CHANNELS` columns, each with all of its channels.
                if j < VALUES / CHANNELS && row_inside && used < g.used_w && from < conv.w {
                    let at = row_start.wrapping_add(from) as usize;
                    unroll!(8, |c| {
                        if c < CHANNELS && c < channels {
                            values[(j * CHANNELS + c) % VALUES] = x.load(at + c * plane_elements);
                        }
                    });
                }
            });
            let at = first_k_vector + k_vector as usize;
            if F::OPERANDS.passes > 1 {
                store_parts::<F>(
                    reformatted,
                    at,
                    plane_k_vectors,
                    parts,
                    values.map(T::to_f32),
                );
            }
            let mut words = [0; 4];
            let mut rests = [0; 4];
            unroll!(4, |i| {
                let (low, high) = (values[2 * i], values[2 * i + 1]);
                if F::OPERANDS.scaled {
                    let (low, high) = (low.to_f32(), high.to_f32());
                    bits = bits.max(magnitude(low)).max(magnitude(high));
                    let (low, high) = (low * scale, high * scale);
                    words[i] = F::pack(low, high);
                    rests[i] = F::rest(words[i], low, high);
                } else {
                    words[i] = F::join(low, high);
                }
            });
            if F::OPERANDS.passes == 1 {
                reformatted.store_vec(at * K_VECTOR_WORDS as usize, words);
            }
            if F::OPERANDS.step_parts() == 2 {
                let at = at + plane_k_vectors as usize;
                reformatted.store_vec(at * K_VECTOR_WORDS as usize, rests);
            }
            count += 1;
            k_vector += SPREAD_THREADS;
            row += row_step;
            place += place_step;
            if place >= g.row_k_vectors() {
                place -= g.row_k_vectors();
                row += 1;
            }
        }
        bits
    }
}

/// Stores the `parts` parts of a K-vector's values, each in the next plane. The first part is the value
/// rounded to an operand, the second its rounding error rounded likewise, and so on. The rounding error of an
/// infinity is NaN.
#[inline(always)]
unsafe fn store_parts<F: Format>(
    reformatted: GlobalMut<u32>,
    first: usize,
    plane_k_vectors: u32,
    parts: u32,
    mut values: [f32; VALUES],
) {
    let mut part = 0;
    while part < parts {
        let mut words = [0; 4];
        unroll!(4, |i| {
            let [low, high] = [values[2 * i], values[2 * i + 1]];
            words[i] = F::pack(low, high);
            [values[2 * i], values[2 * i + 1]] = F::left(words[i], low, high);
        });
        let at = first + (part * plane_k_vectors) as usize;
        reformatted.store_vec(at * K_VECTOR_WORDS as usize, words);
        part += 1;
    }
}

/// A block reformats some K-vectors of one plane, or of two planes to NHWC.
///
/// *Launch*: `g.reformat_shape()`. Blocks of one plane are neighbours.
/// *Mapping*: consecutive threads have consecutive K-vectors; each thread has `K_VECTORS_PER_THREAD`, a
/// block's width apart. *Barriers*: one if values are scaled. *Traffic*: each element of the input is read
/// once for every column that K-vectors hold (from cache), the reformatted input is written once.
///
/// # Safety
/// `x` has `g.conv.n * g.sample_elements()` elements, `reformatted` the config's
/// `reformatted_words()`. Where values are scaled, `descales` has an element for each sample and
/// `largest` one for each block.
#[kernel(
    instances(F: [f16x2_f32: F16x2, scaled_f16_f32: ScaledF16, bf16x3_f32: Bf16x3, f16: F16, bf16: Bf16]),
    max_threads = SPREAD_THREADS
)]
pub unsafe fn implicit_gemm_reformat<F: Format>(
    x: *const F::Stored,
    reformatted: *mut u32,
    descales: *mut f32,
    largest: *mut u32,
    g: &ImplicitGemmGeometry,
) {
    let (sample, block) = div_rem(thread::block_idx_x(), g.sample_blocks());
    let reformatter = Reformatter { x, reformatted, g };
    let mut scale = 1.0;
    if F::OPERANDS.scaled {
        scale = OPTIMISTIC_SCALE;
        if g.prescale.is_scanned() {
            let bits = largest_of_block(reformatter.largest_of_thread(sample));
            let [scale_of_sample, descale] = prescale_for(f32::from_bits(bits));
            scale = scale_of_sample;
            if block == 0 && thread::thread_idx_x() == 0 {
                GlobalMut::new(descales, g.conv.n as usize).store(sample as usize, descale);
            }
        }
    }
    let bits = reformatter.pack::<F>(sample, block, scale);
    if F::OPERANDS.scaled && !g.prescale.is_scanned() {
        let bits = largest_of_block(bits);
        if thread::thread_idx_x() == 0 {
            let stages = g.conv.n as usize * g.sample_blocks() as usize;
            GlobalMut::new(largest, stages).store(thread::block_idx_x() as usize, bits);
        }
    }
}

/// Computes the scale of each sample if samples were not scanned, and reformats the samples that the
/// optimistic scale does not suit. If the producer converts the input, the kernel only computes the scales.
///
/// *Launch*: `g.rescale_shape()`. *Mapping*: blocks of one sample take blocks of its K-vectors
/// in turn. *Barriers*: one.
/// *Traffic*: the largest magnitudes; for samples that are reformatted again, the traffic of the reformat.
///
/// # Safety
/// As for the reformat. `largest` has `recorded` elements for each sample: one for each block of the
/// reformat, or the magnitudes that the converting producers recorded.
#[kernel(instances(F: [f16x2_f32: F16x2, scaled_f16_f32: ScaledF16]), max_threads = SPREAD_THREADS)]
pub unsafe fn implicit_gemm_rescale<F: Format>(
    x: *const F::Stored,
    reformatted: *mut u32,
    descales: *mut f32,
    largest: *const u32,
    g: &ImplicitGemmGeometry,
    recorded: u32,
) {
    let (sample, first) = div_rem(thread::block_idx_x(), g.rescaling_blocks());
    let recorded = recorded as usize;
    let largest = Global::new(largest, g.conv.n as usize * recorded);
    let largest = largest.slice(sample as usize * recorded, recorded);
    let mut bits = 0;
    let mut at = thread::thread_idx_x() as usize;
    while at < recorded {
        bits = bits.max(largest.load(at));
        at += SPREAD_THREADS as usize;
    }
    let largest = f32::from_bits(largest_of_block(bits));
    let usual = (OPTIMISTIC_MIN..=OPTIMISTIC_MAX).contains(&largest) || largest == 0.0;
    let [scale, descale] = if usual {
        [OPTIMISTIC_SCALE, OPTIMISTIC_DESCALE]
    } else {
        prescale_for(largest)
    };
    if first == 0 && thread::thread_idx_x() == 0 {
        GlobalMut::new(descales, g.conv.n as usize).store(sample as usize, descale);
    }
    if usual || g.is_converted_in_producer() {
        return;
    }
    let reformatter = Reformatter { x, reformatted, g };
    let mut block = first;
    while block < g.sample_blocks() {
        reformatter.pack::<F>(sample, block, scale);
        block += g.rescaling_blocks();
    }
}
