//! Four or eight channels of a pixel of a channels-last tensor, which a thread loads and stores at once.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, bf16, f16};
use launch_config::norm_nhwc::THREAD_CHANNELS;

use super::pair::Pair;

/// A number for each channel; the second four are unused in threads of four channels.
pub(crate) type Channels = [f32; THREAD_CHANNELS];

/// An element type, whose channels of a pixel threads hold as loaded.
pub(crate) trait Pixel: Storage {
    /// Channels of a pixel in their loaded form.
    type Raw: Copy;

    /// Whether threads can have eight channels, and not four only.
    const HAS_EIGHT: bool;

    /// Loads four or eight channels, from element `at` on.
    ///
    /// # Safety
    /// As for `Global::load_vec`.
    unsafe fn load(x: Global<Self>, at: usize, has_eight: bool) -> Self::Raw;

    /// Converts loaded channels to f32, with zeros in place of the second four if they are not loaded.
    fn values(raw: Self::Raw) -> Channels;

    /// Rounds and stores four or eight channels, from element `at` on.
    ///
    /// # Safety
    /// As for `GlobalMut::store_vec`.
    unsafe fn store(y: GlobalMut<Self>, at: usize, has_eight: bool, values: Channels);
}

#[doc(hidden)] // The library's users see the page of the type.
impl Pixel for f32 {
    type Raw = [f32; 4];

    const HAS_EIGHT: bool = false;

    #[inline(always)]
    unsafe fn load(x: Global<Self>, at: usize, _: bool) -> [f32; 4] {
        x.load_vec(at)
    }

    #[inline(always)]
    fn values([a, b, c, d]: [f32; 4]) -> Channels {
        [a, b, c, d, 0.0, 0.0, 0.0, 0.0]
    }

    #[inline(always)]
    unsafe fn store(y: GlobalMut<Self>, at: usize, _: bool, [a, b, c, d, ..]: Channels) {
        y.store_vec(at, [a, b, c, d]);
    }
}

macro_rules! halves {
    ($($T:ident)*) => {$(
        #[doc(hidden)] // The library's users see the page of the type.
        impl Pixel for $T {
            type Raw = [u32; 4];

            const HAS_EIGHT: bool = true;

            #[inline(always)]
            unsafe fn load(x: Global<Self>, at: usize, has_eight: bool) -> [u32; 4] {
                let word = |low: $T, high: $T| u32::from(low.to_bits()) | u32::from(high.to_bits()) << 16;
                if has_eight {
                    let [a, b, c, d, e, f, g, h] = x.load_vec(at);
                    [word(a, b), word(c, d), word(e, f), word(g, h)]
                } else {
                    let [a, b, c, d] = x.load_vec(at);
                    [word(a, b), word(c, d), 0, 0]
                }
            }

            #[inline(always)]
            fn values(raw: [u32; 4]) -> Channels {
                let [[a, b], [c, d], [e, f], [g, h]] = raw.map(<Self as Pair>::values);
                [a, b, c, d, e, f, g, h]
            }

            #[inline(always)]
            unsafe fn store(y: GlobalMut<Self>, at: usize, has_eight: bool, values: Channels) {
                let [a, b, c, d, e, f, g, h] = values;
                let [first, second] = [[a, b, c, d], [e, f, g, h]].map(Self::from_f32_vector);
                if has_eight {
                    let ([a, b, c, d], [e, f, g, h]) = (first, second);
                    y.store_vec(at, [a, b, c, d, e, f, g, h]);
                } else {
                    y.store_vec(at, first);
                }
            }
        }
    )*};
}

halves!(f16 bf16);
