//! The epilogue of a convolution without a norm, applied to its f32 accumulators before rounding.

#[cfg(hopper)]
use core::mem::transmute_copy;

use cuda_std::global::Global;
use cuda_std::math;
#[cfg(hopper)]
use cuda_std::shared::Shared;
#[cfg(hopper)]
use cuda_std::{Storage, bf16, f16, packed};
#[cfg(hopper)]
use launch_config::elementwise::Bounds;
use launch_config::implicit_gemm::Epilogue;
use launch_config::pointwise::OperandList;

use super::map::{clamp, multiply};

/// The tensors of each channel's gain and shift, if there are any.
#[derive(Clone, Copy)]
pub(crate) struct GainAndShift {
    pub(crate) gain: *const f32,
    pub(crate) shift: *const f32,
}

impl GainAndShift {
    /// Null tensors, for a kernel without gain and shift.
    #[cfg(hopper)]
    pub(crate) const UNUSED: Self = Self {
        gain: core::ptr::null(),
        shift: core::ptr::null(),
    };

    /// The gain and shift of a channel out of `channels`.
    ///
    /// # Safety
    /// The tensors have an element for each channel.
    #[inline(always)]
    pub(crate) unsafe fn of_channel(&self, channel: usize, channels: usize) -> [f32; 2] {
        let load = |values| Global::<f32>::new(values, channels).load_readonly(channel);
        [load(self.gain), load(self.shift)]
    }
}

/// The epilogue with its tensors.
#[derive(Clone, Copy)]
pub(crate) struct StoreEpilogue {
    /// Gain and shift of each channel, if the epilogue has them.
    pub(crate) of_channels: GainAndShift,
    pub(crate) epilogue: Epilogue,
}

/// All operations on a result without a norm: the epilogue, rounding to the storage type, then the list.
pub(crate) struct Store<'a, T> {
    pub(crate) epilogue: StoreEpilogue,
    pub(crate) list: &'a OperandList,
    /// The residual of the list, if it has one.
    pub(crate) residual: *const T,
}

/// A gain and shift that change no value, not even the sign of a zero.
const NOTHING: [f32; 2] = [1.0, -0.0];

impl StoreEpilogue {
    /// The gain and shift of a channel out of `channels`.
    ///
    /// # Safety
    /// The tensors have an element for each channel, if the epilogue has them.
    #[inline(always)]
    pub(crate) unsafe fn of_channel(&self, channel: usize, channels: usize) -> [f32; 2] {
        if !self.epilogue.gain_and_shift.is_present() {
            return NOTHING;
        }
        self.of_channels.of_channel(channel, channels)
    }

    /// Applies the epilogue to a result, with the gain and shift of its channel. NaN stays NaN.
    #[inline(always)]
    pub(crate) fn map(&self, [gain, shift]: [f32; 2], result: f32) -> f32 {
        sloped(&self.epilogue, math::fma(gain, result, shift))
    }
}

/// Applies an epilogue's slope and bounds. NaN stays NaN.
#[inline(always)]
pub(crate) fn sloped(epilogue: &Epilogue, value: f32) -> f32 {
    clamp(epilogue.bounds, multiply(value, epilogue.slope, 0.0))
}

/// Converts the two 16-bit values of a word.
#[cfg(hopper)]
#[inline(always)]
pub(crate) fn pair_of<T: Storage>(word: u32) -> [f32; 2] {
    // SAFETY: every caller's `T` has 16 bits, so a word is two values.
    T::to_f32_pair(unsafe { transmute_copy::<[u32; 2], [T; 2]>(&[word, 0]) })
}

/// Rounds two values to 16 bits and packs them into a word.
#[cfg(hopper)]
#[inline(always)]
pub(crate) fn word_of<T: Storage>(values: [f32; 2]) -> u32 {
    // SAFETY: as above.
    unsafe { transmute_copy::<[T; 2], u32>(&T::from_f32_pair(values)) }
}

/// Pairs of neighbouring values as they are in memory, and arithmetic on them.
#[cfg(hopper)]
pub(crate) trait Packed: Storage {
    /// Two values.
    type Pair: Copy;
    /// Two zeros.
    const ZEROS: Self::Pair;

    /// Rounds two values.
    fn pair(values: [f32; 2]) -> Self::Pair;
    /// Converts two values to f32.
    fn values(pair: Self::Pair) -> [f32; 2];
    /// Sums, rounded once.
    fn sum(a: Self::Pair, b: Self::Pair) -> Self::Pair;
    /// Clamps values. NaN stays NaN. A clamp after rounding, with rounded bounds, has the same bits as one
    /// before it.
    fn clamp(bounds: [Self::Pair; 2], values: Self::Pair) -> Self::Pair;
    /// Loads the pair whose first word is `word`.
    ///
    /// # Safety
    /// As for [`Shared::load_vec`].
    unsafe fn load(from: Shared<u32>, word: u32) -> Self::Pair;
    /// Stores a pair; its first word is `word`.
    ///
    /// # Safety
    /// As for [`Shared::store_vec`].
    unsafe fn store(to: Shared<u32>, word: u32, pair: Self::Pair);

    /// Rounded bounds, for [`clamp`](Self::clamp).
    #[inline(always)]
    fn bounds(Bounds { min, max }: Bounds) -> [Self::Pair; 2] {
        [min, max].map(|bound| Self::pair([bound; 2]))
    }
}

#[cfg(hopper)]
macro_rules! packed {
    ($($T:ident $add:ident $max:ident $min:ident;)*) => {$(
        impl Packed for $T {
            type Pair = u32;
            const ZEROS: u32 = 0;

            #[inline(always)]
            fn pair(values: [f32; 2]) -> u32 {
                word_of::<$T>(values)
            }

            #[inline(always)]
            fn values(pair: u32) -> [f32; 2] {
                pair_of::<$T>(pair)
            }

            #[inline(always)]
            fn sum(a: u32, b: u32) -> u32 {
                packed::$add(a, b)
            }

            #[inline(always)]
            fn clamp([min, max]: [u32; 2], values: u32) -> u32 {
                packed::$min(packed::$max(values, min), max)
            }

            #[inline(always)]
            unsafe fn load(from: Shared<u32>, word: u32) -> u32 {
                from.load(word)
            }

            #[inline(always)]
            unsafe fn store(to: Shared<u32>, word: u32, pair: u32) {
                to.store(word, pair);
            }
        }
    )*};
}

#[cfg(hopper)]
packed! {
    f16 add_f16x2 max_nan_f16x2 min_nan_f16x2;
    bf16 add_bf16x2 max_nan_bf16x2 min_nan_bf16x2;
}

#[cfg(hopper)]
impl Packed for f32 {
    type Pair = [f32; 2];
    const ZEROS: [f32; 2] = [0.0; 2];

    #[inline(always)]
    fn pair(values: [f32; 2]) -> [f32; 2] {
        values
    }

    #[inline(always)]
    fn values(pair: [f32; 2]) -> [f32; 2] {
        pair
    }

    #[inline(always)]
    fn sum([a, b]: [f32; 2], [c, d]: [f32; 2]) -> [f32; 2] {
        [a + c, b + d]
    }

    #[inline(always)]
    fn clamp([[min, _], [max, _]]: [[f32; 2]; 2], values: [f32; 2]) -> [f32; 2] {
        values.map(|value| clamp(Bounds { min, max }, value))
    }

    #[inline(always)]
    unsafe fn load(from: Shared<u32>, word: u32) -> [f32; 2] {
        from.load_vec::<2>(word).map(f32::from_bits)
    }

    #[inline(always)]
    unsafe fn store(to: Shared<u32>, word: u32, pair: [f32; 2]) {
        to.store_vec(word, pair.map(f32::to_bits));
    }
}
