//! Shuffles as layers.

use alloc::vec;
use alloc::vec::Vec;

use super::{GraphLayer, Layer, LayerProblem, constructors};
use crate::ShuffleSpec;
use crate::error::SpecError;

constructors! {
    /// Interleaves the channels of all groups; see [`ShuffleSpec::ChannelShuffle`].
    channel_shuffle(groups: usize) = Layer::Shuffle(ShuffleSpec::ChannelShuffle { groups });
    /// Arranges channels as blocks of pixels; see [`ShuffleSpec::PixelShuffle`].
    pixel_shuffle(upscale_factor: usize) = Layer::Shuffle(ShuffleSpec::PixelShuffle { upscale_factor });
    /// Arranges blocks of pixels as channels; see [`ShuffleSpec::PixelUnshuffle`].
    pixel_unshuffle(downscale_factor: usize) = Layer::Shuffle(ShuffleSpec::PixelUnshuffle { downscale_factor });
}

impl GraphLayer for ShuffleSpec {
    fn dimensions(&self) -> Option<usize> {
        match self {
            Self::ChannelShuffle { .. } => None,
            Self::PixelShuffle { .. } | Self::PixelUnshuffle { .. } => Some(2),
        }
    }

    fn needs_batch(&self) -> bool {
        self.dimensions().is_none()
    }

    fn check(&self, channels: usize) -> Result<Option<usize>, SpecError> {
        self.channels(channels).map(Some)
    }

    fn problem(&self, input: &[usize]) -> Result<(LayerProblem, Vec<usize>), SpecError> {
        let problem = ShuffleSpec::problem(self, input)?;
        let [n, c, r, _, h, w] = problem.extents;
        let output = match self {
            Self::ChannelShuffle { .. } => input.to_vec(),
            Self::PixelShuffle { .. } => vec![n, c, h * r, w * r],
            Self::PixelUnshuffle { .. } => vec![n, c * r * r, h, w],
        };
        Ok((LayerProblem::Shuffle(problem), output))
    }
}
