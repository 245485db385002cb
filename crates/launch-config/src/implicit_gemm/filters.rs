//! Channels-last filters, which warp-specialized tiles read in place.
//!
//! Where the input channels of a tap are contiguous in memory, as in PyTorch's `channels_last`, and in every
//! filter of one tap, a tensor map has the axes channels, filters and taps. A box of 16 channels, all filters
//! of a tile and one tap is one part of an MMA step, swizzled as the prepared filters are. Channels and
//! filters that do not exist are zeros.

use super::{GemmConfig, K_VECTOR_VALUES};
use crate::mode::mode;

mode! {
    /// The loader of the filters.
    pub FilterLoader {
        /// Bulk copies of filters that a launch has put into the order of operands.
        PREPARED = 0,
        /// Boxes of channels-last filters in place.
        IN_PLACE = 1,
    }
}

impl FilterLoader {
    /// Whether filters are read in place.
    #[must_use]
    #[inline(always)]
    pub const fn is_in_place(self) -> bool {
        self.0 == Self::IN_PLACE.0
    }
}

impl GemmConfig {
    /// Returns the same config with channels-last filters read in place, if that is possible: stored values
    /// in warp-specialized tiles whose MMA steps are one tap in two planes of eight channels. Results are the
    /// same bits with either loader.
    #[must_use]
    pub fn with_filters_in_place(mut self) -> Option<Self> {
        let g = &mut self.geometry;
        let is_one_step = self.tile.is_warp_specialized()
            && self.format.is_stored()
            && g.operands.is_descriptor()
            && g.pair_k_vectors == 0
            && g.outputs_d == 1
            && g.conv.group_c.is_multiple_of(K_VECTOR_VALUES);
        g.filters = FilterLoader::IN_PLACE;
        is_one_step.then_some(self)
    }
}
