//! Prepares the parameters for the one-launch kernels, in a launch of its own.
//!
//! For channel `k`, with `sign` that of `weight * scale` (1 for 0) and `descale = sign * 2^-e`: the
//! filters become A fragments of `sign * 2^e * filter`, in the order that `format` describes. Four numbers
//! for each channel follow: `descale`, the convolution's bias, `weight * scale`, and `bias * scale`. For an
//! infinite scale see [`large()`].

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, bf16, f16, kernel, thread};
use launch_config::one_launch::conv2d_group_norm_scale_max_pool_clamp::{
    CHANNEL_FLOATS, FILTER, FILTER_ELEMENTS, FRAGMENT_WORDS, IN_CHANNELS, OUT_CHANNELS,
    OneLaunch2dConfig, OneLaunch2dGeometry, WARPGROUP_THREADS,
};

use super::format::{F16x2, Format, ScaledF16};
use super::format_stored::Stored;
use crate::parts::map::is_not_infinite;
use crate::parts::planes::affine;

/// The taps of the two halves of K of an MMA step. `None` is 0, or the shift where the half meets the
/// constant.
type Taps = [Option<u32>; 2];

const fn taps(row: u32, column: u32) -> Option<u32> {
    Some(row * FILTER + column)
}

/// The pairs of taps 0 and 1 of the three rows, then the pair and the single of taps 2, then the same two for
/// a stage that ends after the first row (`CROSSING`).
const TAPS: [Taps; 7] = [
    [taps(0, 0), taps(0, 1)],
    [taps(1, 0), taps(1, 1)],
    [taps(2, 0), taps(2, 1)],
    [taps(0, 2), taps(1, 2)],
    [taps(2, 2), None],
    [taps(1, 2), taps(2, 2)],
    [taps(0, 2), None],
];

const _: () = assert!(OneLaunch2dConfig::SCALED_F16.fragments == TAPS.len() as u32);
const _: () = assert!(OneLaunch2dConfig::F16X2.fragments == 2 * TAPS.len() as u32);

/// Returns a finite replacement for an infinite scale. With an infinite scale, `bias * scale` and the other
/// summand may be infinities of opposite sign, whose sum is NaN. The replacement scales the larger of
/// `weight` and `bias` to about 2^96. The clamp treats that like infinity, unless its bound is beyond 2^90 or
/// the scaled value is below 2^-90 of that larger one. If both are 0, the scale stays infinite and gives NaN,
/// as it should.
#[inline(always)]
fn large(scale: f32, weight: f32, bias: f32) -> f32 {
    let exponent = |x: f32| ((x.to_bits() >> 23) & 0xff) as i32 - 127;
    let most = exponent(weight).max(exponent(bias));
    if most == -127 {
        return scale;
    }
    let power = f32::from_bits(((127 + (96 - most).min(127)) as u32) << 23);
    if scale < 0.0 { -power } else { power }
}

/// Prepares the parameters of `conv2d_group_norm_scale_max_pool_clamp_wgmma` and of its `_spread` variant.
///
/// *Launch*: `OneLaunch2dGeometry::prepare_shape`. *Mapping*: a thread for each channel.
/// *Barriers*: none. *Traffic*: parameters are read once (filters a few times, from cache), and
/// the prepared ones are written once.
///
/// # Safety
/// `filter` is `[64, 8, 3, 3]`, `filter_bias`, `weight`, `bias` and `scale` have 64
/// elements (those that the geometry says are absent are not touched, and `weight` and `bias` are
/// f32 where it says so); `operands` has
/// `OneLaunch2dConfig::operand_words`, `channels` `CHANNEL_FLOATS` elements.
#[kernel(
    instances(F: [
        f16x2_f32: F16x2<false>,
        scaled_f16_f32: ScaledF16<false>,
        f16: Stored<f16, false>,
        bf16: Stored<bf16, false>,
    ]),
    max_threads = OUT_CHANNELS
)]
pub unsafe fn conv2d_group_norm_scale_max_pool_clamp_prepare<F: Format>(
    filter: *const F::Stored,
    filter_bias: *const F::Stored,
    weight: *const F::Stored,
    bias: *const F::Stored,
    scale: *const F::Stored,
    operands: *mut u32,
    channels: *mut f32,
    g: &OneLaunch2dGeometry,
) {
    let k = thread::thread_idx_x();
    let taps = (FILTER * FILTER) as usize;
    let elements = OUT_CHANNELS as usize * FILTER_ELEMENTS as usize;
    let filter = Global::new(filter, elements).slice(
        k as usize * FILTER_ELEMENTS as usize,
        FILTER_ELEMENTS as usize,
    );
    let of_channel = |tensor: *const F::Stored| {
        let tensor = Global::new(tensor, OUT_CHANNELS as usize);
        tensor.load(k as usize).to_f32()
    };
    let scale = of_channel(scale);
    let [weight, bias] = if g.affine.is_present() {
        [weight, bias]
            .map(|values| affine(values, OUT_CHANNELS as usize, k as usize, g.affine_type))
    } else {
        [1.0, 0.0]
    };
    let filter_bias = if g.bias.is_present() {
        of_channel(filter_bias)
    } else {
        0.0
    };

    // The sign is taken from the factors, since their product may underflow to 0.
    let sign = if weight != 0.0 && scale != 0.0 && (weight < 0.0) != (scale < 0.0) {
        -1.0
    } else {
        1.0
    };
    let exponent = if F::SCALED {
        let mut most = 0;
        let mut i = 0;
        while i < FILTER_ELEMENTS as usize {
            let bits = filter.load(i).to_f32().to_bits() & i32::MAX as u32;
            // Infinity and NaN are not changed by a scale.
            if bits < f32::INFINITY.to_bits() && bits > most {
                most = bits;
            }
            i += 1;
        }
        // The largest filter element is brought between 2^8 and 2^9, unless it is tiny: the product of the
        // scales of inputs (2^100 at most) and filters must not exceed f32's range. Filters of zeros take 1.
        match most {
            0 => 0,
            most => (8 + 127 - (most >> 23) as i32).min(26),
        }
    } else {
        0
    };
    let power = |e: i32| f32::from_bits(((127 + e) as u32) << 23);
    let prepared = |tap: u32, c: u32| {
        let element = filter.load(c as usize * taps + tap as usize);
        element.to_f32() * sign * power(exponent)
    };

    let numbers = GlobalMut::new(channels, CHANNEL_FLOATS as usize);
    let at = |kind: u32| (kind * OUT_CHANNELS + k) as usize;
    numbers.store(at(0), sign * power(-exponent));
    numbers.store(at(1), filter_bias);
    let scale = if is_not_infinite(scale) {
        scale
    } else {
        large(scale, weight, bias)
    };
    numbers.store(at(2), weight * scale);
    numbers.store(at(3), bias * scale);

    let operands = GlobalMut::new(operands, F::CONFIG.operand_words() as usize);
    let two_parts = F::CONFIG.parts == 2;
    let mut fragment = 0;
    while fragment < F::CONFIG.fragments {
        let low = fragment >= TAPS.len() as u32;
        let mut halves = TAPS[(fragment as usize) % TAPS.len()];
        if two_parts && !low && halves[1].is_none() {
            // The high part of a single tap meets both parts of a pixel.
            halves[1] = halves[0];
        }
        let mut half = 0;
        while half < 2 {
            let mut pair = 0;
            while pair < IN_CHANNELS / 2 {
                let mut word = 0;
                if let Some(tap) = halves[half as usize] {
                    let (mut a, mut b) = (prepared(tap, 2 * pair), prepared(tap, 2 * pair + 1));
                    if low {
                        a -= F::round(a);
                        b -= F::round(b);
                    }
                    word = F::pack(a, b);
                }
                // The thread and the word of its fragment that hold row `k` and this half's pair of columns.
                let thread = k / 16 * 32 + k % 8 * 4 + pair;
                let in_fragment = 2 * half + k / 8 % 2;
                let at = (fragment * WARPGROUP_THREADS + thread) * FRAGMENT_WORDS + in_fragment;
                operands.store(at as usize, word);
                pair += 1;
            }
            half += 1;
        }
        fragment += 1;
    }
}
