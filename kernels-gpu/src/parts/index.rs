//! The plane, channel or row that an element of a flattened tensor belongs to.
//!
//! A block owns consecutive elements, of any number of planes. A 64-bit division for each element would cost
//! more than the memory access. So a block divides once, for its first element, and locates the others
//! relative to it: [`Segments::begun`] is a comparison for long segments and a 32-bit division for short
//! ones.

use core::num::{NonZeroU32, NonZeroU64};

use cuda_std::math;
use launch_config::reciprocal::Reciprocal;

/// Limit of a block's elements; see [`Segments`].
pub(crate) const MAX_SPAN: u32 = 4096;

/// Quotient and remainder without the panic path that a plain `/` adds to the kernel.
///
/// # Safety
/// `divisor > 0`.
#[inline(always)]
pub(crate) unsafe fn div_rem(value: u32, divisor: u32) -> (u32, u32) {
    let divisor = NonZeroU32::new_unchecked(divisor);
    (value / divisor, value % divisor)
}

/// [`div_rem`] in 64 bits.
///
/// # Safety
/// `divisor > 0`.
#[inline(always)]
pub(crate) unsafe fn div_rem_u64(value: u64, divisor: u64) -> (u64, u64) {
    let divisor = NonZeroU64::new_unchecked(divisor);
    (value / divisor, value % divisor)
}

/// Contiguous segments of equal length, relative to a start element.
#[derive(Clone, Copy)]
pub(crate) struct Segments {
    /// The segment of the first element.
    pub(crate) first: u64,
    /// Position of the first element in its segment.
    offset: u64,
    /// Elements of a segment.
    length: u64,
}

impl Segments {
    /// Segments of `length` elements, relative to element `start`.
    ///
    /// # Safety
    /// `length > 0`.
    #[inline(always)]
    pub(crate) unsafe fn from(start: u64, length: u64) -> Self {
        let (first, offset) = div_rem_u64(start, length);
        Self {
            first,
            offset,
            length,
        }
    }

    /// For the element at distance `local` from the first: the number of segments that begin after the first
    /// element up to it, and the number of elements from it to the end of its segment.
    ///
    /// # Safety
    /// `local <= MAX_SPAN`, so at most one segment longer than that ends in between.
    #[inline(always)]
    unsafe fn locate(&self, local: u32) -> (u32, u64) {
        if self.length > MAX_SPAN as u64 {
            let position = self.offset + local as u64;
            let end = if position < self.length {
                self.length
            } else {
                2 * self.length
            };
            ((position >= self.length) as u32, end - position)
        } else {
            let length = self.length as u32;
            let (begun, position) = div_rem(self.offset as u32 + local, length);
            (begun, (length - position) as u64)
        }
    }

    /// The number of segments that begin after the first element, up to the element at distance `local`.
    ///
    /// # Safety
    /// `local <= MAX_SPAN`.
    #[inline(always)]
    pub(crate) unsafe fn begun(&self, local: u32) -> u32 {
        self.locate(local).0
    }

    /// Whether the `count` elements from distance `local` on lie in one segment.
    ///
    /// # Safety
    /// `local <= MAX_SPAN`.
    #[inline(always)]
    pub(crate) unsafe fn in_one(&self, local: u32, count: u32) -> bool {
        self.locate(local).1 >= count as u64
    }
}

/// [`Segments`] whose elements are located with a host-computed reciprocal of their length.
///
/// The reciprocal's divisor is the length, or `FAR` if segments are longer. In the latter case at most one
/// segment ends within a block, and only the distance to its end matters. Positions are then shifted so that
/// the segment ends at position `FAR`.
#[derive(Clone, Copy)]
pub(crate) struct NearSegments<'a> {
    /// The segment of the first element.
    pub(crate) first: u64,
    /// Position of the first element in its segment, less `hidden`.
    offset: u32,
    /// The shift of positions in the first segment.
    hidden: u64,
    // A reference into the kernel's parameters: a copy would be in local memory.
    length: &'a Reciprocal,
}

impl<'a> NearSegments<'a> {
    /// Segments of `length` elements, relative to element `start`.
    ///
    /// # Safety
    /// `length > 0`, and `near` is the reciprocal of `min(length, FAR)`.
    #[inline(always)]
    pub(crate) unsafe fn from(start: u64, length: u64, near: &'a Reciprocal) -> Self {
        let (first, offset) = div_rem_u64(start, length);
        let left = length - offset;
        let seen = if left < near.divisor as u64 {
            near.divisor - left as u32
        } else {
            0
        };
        Self {
            first,
            offset: seen,
            hidden: offset - seen as u64,
            length: near,
        }
    }

    /// For the element at distance `local` from the first: the number of segments that begin after the first
    /// element up to it, and its position in its segment, less `hidden` in the first segment.
    ///
    /// # Safety
    /// `local < FAR`, so that the sum is less than `Reciprocal::LIMIT`.
    #[inline(always)]
    pub(crate) unsafe fn locate(&self, local: u32) -> (u32, u32) {
        self.length.div_rem(self.offset + local, math::high_word)
    }

    /// [`NearSegments::locate`] with the whole position.
    ///
    /// # Safety
    /// As [`NearSegments::locate`].
    #[inline(always)]
    pub(crate) unsafe fn position(&self, local: u32) -> (u32, u64) {
        let (begun, position) = self.locate(local);
        let hidden = if begun == 0 { self.hidden } else { 0 };
        (begun, position as u64 + hidden)
    }

    /// The segment length that [`NearSegments::locate`] uses: at most `FAR`.
    #[inline(always)]
    pub(crate) fn length(&self) -> u32 {
        self.length.divisor
    }
}

/// The channels of a block's elements.
#[derive(Clone, Copy)]
pub(crate) struct Channels {
    planes: Segments,
    first_channel: u32,
    channels: u32,
}

impl Channels {
    /// The channels of the elements from `start` on, in a tensor of planes of `spatial` elements.
    ///
    /// # Safety
    /// `spatial > 0` and `channels > 0`.
    #[inline(always)]
    pub(crate) unsafe fn from(start: u64, spatial: u64, channels: u32) -> Self {
        let planes = Segments::from(start, spatial);
        Self {
            planes,
            first_channel: div_rem_u64(planes.first, channels as u64).1 as u32,
            channels,
        }
    }

    /// The channel of the element `local` elements on.
    ///
    /// # Safety
    /// As [`Segments::begun`].
    #[inline(always)]
    pub(crate) unsafe fn channel(&self, local: u32) -> u32 {
        let channel = self.first_channel + self.planes.begun(local);
        if channel < self.channels {
            channel
        } else {
            div_rem(channel, self.channels).1
        }
    }

    /// Whether `count` elements have one channel; see [`Segments::in_one`].
    ///
    /// # Safety
    /// As [`Segments::in_one`].
    #[inline(always)]
    pub(crate) unsafe fn in_one(&self, local: u32, count: u32) -> bool {
        self.planes.in_one(local, count)
    }
}
