//! The epilogue of a convolution without a norm, applied to its f32 accumulators before rounding.

#[cfg(hopper)]
use core::mem::transmute_copy;

use cuda_std::global::Global;
use cuda_std::math;
#[cfg(hopper)]
use cuda_std::{Storage, bf16, f16, packed};
#[cfg(hopper)]
use launch_config::elementwise::Bounds;
use launch_config::implicit_gemm::Epilogue;
use launch_config::pointwise::OperandList;

use super::map::clamp;

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
    let sloped = if value > 0.0 {
        value
    } else {
        value * epilogue.slope
    };
    clamp(epilogue.bounds, sloped)
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

/// Arithmetic on the two 16-bit values of a word.
#[cfg(hopper)]
pub(crate) trait Packed: Storage {
    /// Sums, rounded once.
    fn sum(a: u32, b: u32) -> u32;
    /// The larger values, or NaN.
    fn max(a: u32, b: u32) -> u32;
    /// The smaller values, or NaN.
    fn min(a: u32, b: u32) -> u32;

    /// Clamps values. A clamp after rounding, with rounded bounds, has the same bits as one before it.
    #[inline(always)]
    fn clamp([min, max]: [u32; 2], values: u32) -> u32 {
        Self::min(Self::max(values, min), max)
    }

    /// Rounded bounds, for [`clamp`](Self::clamp).
    #[inline(always)]
    fn bounds(Bounds { min, max }: Bounds) -> [u32; 2] {
        [min, max].map(|bound| word_of::<Self>([bound; 2]))
    }
}

#[cfg(hopper)]
macro_rules! packed {
    ($($T:ident $add:ident $max:ident $min:ident;)*) => {$(
        impl Packed for $T {
            #[inline(always)]
            fn sum(a: u32, b: u32) -> u32 {
                packed::$add(a, b)
            }

            #[inline(always)]
            fn max(a: u32, b: u32) -> u32 {
                packed::$max(a, b)
            }

            #[inline(always)]
            fn min(a: u32, b: u32) -> u32 {
                packed::$min(a, b)
            }
        }
    )*};
}

#[cfg(hopper)]
packed! {
    f16 add_f16x2 max_nan_f16x2 min_nan_f16x2;
    bf16 add_bf16x2 max_nan_bf16x2 min_nan_bf16x2;
}
