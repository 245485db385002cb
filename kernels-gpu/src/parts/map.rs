//! What happens to each element of an `(n, channels, spatial)` tensor.
//!
//! An [`ElementMap`] gives the parameters of an element (its channel's scale), found by its distance
//! from the block's first element, and applies them; an elementwise kernel asks once for a whole
//! vector where it can. A pool knows the plane of a window already: it asks a [`PlaneMap`] once for
//! each.

use cuda_std::Storage;
use cuda_std::global::Global;
use cuda_std::math;
use launch_config::elementwise::Bounds;

use crate::parts::index::{Channels, div_rem};

/// A function of an element and of where it is.
pub(crate) trait ElementMap {
    /// What the elements of one plane share.
    type Params: Copy;

    /// The parameters of the element `local` elements after the block's first.
    ///
    /// # Safety
    /// The element is one of the block's.
    unsafe fn params(&self, local: u32) -> Self::Params;

    /// Whether the `count` elements from `local` on have equal parameters.
    ///
    /// # Safety
    /// As [`ElementMap::params`], for each of them.
    unsafe fn in_one(&self, local: u32, count: u32) -> bool;

    /// The mapped element.
    fn apply(&self, params: Self::Params, x: f32) -> f32;
}

/// `min(max(x, bounds.min), bounds.max)`; NaN is kept, and crossed bounds give the upper one.
#[inline(always)]
pub(crate) fn clamp(bounds: Bounds, x: f32) -> f32 {
    math::min_nan(math::max_nan(x, bounds.min), bounds.max)
}

/// `x` where it is above `multiplied_to`, else `x * scale`: a product if that is infinity, a prelu if it is
/// 0. NaN stays NaN.
#[inline(always)]
pub(crate) fn multiply(x: f32, scale: f32, multiplied_to: f32) -> f32 {
    if x > multiplied_to { x } else { x * scale }
}

/// `x * scale[channel]`, or `x` where it is above `multiplied_to`.
#[derive(Clone, Copy)]
pub(crate) struct ChannelScale<T: Storage> {
    /// A factor, or slope, per channel.
    pub(crate) scale: Global<T>,
    /// The channels of the block's elements.
    pub(crate) channels: Channels,
    /// What is above it stays as it is.
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
    /// What is added to a channel.
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

/// A function of the elements of a plane.
pub(crate) trait PlaneMap {
    /// What the elements of one plane share.
    type Params: Copy;

    /// The parameters of the plane `plane` planes after the block's first.
    ///
    /// # Safety
    /// The plane is one of the block's.
    unsafe fn params(&self, plane: u32) -> Self::Params;

    /// The mapped element.
    fn apply(&self, params: Self::Params, x: f32) -> f32;

    /// Whether the largest of some mapped elements, or NaN, is that of the smallest and largest element
    /// mapped.
    ///
    /// It is where every step of the map keeps the order or reverses it, as sums and products do, rounded or
    /// not. A product with an infinite factor does not: zero alone gives NaN. (A product of 0 and what is
    /// infinite gives NaN as well, but of all elements an extreme one becomes infinite first.)
    fn extremes_decide(&self, params: Self::Params) -> bool;

    /// The largest of some mapped elements, if their extremes decide.
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

/// Whether `x` is finite or NaN, which makes NaN of all elements alike.
#[inline(always)]
pub(crate) fn is_not_infinite(x: f32) -> bool {
    math::abs(x) != f32::INFINITY
}
