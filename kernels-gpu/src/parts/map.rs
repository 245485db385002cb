//! Functions of the elements of an `(n, channels, spatial)` tensor.
//!
//! An [`ElementMap`] finds the parameters of an element, such as its channel's scale, by the distance from
//! the block's first element, and applies them. An elementwise kernel looks them up once for a whole vector
//! where it can. A pool already knows the plane of a window: it looks up the parameters of a [`PlaneMap`]
//! once a window.

use cuda_std::Storage;
use cuda_std::global::Global;
use cuda_std::math;
use launch_config::elementwise::Bounds;

use crate::parts::index::{Channels, div_rem};

/// A function of an element and its position.
pub(crate) trait ElementMap {
    /// Parameters that the elements of one plane share.
    type Params: Copy;

    /// The parameters of the element `local` elements after the block's first.
    ///
    /// # Safety
    /// The element is one of the block's.
    unsafe fn params(&self, local: u32) -> Self::Params;

    /// Whether the `count` elements from `local` on have the same parameters.
    ///
    /// # Safety
    /// As [`ElementMap::params`], for each of these elements.
    unsafe fn in_one(&self, local: u32, count: u32) -> bool;

    /// The mapped element.
    fn apply(&self, params: Self::Params, x: f32) -> f32;
}

/// `min(max(x, bounds.min), bounds.max)`. NaN stays NaN, and bounds with `min > max` give `max`.
#[inline(always)]
pub(crate) fn clamp(bounds: Bounds, x: f32) -> f32 {
    math::min_nan(math::max_nan(x, bounds.min), bounds.max)
}

/// `x` if it is above `multiplied_to`, else `x * scale`. This is a product for an infinite `multiplied_to`,
/// and a PReLU for 0. NaN stays NaN.
#[inline(always)]
pub(crate) fn multiply(x: f32, scale: f32, multiplied_to: f32) -> f32 {
    if x > multiplied_to { x } else { x * scale }
}

/// `x * scale[channel]`, or `x` if it is above `multiplied_to`.
#[derive(Clone, Copy)]
pub(crate) struct ChannelScale<T: Storage> {
    /// A factor, or slope, per channel.
    pub(crate) scale: Global<T>,
    /// The channels of the block's elements.
    pub(crate) channels: Channels,
    /// Values above this bound stay unchanged.
    pub(crate) multiplied_to: f32,
}

impl<T: Storage> ElementMap for ChannelScale<T> {
    type Params = f32;

    #[inline(always)]
    unsafe fn params(&self, local: u32) -> f32 {
        let channel = self.channels.channel(local);
        self.scale.load_readonly(channel as usize).to_f32()
    }

    #[inline(always)]
    unsafe fn in_one(&self, local: u32, count: u32) -> bool {
        self.channels.in_one(local, count)
    }

    #[inline(always)]
    fn apply(&self, scale: f32, x: f32) -> f32 {
        multiply(x, scale, self.multiplied_to)
    }
}

/// `fma(gain[channel], x, shift[channel])`
#[derive(Clone, Copy)]
pub(crate) struct ChannelAffine {
    /// A factor per channel.
    pub(crate) gain: Global<f32>,
    /// A summand per channel.
    pub(crate) shift: Global<f32>,
    /// The channels of the block's elements.
    pub(crate) channels: Channels,
}

impl ElementMap for ChannelAffine {
    type Params = [f32; 2];

    #[inline(always)]
    unsafe fn params(&self, local: u32) -> [f32; 2] {
        let channel = self.channels.channel(local) as usize;
        [self.gain, self.shift].map(|values| values.load_readonly(channel))
    }

    #[inline(always)]
    unsafe fn in_one(&self, local: u32, count: u32) -> bool {
        self.channels.in_one(local, count)
    }

    #[inline(always)]
    fn apply(&self, [gain, shift]: [f32; 2], x: f32) -> f32 {
        math::fma(gain, x, shift)
    }
}

/// A function of an element and its plane.
pub(crate) trait PlaneMap {
    /// Parameters that the elements of one plane share.
    type Params: Copy;

    /// The parameters of the plane `plane` planes after the block's first.
    ///
    /// # Safety
    /// The plane is one of the block's.
    unsafe fn params(&self, plane: u32) -> Self::Params;

    /// The mapped element.
    fn apply(&self, params: Self::Params, x: f32) -> f32;

    /// Whether the maximum of mapped elements, or NaN, follows from the smallest and the largest element
    /// alone.
    ///
    /// That holds if every step of the map keeps or reverses the order, as sums and products do, rounded or
    /// not. A product with an infinite factor does not: only an element of 0 gives NaN. (A product of 0 and
    /// an infinite value also gives NaN, but then an extreme element is the first to become infinite.)
    fn extremes_decide(&self, params: Self::Params) -> bool;

    /// The maximum of mapped elements, if their extremes decide it.
    #[inline(always)]
    fn of_extremes(&self, params: Self::Params, smallest: f32, largest: f32) -> f32 {
        math::max_nan(self.apply(params, smallest), self.apply(params, largest))
    }
}

/// `x`
#[derive(Clone, Copy)]
pub(crate) struct Identity;

impl PlaneMap for Identity {
    type Params = ();

    #[inline(always)]
    unsafe fn params(&self, _plane: u32) {}

    #[inline(always)]
    fn apply(&self, (): (), x: f32) -> f32 {
        x
    }

    #[inline(always)]
    fn extremes_decide(&self, (): ()) -> bool {
        true
    }

    #[inline(always)]
    fn of_extremes(&self, (): (), _smallest: f32, largest: f32) -> f32 {
        largest
    }
}

/// `x * scale[channel]`
#[derive(Clone, Copy)]
pub(crate) struct PlaneScale<T: Storage> {
    /// A factor per channel.
    pub(crate) scale: Global<T>,
    /// The channel of the block's first plane.
    pub(crate) first_channel: u32,
}

impl<T: Storage> PlaneMap for PlaneScale<T> {
    type Params = f32;

    #[inline(always)]
    unsafe fn params(&self, plane: u32) -> f32 {
        let channels = self.scale.len() as u32;
        let channel = div_rem(self.first_channel + plane, channels).1;
        self.scale.load_readonly(channel as usize).to_f32()
    }

    #[inline(always)]
    fn apply(&self, scale: f32, x: f32) -> f32 {
        x * scale
    }

    #[inline(always)]
    fn extremes_decide(&self, scale: f32) -> bool {
        is_not_infinite(scale)
    }
}

/// Whether `x` is finite or NaN. A NaN is harmless here: it makes all elements NaN alike.
#[inline(always)]
pub(crate) fn is_not_infinite(x: f32) -> bool {
    math::abs(x) != f32::INFINITY
}
