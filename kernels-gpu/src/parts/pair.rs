//! Values of two neighbouring channels of a channels-last tensor, as they lie in memory.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, bf16, f16};

/// An element type of which threads hold pairs as they were loaded: in half of the registers that their
/// values take, where they have 16 bits.
pub(crate) trait Pair: Storage {
    /// A pair as it was loaded.
    type Raw: Copy;

    /// Two zeros.
    const ZERO: Self::Raw;

    /// The elements `at` and `at + 1`.
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

    /// Both values.
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
