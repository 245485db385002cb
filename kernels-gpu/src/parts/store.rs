//! The epilogue of a convolution without a norm, which is applied before results are stored.
//!
//! Batch norm, a slope and bounds are applied to f32 results, which are then rounded to the storage type. The
//! list of functions and the residual follow, in f32 again. A list of its own in a kernel of its own gives
//! the same bits.

use core::mem::{size_of, transmute_copy};

use cuda_std::global::Global;
use cuda_std::{Storage, math, opaque};
use launch_config::implicit_gemm::Epilogue;
use launch_config::pointwise::ResidualList;

use super::map::clamp;
use super::pointwise::apply_and_add;

/// The epilogue with its tensors.
#[derive(Clone, Copy)]
pub(crate) struct StoreEpilogue<'a, T: Storage> {
    /// Gain and shift of each channel, if the epilogue has them.
    pub(crate) gain: *const f32,
    pub(crate) shift: *const f32,
    pub(crate) epilogue: Epilogue,
    /// Functions and a residual behind the rounding. Kernels without a list have none at compile time.
    pub(crate) list: Option<&'a ResidualList>,
    /// As many elements as the output, if the list adds them.
    pub(crate) residual: *const T,
}

/// Gain and shift that change no value, not even the sign of a zero.
const NOTHING: [f32; 2] = [1.0, -0.0];

impl<T: Storage> StoreEpilogue<'_, T> {
    /// Gain and shift of a channel of `channels`.
    ///
    /// # Safety
    /// The tensors are as large as they should be.
    #[inline(always)]
    pub(crate) unsafe fn of_channel(&self, channel: usize, channels: usize) -> [f32; 2] {
        if !self.epilogue.gain_and_shift.is_present() {
            return NOTHING;
        }
        let load = |values| Global::<f32>::new(values, channels).load_readonly(channel);
        [load(self.gain), load(self.shift)]
    }

    /// The epilogue of a result up to its rounding, with gain and shift of its channel. NaN stays NaN.
    #[inline(always)]
    pub(crate) fn map(&self, [gain, shift]: [f32; 2], result: f32) -> f32 {
        let value = math::fma(gain, result, shift);
        let sloped = if value > 0.0 {
            value
        } else {
            value * self.epilogue.slope
        };
        clamp(self.epilogue.bounds, sloped)
    }

    /// The list's result for a rounded value of output `at`, of `outputs`.
    ///
    /// # Safety
    /// As for [`of_channel`](Self::of_channel).
    #[inline(always)]
    pub(crate) unsafe fn listed(&self, value: T, at: usize, outputs: usize) -> T {
        let Some(list) = self.list else {
            return value;
        };
        let mut residual = 0.0;
        if list.adds() {
            residual = Global::new(self.residual, outputs).load(at).to_f32();
        }
        let [value] = apply_and_add::<T, _>(list, [value.to_f32()], [residual]);
        T::from_f32(value)
    }

    /// The list's results for the values of a chunk of words.
    #[inline(always)]
    pub(crate) fn of_words(
        list: &ResidualList,
        words: [u32; CHUNK_WORDS],
        residual: [u32; CHUNK_WORDS],
    ) -> [u32; CHUNK_WORDS] {
        let pair = |word: u32| T::to_f32_pair(values_of::<T>(word));
        if size_of::<T>() == size_of::<u32>() {
            let values = |words: [u32; CHUNK_WORDS]| {
                let [a, b, c, d] = words;
                [pair(a)[0], pair(b)[0], pair(c)[0], pair(d)[0]]
            };
            let [a, b, c, d] = apply_and_add::<T, 4>(list, values(words), values(residual));
            return [a, b, c, d].map(|value| word_of([T::from_f32(value); 2]));
        }
        // One half after the other: the list's code is written out for every value.
        let (mut words, mut residual) = (words, residual);
        let mut half = 0;
        while half < 2 {
            opaque::not_unrolled();
            let values = |words: [u32; CHUNK_WORDS]| {
                let ([a, b], [c, d]) = (pair(words[0]), pair(words[1]));
                [a, b, c, d]
            };
            let [a, b, c, d] = apply_and_add::<T, 4>(list, values(words), values(residual));
            let of = |pair: [f32; 2]| word_of(T::from_f32_pair(pair));
            words = [words[2], words[3], of([a, b]), of([c, d])];
            residual = [residual[2], residual[3], residual[0], residual[1]];
            half += 1;
        }
        words
    }
}

/// Words of a chunk.
pub(crate) const CHUNK_WORDS: usize = 4;

/// The values of a word: two of 16 bits, or one of 32 and another that means nothing.
#[inline(always)]
pub(crate) fn values_of<T: Storage>(word: u32) -> [T; 2] {
    // SAFETY: any bits are a value of `T`, of which two take at most as many bytes.
    unsafe { transmute_copy(&[word, 0]) }
}

/// The word of two values of 16 bits, or of the first of 32.
#[inline(always)]
pub(crate) fn word_of<T: Storage>(values: [T; 2]) -> u32 {
    // SAFETY: any bits are a word, which takes at most as many bytes.
    unsafe { transmute_copy(&values) }
}
