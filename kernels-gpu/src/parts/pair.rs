//! Values of two neighbouring channels of a channels-last tensor, as they lie in memory.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, bf16, f16};

/// An element type whose pairs threads hold as loaded. For 16-bit types, a pair then takes one register
/// instead of two.
pub(crate) trait Pair: Storage {
    /// A pair in its loaded form.
    type Raw: Copy;

    /// Two zeros.
    const ZERO: Self::Raw;

    /// Loads the elements `at` and `at + 1`.
    ///
    /// # Safety
    /// As for [`Global::load_vec_readonly`].
    unsafe fn load(from: Global<Self>, at: usize) -> Self::Raw;

    /// Stores two values, rounded, as the elements `at` and `at + 1`.
    ///
    /// # Safety
    /// As for [`GlobalMut::store_vec`].
    #[inline(always)]
    unsafe fn store(to: GlobalMut<Self>, at: usize, values: [f32; 2]) {
        to.store_vec(at, Self::from_f32_pair(values));
    }

    /// Converts a loaded pair to f32.
    fn values(raw: Self::Raw) -> [f32; 2];
}

impl Pair for f32 {
    type Raw = [f32; 2];

    const ZERO: [f32; 2] = [0.0; 2];

    #[inline(always)]
    unsafe fn load(from: Global<Self>, at: usize) -> [f32; 2] {
        from.load_vec_readonly(at)
    }

    #[inline(always)]
    fn values(raw: [f32; 2]) -> [f32; 2] {
        raw
    }
}

macro_rules! in_a_word {
    ($($T:ident)*) => {$(
        impl Pair for $T {
            type Raw = u32;

            const ZERO: u32 = 0;

            #[inline(always)]
            unsafe fn load(from: Global<Self>, at: usize) -> u32 {
                let [low, high] = from.load_vec_readonly(at).map(|value: $T| u32::from(value.to_bits()));
                low | high << 16
            }

            #[inline(always)]
            fn values(raw: u32) -> [f32; 2] {
                Self::to_f32_pair([raw as u16, (raw >> 16) as u16].map($T::from_bits))
            }
        }
    )*};
}

in_a_word!(f16 bf16);
