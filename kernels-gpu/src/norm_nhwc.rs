//! Group, instance and batch norm of channels-last tensors, with a list of pointwise functions.
//!
//! Two launches, and between them the launches that combine statistics; a batch norm with running statistics
//! needs the second one alone. A thread has the same channels in all of its pixels, mostly 16 bytes of them.
//! It therefore takes the moments of channels, which later launches combine into those of rows.
//! `launch_config::norm_nhwc` defines how threads are spread.
//!
//! ```text
//! norm_nhwc_moments:  for each eight pixels of the thread:
//!                         deviations from the mean of its earlier pixels -> mean and squared deviations
//!                     moments -> shared memory; barrier
//!                     for each channel of the block: combine the moments of its threads       # two rounds
//! norm_nhwc:          load the thread's first pixels
//!                     for each channel of the block, a thread: mean, rstd * weight, bias -> shared memory; barrier
//!                     for each pixel of the thread: load a later one; y = list((x - mean) * factor + bias)
//! ```

use core::ffi::c_void;

use cuda_std::global::{Global, GlobalMut};
use cuda_std::shared::Shared;
use cuda_std::{bf16, f16, kernel, math, opaque, shared_array, thread};
use launch_config::batch_norm::FoldGeometry;
use launch_config::norm::COUNTED_ELEMENTS;
use launch_config::norm_nhwc::{
    BLOCK_THREADS, MIN_BLOCKS, MOMENT_PIXELS, NormNhwcGeometry, THREAD_CHANNELS,
};
use launch_config::pointwise::OperandList;
use launch_config::{AffineType, Presence, VECTOR_ELEMENTS};

use crate::parts::batch_norm::Norm;
use crate::parts::channels::{Channels, Pixel};
use crate::parts::index::div_rem;
use crate::parts::map::clamp;
use crate::parts::moments::{self, Moments};
use crate::parts::planes::affine;
use crate::parts::pointwise::{KeepsNothing, apply_with_residual};
use crate::parts::unroll::unroll;

/// Numbers between the same moments of a thread's neighbouring channels. The eight beyond the threads avoid
/// bank conflicts.
const MOMENT_ROW: u32 = BLOCK_THREADS + 8;

shared_array! {
    /// The means of each thread's channels, then the squared deviations.
    static NORM_NHWC_THREADS: [f32; 2 * THREAD_CHANNELS * MOMENT_ROW as usize];

    /// The number of pixels of each thread, and of each share of the lanes.
    static NORM_NHWC_COUNTS: [f32; 2 * BLOCK_THREADS as usize];

    /// The means of the block's channels, then the factors, then the biases.
    static NORM_NHWC_CHANNELS: [f32; 3 * THREAD_CHANNELS * BLOCK_THREADS as usize];
}

/// Pixels that a thread loads before it normalises the first one.
const AHEAD: usize = 3;

/// The channels and pixels of a thread.
struct ThreadPlace {
    sample: usize,
    part: u32,
    /// The block's first channel.
    block_channel: u32,
    /// The thread's first channel.
    channel: u32,
    /// The thread's vector of the block's channels.
    vector: u32,
    /// The thread's index among the threads with the same channels.
    lane: u32,
    /// Its first pixel; the others are `g.lanes` apart, up to `end`.
    first: u32,
    end: u32,
    /// Whether the thread has channels in the tensor.
    takes_part: bool,
}

impl ThreadPlace {
    /// The place of the calling thread.
    ///
    /// # Safety
    /// The launch is `g.shape()`.
    #[inline(always)]
    unsafe fn of(g: &NormNhwcGeometry) -> Self {
        let (block, of_channels) = div_rem(thread::block_idx_x(), g.channel_blocks);
        let (sample, part) = div_rem(block, g.parts);
        let (lane, vector) = div_rem(thread::thread_idx_x(), g.block_vectors);
        let block_channel = of_channels * g.block_vectors * g.thread_channels;
        let channel = block_channel + vector * g.thread_channels;
        let first = part * g.part_pixels;
        Self {
            sample: sample as usize,
            part,
            block_channel,
            channel,
            vector,
            lane,
            first: first + lane,
            // Less than 2^32: both are less than 2^31.
            end: (first + g.part_pixels).min(g.pixels),
            takes_part: lane < g.lanes && channel < g.norm.channels,
        }
    }

    /// The index in the tensor of the thread's first element of pixel `pixel`.
    #[inline(always)]
    fn element(&self, g: &NormNhwcGeometry, pixel: u32) -> usize {
        let pixel = self.sample * g.pixels as usize + pixel as usize;
        pixel * g.norm.channels as usize + self.channel as usize
    }
}

/// The moments of the channels of a thread, which has taken `count` pixels.
struct ThreadMoments {
    count: f32,
    mean: Channels,
    m2: Channels,
}

impl ThreadMoments {
    /// Adds the first `count` of eight pixels, at least one. The deviations from the mean of the earlier
    /// pixels, or from the first pixel, have sums of squares of at most nine times the squared deviations
    /// from the new mean, so their difference is accurate.
    #[inline(always)]
    fn add<T: Pixel>(&mut self, pixels: [T::Raw; MOMENT_PIXELS as usize], count: u32) {
        if self.count == 0.0 {
            self.mean = T::values(pixels[0]);
        }
        let mut sums = [0.0; THREAD_CHANNELS];
        unroll!(8, |i| {
            let values = T::values(pixels[i]);
            unroll!(8, |c| {
                let deviation = if (i as u32) < count {
                    values[c] - self.mean[c]
                } else {
                    0.0
                };
                sums[c] += deviation;
                self.m2[c] = math::fma(deviation, deviation, self.m2[c]);
            });
        });
        self.count += count as f32;
        let reciprocal = math::reciprocal_approx(self.count);
        unroll!(8, |c| {
            [self.mean[c], self.m2[c]] = from_shift(self.mean[c], reciprocal, sums[c], self.m2[c]);
        });
    }
}

/// A block computes the moments of its channels over a part of a sample's pixels.
///
/// *Launch*: `g.shape()`.
/// *Mapping*: neighbouring threads have neighbouring vectors of channels, then neighbouring pixels. Later,
/// several threads combine the moments of a channel.
/// *Barriers*: one after the threads' moments are in shared memory, and one after those of several threads of
/// a channel are, if a block has fewer channels than threads.
/// *Traffic*: each element is read once; 16 bytes are written for each channel and part.
///
/// # Safety
/// `x` is channels last, has the elements of `g.norm` and is 16-byte aligned; `moments` has
/// `g.moment_elements()` and is 16-byte aligned. The geometry is for elements of `T`'s size.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS[0])]
pub unsafe fn norm_nhwc_moments<T: Pixel>(x: *const T, moments: *mut f32, g: &NormNhwcGeometry) {
    let x = Global::new(x, g.norm.elements() as usize);
    let place = ThreadPlace::of(g);
    let mut all = ThreadMoments {
        count: 0.0,
        mean: [0.0; THREAD_CHANNELS],
        m2: [0.0; THREAD_CHANNELS],
    };
    let has_eight = T::HAS_EIGHT && g.thread_channels == 8;
    let mut pixel = place.first;
    let mut at = place.element(g, pixel);
    while place.takes_part && pixel < place.end {
        // Opaque, so that no products with it take registers throughout the loop.
        let step = opaque::to_compiler(g.lanes) as usize * g.norm.channels as usize;
        if pixel + (MOMENT_PIXELS - 1) * g.lanes < place.end {
            let pixels = core::array::from_fn(|i| T::load(x, at + i * step, has_eight));
            all.add::<T>(pixels, MOMENT_PIXELS);
        } else {
            let mut count = 0;
            // Threads load their first pixel again in place of pixels that do not exist.
            let pixels = core::array::from_fn(|i| {
                let exists = pixel + i as u32 * g.lanes < place.end;
                count += u32::from(exists);
                T::load(x, if exists { at + i * step } else { at }, has_eight)
            });
            all.add::<T>(pixels, count);
        }
        pixel += MOMENT_PIXELS * g.lanes;
        at += MOMENT_PIXELS as usize * step;
    }
    let of_threads = NORM_NHWC_THREADS.view();
    let counts = NORM_NHWC_COUNTS.view();
    let thread = thread::thread_idx_x();
    counts.store(thread, all.count);
    unroll!(8, |c| {
        if c < 4 || T::HAS_EIGHT {
            store_channel(of_threads, c as u32, thread, all.mean[c], all.m2[c]);
        }
    });
    thread::sync_threads();

    // A lane combines one channel's moments of a share of the lanes, or, of few lanes, several channels'.
    let of_share = if has_eight { 8 } else { 4 };
    let shares = (g.lanes / of_share).max(1);
    let share = place.lane / of_share;
    if place.lane < g.lanes && share < shares {
        let mut c = place.lane % of_share;
        while c < of_share {
            let all = combined(g, &place, c, [0, share, g.lanes, shares]);
            if shares == 1 {
                store_moments(g, &place, moments, c, all);
            } else {
                let to = share * g.block_vectors + place.vector;
                store_channel(of_threads, c, to, all.mean, all.m2);
                if c == 0 {
                    counts.store(BLOCK_THREADS + to, all.count);
                }
            }
            c += g.lanes;
        }
    }
    if shares > 1 {
        thread::sync_threads();
        if place.lane < of_share {
            let all = combined(g, &place, place.lane, [BLOCK_THREADS, 0, shares, 1]);
            store_moments(g, &place, moments, place.lane, all);
        }
    }
}

/// Stores the moments of channel `c` of a thread, or of a share of the lanes.
#[inline(always)]
unsafe fn store_channel(to: Shared<f32>, c: u32, thread: u32, mean: f32, m2: f32) {
    to.store(c * MOMENT_ROW + thread, mean);
    to.store((THREAD_CHANNELS as u32 + c) * MOMENT_ROW + thread, m2);
}

/// Combines the moments of channel `c` of every `step`th lane from `first` to `end`. Their deviations are
/// from the mean of the first one. The lanes' numbers of pixels begin at `counts`.
#[inline(always)]
unsafe fn combined(
    g: &NormNhwcGeometry,
    place: &ThreadPlace,
    c: u32,
    [counts, first, end, step]: [u32; 4],
) -> Moments {
    let of_lanes = NORM_NHWC_THREADS.view();
    let at = |lane: u32| lane * g.block_vectors + place.vector;
    let shift = of_lanes.load(c * MOMENT_ROW + at(first));
    let [mut count, mut sum, mut squares] = [0.0; 3];
    let mut lane = first;
    while lane < end {
        let of_lane = NORM_NHWC_COUNTS.view().load(counts + at(lane));
        let deviation = of_lanes.load(c * MOMENT_ROW + at(lane)) - shift;
        let m2 = of_lanes.load((THREAD_CHANNELS as u32 + c) * MOMENT_ROW + at(lane));
        count += of_lane;
        sum += of_lane * deviation;
        squares = math::fma(of_lane * deviation, deviation, squares + m2);
        lane += step;
    }
    if count == 0.0 {
        return Moments::EMPTY;
    }
    let [mean, m2] = from_shift(shift, math::reciprocal_approx(count), sum, squares);
    Moments { count, mean, m2 }
}

/// Returns the mean and the squared deviations from it. `sum` and `squares` are those of the deviations from
/// `shift`, which is the mean of some of the elements.
#[inline(always)]
fn from_shift(shift: f32, reciprocal: f32, sum: f32, squares: f32) -> [f32; 2] {
    let step = sum * reciprocal;
    // Squares that are not representable could be less than what is subtracted.
    let m2 = math::max_nan(math::fma(-sum, step, squares), 0.0);
    [shift + step, m2]
}

/// Stores the moments of the thread's channel `c`, if the tensor has it.
#[inline(always)]
unsafe fn store_moments(
    g: &NormNhwcGeometry,
    place: &ThreadPlace,
    moments: *mut f32,
    c: u32,
    of_channel: Moments,
) {
    if place.channel < g.norm.channels {
        let moments = GlobalMut::new(moments, g.moment_elements() as usize);
        let plane = place.sample * g.norm.channels as usize + (place.channel + c) as usize;
        let at = (plane * g.parts as usize + place.part as usize) * COUNTED_ELEMENTS;
        let Moments { count, mean, m2 } = of_channel;
        moments.store_vec(at, [count, mean, m2, 0.0]);
    }
}

/// A block normalises its channels of a part of a sample's pixels, and applies the list.
///
/// *Launch*: `g.shape()`.
/// *Mapping*: as [`fn@norm_nhwc_moments`]; the list is applied to a pixel's channels of a thread at a time. A
/// list that is empty or a clamp has a loop of its own.
/// *Barriers*: one, after the parameters of the block's channels are in shared memory.
/// *Traffic*: each element of `x` and of a residual is read once, and each result written once. Parameters
/// come from cache.
///
/// # Safety
/// `x` and `y` are channels last, have the elements of `g.norm`, are 16-byte aligned and do not overlap. The
/// same holds for `residual` and `y` if the list has a residual. `weight` and `bias` have an element for each
/// channel where they are marked as present. Without running statistics, `partials` has one result for each
/// row, and the norm's `affine_type` is the type of `weight` and `bias`. With them, `running_mean` and
/// `running_var` have an element for each channel, and `running_type` is the type of all four. The geometry
/// is for elements of `T`'s size.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS[1])]
pub unsafe fn norm_nhwc<T: Pixel>(
    x: *const T,
    partials: *const f32,
    running_mean: *const c_void,
    running_var: *const c_void,
    weight: *const c_void,
    bias: *const c_void,
    residual: *const T,
    y: *mut T,
    g: &NormNhwcGeometry,
    running: FoldGeometry,
    running_type: AffineType,
    has_running: Presence,
    list: &OperandList,
) {
    let elements = g.norm.elements() as usize;
    let (x, y) = (Global::new(x, elements), GlobalMut::new(y, elements));
    let has_residual = list.has_residual();
    let residual = Global::new(residual, if has_residual { elements } else { 0 });
    let place = ThreadPlace::of(g);
    // The thread's pixels that are not loaded begin at `end`, or are none.
    let end = if place.takes_part { place.end } else { 0 };
    let has_eight = T::HAS_EIGHT && g.thread_channels == 8;
    let step = g.lanes as usize * g.norm.channels as usize;
    let mut pixel = place.first;
    let mut at = place.element(g, pixel);
    // Loads the pixel `ahead` pixels of the thread later; the tensor's first channels where there is none.
    let load = |x: Global<T>, pixel: u32, at: usize, ahead: usize| {
        let exists = pixel + ahead as u32 * g.lanes < end;
        T::load(x, if exists { at + ahead * step } else { 0 }, has_eight)
    };
    let mut next: [T::Raw; AHEAD] = core::array::from_fn(|i| load(x, pixel, at, i));

    let running = Norm {
        running: [running_mean, running_var],
        affine: [weight, bias],
        geometry: running,
        ty: running_type,
        presence: has_running,
    };
    let partials = Global::new(partials, g.norm.partial_elements() as usize);
    let staged = NORM_NHWC_CHANNELS.view();
    let row = THREAD_CHANNELS as u32 * BLOCK_THREADS;
    let channels = (g.norm.channels - place.block_channel).min(g.block_vectors * g.thread_channels);
    let mut index = thread::thread_idx_x();
    while index < channels {
        let channel = place.block_channel + index;
        let [mean, factor, bias] = if has_running.is_present() {
            let [gain, shift] = running.folded::<T>(channel as usize);
            [0.0, gain, shift]
        } else {
            let row = place.sample as u64 * g.groups as u64;
            let row = row + div_rem(channel, g.norm.row_channels).0 as u64;
            let of_row = moments::partial(partials, &g.norm, row, 0);
            let value = |exists: Presence, values: *const c_void, otherwise: f32| {
                if exists.is_present() {
                    let channels = g.norm.channels as usize;
                    let values = values.cast::<T>();
                    affine(values, channels, channel as usize, g.norm.affine_type)
                } else {
                    otherwise
                }
            };
            // A weight of 1 does not change the other factor.
            let factor = of_row.rstd(g.norm.eps) * value(g.norm.weight, weight, 1.0);
            [of_row.mean, factor, value(g.norm.bias, bias, 0.0)]
        };
        staged.store(index, mean);
        staged.store(row + index, factor);
        staged.store(2 * row + index, bias);
        index += BLOCK_THREADS;
    }
    thread::sync_threads();
    if !place.takes_part {
        return;
    }
    let of_thread = |first: u32| {
        let at = first + (place.channel - place.block_channel);
        let [a, b, c, d] = staged.load_vec::<4>(at);
        let mut others = [0.0; 4];
        if has_eight {
            others = staged.load_vec::<4>(at + VECTOR_ELEMENTS as u32);
        }
        let [e, f, g, h] = others;
        [a, b, c, d, e, f, g, h]
    };
    let (means, factors, biases) = (of_thread(0), of_thread(row), of_thread(2 * row));
    let normalised = |x: T::Raw| {
        let mut values = T::values(x);
        unroll!(8, |c| {
            values[c] = math::fma(values[c] - means[c], factors[c], biases[c]);
        });
        values
    };
    if let Some(bounds) = list.as_clamp() {
        while pixel < end {
            opaque::not_unrolled();
            unroll!(3, |i| {
                if pixel + i as u32 * g.lanes < end {
                    let values = normalised(next[i]);
                    next[i] = load(x, pixel, at, i + AHEAD);
                    let values = values.map(|value| clamp(bounds, value));
                    T::store(y, at + i * step, has_eight, values);
                }
            });
            pixel += AHEAD as u32 * g.lanes;
            at += AHEAD * step;
        }
        return;
    }
    let residual_of = |pixel, at, ahead, otherwise| match has_residual {
        true => load(residual, pixel, at, ahead),
        false => otherwise,
    };
    let mut added = residual_of(pixel, at, 0, next[0]);
    while pixel < end {
        opaque::not_unrolled();
        let values = normalised(next[0]);
        let others = T::values(added);
        next = [next[1], next[2], load(x, pixel, at, AHEAD)];
        added = residual_of(pixel, at, 1, added);
        let mapped = if T::HAS_EIGHT {
            apply_with_residual::<T, THREAD_CHANNELS>(list, values, others, KeepsNothing)
        } else {
            let ([a, b, c, d, ..], [e, f, g, h, ..]) = (values, others);
            let [a, b, c, d] =
                apply_with_residual::<T, 4>(list, [a, b, c, d], [e, f, g, h], KeepsNothing);
            [a, b, c, d, 0.0, 0.0, 0.0, 0.0]
        };
        T::store(y, at, has_eight, mapped);
        pixel += g.lanes;
        at += step;
    }
}
const _: () =
    assert!(VECTOR_ELEMENTS == 4 && THREAD_CHANNELS == 8 && MOMENT_PIXELS == 8 && AHEAD == 3);
