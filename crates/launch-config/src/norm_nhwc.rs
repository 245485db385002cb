//! Group, instance and batch norm of channels-last tensors. The samples of a batch norm count as one.
//!
//! A thread processes a vector of channels for several pixels of a part of a sample: 16 bytes, or four
//! channels of 16 bits if pixels are not whole vectors of 16 bytes. Each part has statistics of each channel,
//! in the same form as those of convolutions. The same kernel combines them into the statistics of rows.

use super::norm::{COUNTED_ELEMENTS, NormGeometry};
use super::{LaunchShape, Refusal, VECTOR_ELEMENTS};

/// Threads of a block.
pub const BLOCK_THREADS: u32 = 256;

/// Minimum resident blocks per multiprocessor, of the statistics kernel and of the normalising kernel.
pub const MIN_BLOCKS: [u32; 2] = [3, 3];

/// The most channels of a thread.
pub const THREAD_CHANNELS: usize = 8;

/// Pixels whose moments a thread computes at a time.
pub const MOMENT_PIXELS: u32 = 8;

/// The fewest and the most pixels of a thread in a part. Parts are longer if a sample would have more than
/// [`MAX_PARTS`] of them.
const PART_PIXELS: [u32; 2] = [8, 32];

/// Target number of blocks for the statistics of a sample.
const SAMPLE_BLOCKS: u64 = 128;

/// The most pixels of a thread in a part of a normalising pass.
const APPLY_PIXELS: u64 = 16;

/// Target number of blocks of a normalising pass over few pixels.
const APPLY_BLOCKS: u64 = 1_024;

/// The maximum number of parts of a sample.
const MAX_PARTS: u32 = 512;

/// A pass of a norm over a channels-last tensor.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NormNhwcGeometry {
    /// The norm. In a normalising pass, it has one result per row.
    pub norm: NormGeometry,
    /// Samples of the tensor.
    pub samples: u64,
    /// Groups of channels, which are rows of the norm.
    pub groups: u32,
    /// Pixels of a sample.
    pub pixels: u32,
    /// Channels of a thread.
    pub thread_channels: u32,
    /// Vectors of channels of a block.
    pub block_vectors: u32,
    /// Blocks for the channels of a pixel.
    pub channel_blocks: u32,
    /// Pixels that the threads of a block process at the same time.
    pub lanes: u32,
    /// Pixels of a part.
    pub part_pixels: u32,
    /// Parts of a sample.
    pub parts: u32,
}

impl NormNhwcGeometry {
    /// Returns the pass that computes statistics of elements of `element_bytes` bytes. Its parts depend on a
    /// sample's shape alone.
    ///
    /// # Errors
    /// Channels that are not whole vectors; samples without pixels, or of 2^31 or more.
    pub fn statistics(norm: &NormGeometry, element_bytes: usize) -> Result<Self, Refusal> {
        if norm.channels == 0 || !norm.channels.is_multiple_of(VECTOR_ELEMENTS as u32) {
            return Err(Refusal::Needs("a multiple of 4 channels"));
        }
        let Ok(pixels @ 1..=0x7fff_ffff) = u32::try_from(norm.spatial) else {
            return Err(Refusal::Needs("samples of 1 to 2^31 - 1 pixels"));
        };
        let in_16_bytes = 16 / element_bytes as u32;
        let thread_channels = match norm.channels.is_multiple_of(in_16_bytes) {
            true => in_16_bytes,
            false => VECTOR_ELEMENTS as u32,
        };
        let vectors = norm.channels / thread_channels;
        let block_vectors = vectors.min(BLOCK_THREADS);
        let lanes = BLOCK_THREADS / block_vectors;
        let channel_blocks = vectors.div_ceil(block_vectors);
        let [least, most] = PART_PIXELS;
        let of_thread =
            u64::from(pixels) * u64::from(channel_blocks) / (u64::from(lanes) * SAMPLE_BLOCKS);
        let of_thread = of_thread.clamp(least.into(), most.into()) as u32;
        let part_pixels = (of_thread * lanes).max(pixels.div_ceil(MAX_PARTS));
        let groups = norm.channels / norm.row_channels;
        Ok(Self {
            norm: *norm,
            samples: norm.rows / u64::from(groups),
            groups,
            pixels,
            thread_channels,
            block_vectors,
            channel_blocks,
            lanes,
            part_pixels,
            parts: pixels.div_ceil(part_pixels),
        })
    }

    /// Returns the pass that normalises, with statistics that are combined into one result per row. For few
    /// pixels, each thread processes fewer.
    #[must_use]
    pub fn apply(&self) -> Self {
        let of_pixel = u64::from(self.lanes) * APPLY_BLOCKS;
        let blocks = self.samples.saturating_mul(u64::from(self.channel_blocks));
        let pixels = u64::from(self.pixels).saturating_mul(blocks) / of_pixel;
        let part_pixels = pixels.clamp(1, APPLY_PIXELS) as u32 * self.lanes;
        Self {
            norm: self.norm.counted(1),
            part_pixels,
            parts: self.pixels.div_ceil(part_pixels),
            ..*self
        }
    }

    /// f32 elements of the statistics, `[samples][channels][parts][count, mean, M2, 0]`.
    #[must_use]
    #[inline(always)]
    pub const fn moment_elements(&self) -> u64 {
        self.samples * self.norm.channels as u64 * self.parts as u64 * COUNTED_ELEMENTS as u64
    }

    /// Number of partial statistics per row of the norm.
    #[must_use]
    pub const fn moments_of_row(&self) -> u64 {
        self.norm.row_channels as u64 * self.parts as u64
    }

    /// A pass' launch; `None` if it exceeds a grid.
    #[must_use]
    pub const fn shape(&self) -> Option<LaunchShape> {
        let of_sample = self.parts as u64 * self.channel_blocks as u64;
        LaunchShape::linear(self.samples.saturating_mul(of_sample), BLOCK_THREADS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(
        channels: u32,
        groups: u32,
        spatial: u64,
        element_bytes: usize,
    ) -> Result<NormNhwcGeometry, Refusal> {
        let norm = NormGeometry::new(2, channels, groups, spatial, 1e-5);
        NormNhwcGeometry::statistics(&norm, element_bytes)
    }

    #[test]
    fn parts_cover_a_sample_and_none_is_empty() {
        for (channels, spatial, element_bytes, parts) in [
            (4, 1, 4, 1),
            (8, 1024, 4, 1),
            (8, 1025, 4, 2),
            (8, 2048, 2, 1),
            (8, 2049, 2, 2),
            (320, 96, 2, 2),
            (320, 97, 2, 3),
            (2048, 512 * 32, 4, 512),
            (2048, 512 * 32 + 1, 4, 497),
            (128, 512 * 512, 4, 512),
        ] {
            let g = of(channels, 2, spatial, element_bytes).expect("whole vectors");
            for pass in [g, g.apply()] {
                let before = u64::from(pass.parts - 1) * u64::from(pass.part_pixels);
                assert!(before < spatial, "{channels} channels, {spatial} pixels");
                assert!(before + u64::from(pass.part_pixels) >= spatial);
            }
            assert_eq!(g.parts, parts, "{channels} channels, {spatial} pixels");
            assert!(g.channel_blocks * g.block_vectors * g.thread_channels >= channels);
        }
    }

    #[test]
    fn other_shapes_are_refused() {
        for (channels, spatial) in [(6, 9), (0, 9), (8, 0), (8, 1 << 31)] {
            assert!(
                of(channels, 1, spatial, 2).is_err(),
                "{channels}, {spatial}"
            );
        }
        assert!(of(8, 1, (1 << 31) - 1, 2).is_ok());
    }
}
