//! Packed arithmetic on two 16-bit floats in a word. It needs no kernel, because the functions only
//! compute.

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

#[test]
fn sums_of_packed_halves_are_rounded_once() {
    let f16s = [
        0x3c00_u32, 0x0001, 0x7bff, 0x8000, 0xfc00, 0x1400, 0x4bff, 0x7e00,
    ];
    for a in f16s {
        for b in f16s {
            let sum = packed::add_f16x2(a | b << 16, b | a << 16);
            let value = |bits: u32| f64::from(f16::from_bits(bits as u16));
            let wanted = f16::from_f64(value(a) + value(b));
            for half in [sum as u16, (sum >> 16) as u16] {
                let got = f16::from_bits(half);
                assert!(
                    got.to_bits() == wanted.to_bits() || got.is_nan() && wanted.is_nan(),
                    "{a:x} + {b:x}: {got}, not {wanted}"
                );
            }
        }
    }
    let one_and_a_bit = u32::from(bf16::from_f32(1.0078125).to_bits());
    let tiny = u32::from(bf16::from_f32(0.00390625).to_bits());
    // A tie goes to the even neighbour.
    let sum = packed::add_bf16x2(one_and_a_bit | 0x3f80 << 16, tiny | tiny << 16);
    assert_eq!(bf16::from_bits(sum as u16).to_f32(), 1.015625);
    assert_eq!(bf16::from_bits((sum >> 16) as u16).to_f32(), 1.0);
}
