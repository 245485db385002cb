//! Group, instance and batch norm of channels-last tensors, with a list of pointwise functions.
//!
//! Two launches, and between them the launches that combine statistics; a batch norm with running statistics
//! needs the second one alone. A thread has the same channels in all
//! of its pixels. It therefore takes the moments of channels, which later launches combine into those of
//! rows, and it computes the factor and bias of each channel once. `launch_config::norm_nhwc` defines how
//! threads are spread.
//!
//! ```text
//! norm_nhwc_moments:  for each eight pixels of the thread: moments of each channel, added to earlier ones
//!                     moments of the block's pixels, by a tree over its threads   # barriers
//! norm_nhwc:          mean, rstd * weight, bias of the thread's four channels
//!                     for each pixel of the thread: load the next one; y = list((x - mean) * factor + bias)
//! ```

use core::ffi::c_void;

use cuda_std::global::{Global, GlobalMut};
use cuda_std::shared::Shared;
use cuda_std::{Storage, bf16, f16, kernel, math, opaque, shared_array, thread};
use launch_config::batch_norm::FoldGeometry;
use launch_config::norm::COUNTED_ELEMENTS;
use launch_config::norm_nhwc::{BLOCK_THREADS, MIN_BLOCKS, MOMENT_PIXELS, NormNhwcGeometry};
use launch_config::pointwise::OperandList;
use launch_config::{AffineType, Presence, VECTOR_ELEMENTS};

use crate::fused::group_norm_scale_pointwise::ROOMY;
use crate::parts::batch_norm::Norm;
use crate::parts::index::div_rem;
use crate::parts::moments::{self, Moments};
use crate::parts::planes::affine;
use crate::parts::pointwise::{KeepsNothing, apply_with_residual};
use crate::parts::unroll::unroll;

shared_array! {
    /// The moments of each thread's channels: the counts of all threads, then for each of the four channels
    /// the means and the squared deviations of all threads.
    static NORM_NHWC_THREADS: [f32; BLOCK_THREADS as usize * (1 + 2 * VECTOR_ELEMENTS)];
}

/// The moments of a thread's channels.
type Channels = [Moments; VECTOR_ELEMENTS];

/// The channels and pixels of a thread.
struct ThreadPlace {
    sample: usize,
    part: u32,
    /// The first of its channels.
    channel: u32,
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
        let channel = (of_channels * g.block_vectors + vector) * VECTOR_ELEMENTS as u32;
        let first = part * g.part_pixels;
        Self {
            sample: sample as usize,
            part,
            channel,
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

/// Stores a thread's moments in its slot of shared memory.
#[inline(always)]
unsafe fn share(shared: Shared<f32>, thread: u32, all: &Channels) {
    shared.store(thread, all[0].count);
    unroll!(4, |c| {
        let at = (1 + 2 * c as u32) * BLOCK_THREADS + thread;
        shared.store(at, all[c].mean);
        shared.store(at + BLOCK_THREADS, all[c].m2);
    });
}

/// Loads the moments that thread `thread` stored.
#[inline(always)]
unsafe fn shared_by(shared: Shared<f32>, thread: u32) -> Channels {
    let mut all = [Moments::EMPTY; VECTOR_ELEMENTS];
    let count = shared.load(thread);
    unroll!(4, |c| {
        let at = (1 + 2 * c as u32) * BLOCK_THREADS + thread;
        all[c] = Moments {
            count,
            mean: shared.load(at),
            m2: shared.load(at + BLOCK_THREADS),
        };
    });
    all
}

/// A block computes the moments of its channels over a part of a sample's pixels.
///
/// *Launch*: `g.shape()`.
/// *Mapping*: neighbouring threads have neighbouring vectors of channels, then neighbouring pixels.
/// *Barriers*: one for each level of the tree over the threads that have the same channels.
/// *Traffic*: each element is read once; 16 bytes are written for each channel and part.
///
/// # Safety
/// `x` is channels last, has the elements of `g.norm` and is 16-byte aligned; `moments` has
/// `g.moment_elements()` and is 16-byte aligned.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS[0])]
pub unsafe fn norm_nhwc_moments<T: Storage>(x: *const T, moments: *mut f32, g: &NormNhwcGeometry) {
    let x = Global::new(x, g.norm.elements() as usize);
    let place = ThreadPlace::of(g);
    let shared = NORM_NHWC_THREADS.view();
    let thread = thread::thread_idx_x();
    let mut all = [Moments::EMPTY; VECTOR_ELEMENTS];
    let mut pixel = place.first;
    while place.takes_part && pixel < place.end {
        let mut pixels = [[0.0; VECTOR_ELEMENTS]; MOMENT_PIXELS as usize];
        let mut count = 0;
        unroll!(8, |i| {
            let of = pixel + i as u32 * g.lanes;
            if of < place.end {
                pixels[i] = T::to_f32_vector(x.load_vec(place.element(g, of)));
                count += 1;
            }
        });
        unroll!(4, |c| {
            let of_channel: [f32; 8] = core::array::from_fn(|i| pixels[i][c]);
            all[c] = all[c].and(Moments::of_first(&of_channel, count));
        });
        pixel += MOMENT_PIXELS * g.lanes;
    }
    share(shared, thread, &all);
    let mut distance = g.lanes.next_power_of_two() / 2;
    while distance > 0 {
        thread::sync_threads();
        if place.lane < distance && place.lane + distance < g.lanes {
            let others = shared_by(shared, thread + distance * g.block_vectors);
            unroll!(4, |c| {
                all[c] = all[c].and(others[c]);
            });
            share(shared, thread, &all);
        }
        distance /= 2;
    }
    if place.lane == 0 && place.takes_part {
        let moments = GlobalMut::new(moments, g.moment_elements() as usize);
        unroll!(4, |c| {
            let channel = place.channel as usize + c;
            let plane = place.sample * g.norm.channels as usize + channel;
            let at = (plane * g.parts as usize + place.part as usize) * COUNTED_ELEMENTS;
            let Moments { count, mean, m2 } = all[c];
            moments.store_vec(at, [count, mean, m2, 0.0]);
        });
    }
}

/// A block normalises its channels of a part of a sample's pixels, and applies the list.
///
/// *Launch*: `g.shape()`.
/// *Mapping*: as [`fn@norm_nhwc_moments`]; the list is applied to a vector at a time.
/// *Barriers*: none.
/// *Traffic*: each element of `x` and of a residual is read once, and each result written once. Parameters
/// come from cache.
///
/// # Safety
/// `x` and `y` are channels last, have the elements of `g.norm`, are 16-byte aligned and do not overlap. The
/// same holds for `residual` and `y` if the list has a residual. `weight` and `bias` have an element for each
/// channel where they are marked as present. Without running statistics, `partials` has one result for each
/// row, and the norm's `affine_type` is the type of `weight` and `bias`. With them, `running_mean` and
/// `running_var` have an element for each channel, and `running_type` is the type of all four.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS[1] - ROOMY)]
pub unsafe fn norm_nhwc<T: Storage>(
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
    let place = ThreadPlace::of(g);
    if !place.takes_part {
        return;
    }
    let has_residual = list.has_residual();
    let residual = Global::new(residual, if has_residual { elements } else { 0 });
    let partials = Global::new(partials, g.norm.partial_elements() as usize);
    let [mut means, mut factors, mut biases] = [[0.0; VECTOR_ELEMENTS]; 3];
    let running = Norm {
        running: [running_mean, running_var],
        affine: [weight, bias],
        geometry: running,
        ty: running_type,
        presence: has_running,
    };
    unroll!(4, |c| {
        let channel = place.channel + c as u32;
        if has_running.is_present() {
            [factors[c], biases[c]] = running.folded::<T>(channel as usize);
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
            means[c] = of_row.mean;
            // A weight of 1 does not change the other factor.
            factors[c] = of_row.rstd(g.norm.eps) * value(g.norm.weight, weight, 1.0);
            biases[c] = value(g.norm.bias, bias, 0.0);
        }
    });
    // Prefetches the next pixels before it computes the current one: one pixel of f32, or three of 16 bits.
    let load = |pixel: u32| {
        let [mut values, mut added] = [[T::from_f32(0.0); VECTOR_ELEMENTS]; 2];
        if pixel < place.end {
            let at = place.element(g, pixel);
            values = x.load_vec(at);
            if has_residual {
                added = residual.load_vec(at);
            }
        }
        [values, added]
    };
    let depth = if size_of::<T>() == 4 { 1 } else { 3 };
    let mut pixel = place.first;
    let mut next = [[[T::from_f32(0.0); VECTOR_ELEMENTS]; 2]; 3];
    unroll!(3, |i| {
        if i < depth {
            next[i] = load(pixel + i as u32 * g.lanes);
        }
    });
    while pixel < place.end {
        opaque::not_unrolled();
        let [mut values, added] = next[0].map(T::to_f32_vector);
        let behind = load(pixel + depth as u32 * g.lanes);
        unroll!(3, |i| {
            if i + 1 < depth {
                next[i] = next[(i + 1) % 3];
            } else if i + 1 == depth {
                next[i] = behind;
            }
        });
        unroll!(4, |c| {
            values[c] = math::fma(values[c] - means[c], factors[c], biases[c]);
        });
        let mapped = apply_with_residual::<T, VECTOR_ELEMENTS>(list, values, added, KeepsNothing);
        y.store_vec(place.element(g, pixel), T::from_f32_vector(mapped));
        pixel += g.lanes;
    }
}
const _: () = assert!(VECTOR_ELEMENTS == 4 && MOMENT_PIXELS == 8);
