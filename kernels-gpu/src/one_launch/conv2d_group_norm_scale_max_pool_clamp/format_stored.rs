//! The formats of 16-bit tensors, whose elements are operands without conversion.

use core::marker::PhantomData;

use cuda_std::global::Global;
use cuda_std::wgmma::{InFlight, MatrixDescriptor};
use cuda_std::{Storage, bf16, f16, mma, wgmma};
use launch_config::one_launch::conv2d_group_norm_scale_max_pool_clamp::OneLaunch2dConfig;

use super::format::{
    Format, Fragment, PART, Pixel, config, fragments, one_part, register_counts, set_constant,
};
use crate::parts::unroll::unroll;

/// A 16-bit operand type of the tensor cores.
pub(super) trait Operand: Storage {
    /// Starts an MMA batch of five steps.
    ///
    /// # Safety
    /// As [`wgmma::start_f16_5`].
    unsafe fn start(a: &[Fragment; 5], b: &[MatrixDescriptor; 5]) -> InFlight;
    /// Two values rounded to halves of a word.
    fn pack(low: f32, high: f32) -> u32;
}

impl Operand for f16 {
    #[inline(always)]
    unsafe fn start(a: &[Fragment; 5], b: &[MatrixDescriptor; 5]) -> InFlight {
        wgmma::start_f16_5(a, b)
    }

    #[inline(always)]
    fn pack(low: f32, high: f32) -> u32 {
        mma::pack_f16x2(low, high)
    }
}

impl Operand for bf16 {
    #[inline(always)]
    unsafe fn start(a: &[Fragment; 5], b: &[MatrixDescriptor; 5]) -> InFlight {
        wgmma::start_bf16_5(a, b)
    }

    #[inline(always)]
    fn pack(low: f32, high: f32) -> u32 {
        mma::pack_bf16x2(low, high)
    }
}

/// Tensors and operands of type `T`.
pub(super) struct Stored<T, const SPREAD: bool>(PhantomData<T>);

impl<T: Operand, const SPREAD: bool> Format for Stored<T, SPREAD> {
    const CONFIG: OneLaunch2dConfig = config(OneLaunch2dConfig::STORED, SPREAD);
    type Stored = T;
    const SCALED: bool = false;
    const LOADS_AHEAD: usize = 2;
    type Raw = [[u32; 2]; 8];
    type Filters = [Fragment; 7];
    const CONSTANT: f32 = 1.0;

    register_counts!(OneLaunch2dConfig::STORED);

    #[inline(always)]
    unsafe fn filters(from: Global<u32>, thread: u32) -> [Fragment; 7] {
        fragments(from, thread)
    }

    #[inline(always)]
    unsafe fn set_constant(f: &mut [Fragment; 7], half: usize, word: u32) {
        set_constant(f, half, word);
    }

    #[inline(always)]
    unsafe fn start<const CROSSING: bool>(
        f: &[Fragment; 7],
        rows: [u32; 3],
        constant: u32,
    ) -> InFlight {
        let (a, b) = one_part::<CROSSING>(f, rows, PART, constant);
        T::start(&a, &b)
    }

    #[inline(always)]
    unsafe fn load(x: *const T, elements: usize, at: usize, plane: usize) -> Self::Raw {
        // Two elements to a word.
        let x = Global::new(x.cast::<u32>(), elements / 2);
        let mut raw = [[0; 2]; 8];
        unroll!(8, |c| {
            raw[c] = x.load_vec_readonly((at + c * plane) / 2);
        });
        raw
    }

    #[inline(always)]
    fn zero() -> Self::Raw {
        [[0; 2]; 8]
    }

    #[inline(always)]
    fn magnitude(_: &Self::Raw) -> f32 {
        0.0
    }

    #[inline(always)]
    fn pixel(raw: &Self::Raw, i: usize, _: f32) -> [Pixel; 2] {
        let mut pixel = [0; 4];
        unroll!(4, |c| {
            let (a, b) = (raw[2 * c][i / 2], raw[2 * c + 1][i / 2]);
            pixel[c] = if i.is_multiple_of(2) {
                a & 0xffff | b << 16
            } else {
                a >> 16 | b & 0xffff_0000
            };
        });
        [pixel, [0; 4]]
    }

    #[inline(always)]
    fn pack(low: f32, high: f32) -> u32 {
        T::pack(low, high)
    }

    #[inline(always)]
    fn round(value: f32) -> f32 {
        Storage::to_f32(T::from_f32(value))
    }
}
