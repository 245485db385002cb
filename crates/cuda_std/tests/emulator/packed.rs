//! Two 16-bit floats in a word: outside of kernels, since these functions only compute.

use cuda_std::packed;
use half::{bf16, f16};

#[test]
fn extrema_of_packed_halves_keep_nan_in_its_half() {
    let pair = |low: f32, high: f32| {
        let bits = |x: f32| u32::from(f16::from_f32(x).to_bits());
        bits(low) | bits(high) << 16
    };
    let (a, b) = (pair(1.5, -2.0), pair(-3.0, f32::NAN));
    assert_eq!(packed::max_nan_f16x2(a, b), 0x7fff << 16 | pair(1.5, 0.0));
    assert_eq!(packed::min_nan_f16x2(b, a), 0x7fff << 16 | pair(-3.0, 0.0));
    let (zero, minus) = (pair(0.0, 0.0), pair(-0.0, -0.0));
    assert_eq!(packed::max_nan_f16x2(minus, zero), zero);
    assert_eq!(packed::min_nan_f16x2(zero, minus), minus);
}

#[test]
fn extrema_of_packed_bf16_choose_each_half_by_itself() {
    let pair = |low: f32, high: f32| {
        let bits = |x: f32| u32::from(bf16::from_f32(x).to_bits());
        bits(low) | bits(high) << 16
    };
    let (a, b) = (pair(1e30, f32::NEG_INFINITY), pair(f32::NAN, 4.0));
    assert_eq!(packed::max_nan_bf16x2(a, b), 0x7fff | pair(0.0, 4.0));
    assert_eq!(
        packed::min_nan_bf16x2(a, b),
        0x7fff | pair(0.0, f32::NEG_INFINITY)
    );
}
