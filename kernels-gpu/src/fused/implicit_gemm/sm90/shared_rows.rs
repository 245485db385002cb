//! Rows of a warp's results in shared memory.

use core::mem::size_of;

use cuda_std::Storage;
use cuda_std::shared::Shared;
use launch_config::implicit_gemm::sm90::{WRITTEN_BYTES, WRITTEN_PADDING};

/// Rows of results of type `T` in shared memory, one for each filter.
#[derive(Clone, Copy)]
pub(super) struct Rows<T>(pub(super) Shared<T>);

impl<T: Storage> Rows<T> {
    /// Pixels of a row.
    pub(super) const PIXELS: u32 = WRITTEN_BYTES / size_of::<T>() as u32;

    /// Values from one row to the next.
    pub(super) const PITCH: u32 = Self::PIXELS + WRITTEN_PADDING;

    /// Values of a word.
    pub(super) const OF_WORD: u32 = 4 / size_of::<T>() as u32;

    /// The rows of a warp, in its `words` of shared memory.
    #[inline(always)]
    pub(super) fn of(words: Shared<f32>) -> Self {
        Self(words.cast())
    }

    /// The elements of lane `lane`: two of each octet of pixels, in two rows.
    #[inline(always)]
    pub(super) fn of_lane(&self, lane: u32) -> OfLane<T> {
        let first = lane / 4 * Self::PITCH + 2 * (lane % 4);
        OfLane(self.0.slice(first, self.0.len() - first))
    }
}

/// The elements of a lane in the rows.
pub(super) struct OfLane<T>(Shared<T>);

impl<T: Storage> OfLane<T> {
    /// Stores the two values of octet `n`, of the lane's row `i`.
    ///
    /// # Safety
    /// `n < Rows::<T>::PIXELS / 8`, `i < 2`, and no lane reads the previous values any more.
    #[inline(always)]
    pub(super) unsafe fn store(&self, i: usize, n: usize, values: [T; 2]) {
        let row = 8 * i as u32 * Rows::<T>::PITCH;
        self.0.store_vec(row + 8 * n as u32, values);
    }
}
