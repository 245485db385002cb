//! Finding out which plane, channel or row an element of a flattened tensor belongs to.
//!
//! Blocks own consecutive elements whatever the planes in them are. Dividing a 64-bit index for
//! each element would cost more than the memory access, so a block divides once, for its first
//! element, and counts on from there: [`Runs::steps`] is a comparison for long runs and a 32-bit
//! division for short ones.

use core::num::{NonZeroU32, NonZeroU64};

/// The most elements that a block counts through; see [`Runs`].
pub(crate) const MAX_SPAN: u32 = 4096;

/// Quotient and remainder without the panic path that a plain `/` brings into the kernel.
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

/// Equal runs, back to back, seen from one element on.
#[derive(Clone, Copy)]
pub(crate) struct Runs {
    /// The run of the first element.
    pub(crate) first: u64,
    /// Where in its run the first element is.
    offset: u64,
    /// Elements of a run.
    length: u64,
}

impl Runs {
    /// Runs of `length` elements, seen from element `start` on.
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

    /// How many runs begin after the first element, up to the one `local` elements on, and how many
    /// elements of the run that this one is in are left, itself included.
    ///
    /// # Safety
    /// `local <= MAX_SPAN`, so a longer run can end only once on the way.
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
            let (steps, position) = div_rem(self.offset as u32 + local, length);
            (steps, (length - position) as u64)
        }
    }

    /// How many runs begin after the first element, up to the one `local` elements on.
    ///
    /// # Safety
    /// `local <= MAX_SPAN`.
    #[inline(always)]
    pub(crate) unsafe fn steps(&self, local: u32) -> u32 {
        self.locate(local).0
    }

    /// The run of the element `local` elements on, and where in the run it is.
    ///
    /// # Safety
    /// `local <= MAX_SPAN`.
    #[inline(always)]
    pub(crate) unsafe fn position(&self, local: u32) -> (u64, u64) {
        let (steps, left) = self.locate(local);
        (self.first + steps as u64, self.length - left)
    }

    /// Whether the `count` elements from the one `local` elements on lie in one run.
    ///
    /// # Safety
    /// `local <= MAX_SPAN`.
    #[inline(always)]
    pub(crate) unsafe fn in_one(&self, local: u32, count: u32) -> bool {
        self.locate(local).1 >= count as u64
    }
}

/// The channels of a block's elements.
#[derive(Clone, Copy)]
pub(crate) struct Channels {
    planes: Runs,
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
        let planes = Runs::from(start, spatial);
        Self {
            planes,
            first_channel: div_rem_u64(planes.first, channels as u64).1 as u32,
            channels,
        }
    }

    /// The channel of the element `local` elements on.
    ///
    /// # Safety
    /// As [`Runs::steps`].
    #[inline(always)]
    pub(crate) unsafe fn channel(&self, local: u32) -> u32 {
        let channel = self.first_channel + self.planes.steps(local);
        if channel < self.channels {
            channel
        } else {
            div_rem(channel, self.channels).1
        }
    }

    /// Whether `count` elements have one channel; see [`Runs::in_one`].
    ///
    /// # Safety
    /// As [`Runs::in_one`].
    #[inline(always)]
    pub(crate) unsafe fn in_one(&self, local: u32, count: u32) -> bool {
        self.planes.in_one(local, count)
    }
}
