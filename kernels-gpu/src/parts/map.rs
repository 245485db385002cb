//! What happens to each element of an `(n, channels, spatial)` tensor.
//!
//! Elementwise kernels and pools differ in what they do with a mapped element, not in the mapping.
//! An [`ElementMap`] gives the parameters of an element (its channel's scale, its row's
//! statistics), found by its distance from the block's first element, and applies them. A pool
//! asks once for a whole window, an elementwise kernel once for a whole vector where it can.

use cuda_std::Storage;
use cuda_std::global::Global;
use cuda_std::math;
use op_spec::launch::elementwise::Bounds;

use crate::parts::index::Channels;

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

/// `x`
#[derive(Clone, Copy)]
pub(crate) struct Identity;

impl ElementMap for Identity {
    type Params = ();

    #[inline(always)]
    unsafe fn params(&self, _local: u32) {}

    #[inline(always)]
    unsafe fn in_one(&self, _local: u32, _count: u32) -> bool {
        true
    }

    #[inline(always)]
    fn apply(&self, (): (), x: f32) -> f32 {
        x
    }
}

/// `min(max(x, bounds.min), bounds.max)`; NaN is kept, and crossed bounds give the upper one.
#[inline(always)]
pub(crate) fn clamp(bounds: Bounds, x: f32) -> f32 {
    math::min_nan(math::max_nan(x, bounds.min), bounds.max)
}

impl ElementMap for Bounds {
    type Params = ();

    #[inline(always)]
    unsafe fn params(&self, _local: u32) {}

    #[inline(always)]
    unsafe fn in_one(&self, _local: u32, _count: u32) -> bool {
        true
    }

    #[inline(always)]
    fn apply(&self, (): (), x: f32) -> f32 {
        clamp(*self, x)
    }
}

/// `x * scale[channel]`
#[derive(Clone, Copy)]
pub(crate) struct ChannelScale<T: Storage> {
    /// A factor per channel.
    pub(crate) scale: Global<T>,
    /// The channels of the block's elements.
    pub(crate) channels: Channels,
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
        x * scale
    }
}

/// First one map, then the other.
#[derive(Clone, Copy)]
pub(crate) struct Then<A, B>(pub(crate) A, pub(crate) B);

impl<A: ElementMap, B: ElementMap> ElementMap for Then<A, B> {
    type Params = (A::Params, B::Params);

    #[inline(always)]
    unsafe fn params(&self, local: u32) -> Self::Params {
        (self.0.params(local), self.1.params(local))
    }

    #[inline(always)]
    unsafe fn in_one(&self, local: u32, count: u32) -> bool {
        self.0.in_one(local, count) && self.1.in_one(local, count)
    }

    #[inline(always)]
    fn apply(&self, (first, second): Self::Params, x: f32) -> f32 {
        self.1.apply(second, self.0.apply(first, x))
    }
}
