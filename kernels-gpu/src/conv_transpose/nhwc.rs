//! The interleaving of channels-last results.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, bf16, f16, kernel, math, opaque, thread};
use launch_config::VECTOR_ELEMENTS;
use launch_config::conv_transpose::{BLOCK_ITEMS, BLOCK_THREADS, InterleaveGeometry, MIN_BLOCKS};
use launch_config::implicit_gemm::Epilogue;
use launch_config::pointwise::OperandList;

use super::epilogue::OutputEpilogue;
use super::{Results, position};
use crate::parts::index::{NearSegments, div_rem};
use crate::parts::store::{GainAndShift, Store, StoreEpilogue};
use crate::parts::unroll::unroll;

/// A block writes up to four vectors of channels a thread of the NHWC output `y`, from the classes' NHWC
/// results through an epilogue and a list. Where groups have no whole vectors, a thread writes single
/// elements.
///
/// *Launch*: `g.shape(Layout::Nhwc)`. *Mapping*: neighbouring threads write neighbouring channels, then
/// neighbouring pixels. *Barriers*: none. *Traffic*: as of [`fn@super::conv_transpose_interleave`]; loads and
/// stores are of neighbouring channels.
///
/// # Safety
/// As for [`fn@super::conv_transpose_interleave`], with results, `residual` and `y` channels last, which
/// start on 16 bytes.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn conv_transpose_interleave_nhwc<T: Storage>(
    result_0: *const T,
    result_1: *const T,
    result_2: *const T,
    result_3: *const T,
    result_4: *const T,
    result_5: *const T,
    result_6: *const T,
    result_7: *const T,
    bias: *const T,
    gain: *const f32,
    shift: *const f32,
    gain_behind: *const f32,
    shift_behind: *const f32,
    residual: *const T,
    y: *mut T,
    g: &InterleaveGeometry,
    epilogue: Epilogue,
    list: &OperandList,
) {
    let results = Results {
        classes: [
            result_0, result_1, result_2, result_3, result_4, result_5, result_6, result_7,
        ],
        bias,
    };
    let epilogue = StoreEpilogue {
        of_channels: GainAndShift { gain, shift },
        epilogue,
    };
    let store = Store {
        epilogue,
        list,
        residual,
    };
    let behind = GainAndShift {
        gain: gain_behind,
        shift: shift_behind,
    };
    let epilogue = OutputEpilogue::new(store, behind, g);
    let y = GlobalMut::new(y, g.elements() as usize);
    let start = thread::block_idx_x() as u64 * BLOCK_ITEMS as u64;
    let items = div_rem(g.channels, g.item_channels).0;
    let pixels = NearSegments::from(start, items as u64, &g.pixel_items);
    let samples = NearSegments::from(pixels.first, g.plane as u64, &g.near_plane);
    let mut local = thread::thread_idx_x();
    while local < BLOCK_ITEMS {
        let at = (start + local as u64) as usize * g.item_channels as usize;
        if at >= y.len() {
            return;
        }
        let (pixel, item) = pixels.position(local);
        let k = item as u32 * g.item_channels;
        let (sample, pixel) = samples.position(pixel);
        let sample = samples.first + sample as u64;
        let place = Pixel::of(&results, g, sample, pixel as u32);
        if g.item_channels == 1 {
            let mut value = match place {
                Some(place) => place.class.load(place.of_channel(g, k)),
                None => results.bias(g, k),
            };
            if epilogue.maps {
                [value] = epilogue.mapped([epilogue.of_channel(k)], [value]);
            }
            let [value] = epilogue.listed([value], [epilogue.added(at)], move |_| k);
            y.store(at, value);
        } else {
            let mut values = match place {
                Some(place) => place.class.load_vec(place.of_channel(g, k)),
                None => {
                    let mut values = [T::from_f32(0.0); VECTOR_ELEMENTS];
                    unroll!(4, |i| {
                        values[i] = results.bias(g, k + i as u32);
                    });
                    values
                }
            };
            if epilogue.maps {
                let of_channels = [0, 1, 2, 3].map(|i| epilogue.of_channel(k + i));
                values = epilogue.mapped(of_channels, values);
            }
            if epilogue.lists() {
                // One by one, which takes fewer registers: each comes in as the last.
                let mut i = 0;
                while i < VECTOR_ELEMENTS as u32 {
                    opaque::not_unrolled();
                    let [a, b, c, d] = values;
                    let added = epilogue.added(at + i as usize);
                    let [a] = epilogue.listed([a], [added], move |_| k + i);
                    values = [b, c, d, a];
                    i = opaque::to_compiler(i + 1);
                }
            }
            y.store_vec(at, values);
        }
        local += BLOCK_THREADS;
    }
}

/// A pixel of NHWC results: the channels of its phase begin at `first`, and are `group_pitch` apart from
/// group to group.
#[derive(Clone, Copy)]
struct Pixel<T> {
    class: Global<T>,
    first: u64,
    group_pitch: u64,
}

impl<T: Storage> Pixel<T> {
    /// Pixel `pixel` of sample `sample` of the output; none without taps.
    ///
    /// # Safety
    /// The output has the pixel; the results are those of the geometry.
    #[inline(always)]
    unsafe fn of(
        results: &Results<T>,
        g: &InterleaveGeometry,
        sample: u64,
        pixel: u32,
    ) -> Option<Self> {
        let (row, q) = g.columns.div_rem(pixel, math::high_word);
        let (z, p) = g.rows.div_rem(row, math::high_word);
        let [slices, rows, columns] = &g.axes;
        let z = position(slices, z)?;
        let p = position(rows, p)?;
        let q = position(columns, q)?;
        let [of_z, of_p] = [slices.side(z.side), rows.side(p.side)];
        let of_q = columns.side(q.side);
        let [left, right] = results.of_row(z.side, p.side);
        let pointer = if q.side == 0 { left } else { right };
        let phases = (of_z.count * of_p.count * of_q.count) as u64;
        let pixels = (of_z.extent * of_p.extent * of_q.extent) as u64;
        let phase = (z.phase * of_p.count + p.phase) * of_q.count + q.phase;
        let channels = g.channels as u64 * phases;
        let at = (z.at * of_p.extent + p.at) * of_q.extent + q.at;
        let group_k = g.group_k.divisor as u64;
        Some(Self {
            class: Global::new(pointer, (g.n * pixels * channels) as usize),
            first: (sample * pixels + at as u64) * channels + phase as u64 * group_k,
            group_pitch: group_k * (phases - 1),
        })
    }

    /// Where channel `k` of the output is.
    #[inline(always)]
    fn of_channel(&self, g: &InterleaveGeometry, k: u32) -> usize {
        let (group, _) = g.group_k.div_rem(k, math::high_word);
        (self.first + group as u64 * self.group_pitch + k as u64) as usize
    }
}
