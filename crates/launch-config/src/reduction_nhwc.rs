//! Reductions over the pixels of channels-last tensors: one value per channel of each sample.
//!
//! A thread processes a vector of [`VECTOR_ELEMENTS`] channels for several pixels of a part of a sample. If a
//! sample has several parts, their results form a sample with one pixel per part, which the next launch
//! reduces, and so on. The parts depend on a sample's shape alone; results are therefore bit-identical for
//! any batch size.

use super::{ElementType, LaunchShape, Refusal, VECTOR_ELEMENTS};

/// The maximum number of threads of a block.
pub const MAX_BLOCK_THREADS: u32 = 256;

/// Minimum resident blocks per multiprocessor (launch bounds).
pub const MIN_BLOCKS: u32 = 6;

/// Pixels whose loads a thread has in flight.
pub const LOADS: u32 = 4;

/// The maximum number of vectors of channels per block: one cache line of 16-bit values.
pub const MAX_VECTORS: u32 = 16;

/// Vectors of 16-bit values in a sector of memory.
const SECTOR_VECTORS: u32 = 4;

/// The maximum number of threads that share the pixels of a part.
const MAX_LANES: u32 = 64;

/// The maximum number of pixels of a thread.
const MAX_PIXELS: u32 = 64;

/// The minimum number of pixels of a thread, for samples with several parts.
const FEWEST_PIXELS: u32 = 16;

/// The reduction of a channel's values.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PixelOperation {
    /// The sum, divided by a divisor.
    Sum = 0,
    /// The maximum; NaN propagates.
    Max = 1,
    /// The minimum; NaN propagates.
    Min = 2,
}

impl PixelOperation {
    /// The result for no values.
    #[must_use]
    pub const fn none(self) -> f32 {
        match self {
            Self::Sum => 0.0,
            Self::Max => f32::NEG_INFINITY,
            Self::Min => f32::INFINITY,
        }
    }
}

/// A reduction of the parts of samples.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReductionNhwcGeometry {
    /// Samples.
    pub samples: u64,
    /// Channels.
    pub channels: u32,
    /// Pixels of a sample.
    pub pixels: u32,
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
    /// The reduction.
    pub operation: PixelOperation,
    /// The value of [`PixelOperation::none`].
    pub none: f32,
    /// The divisor of a sum.
    pub divisor: f32,
    /// The element type of the results.
    pub output: ElementType,
}

impl ReductionNhwcGeometry {
    /// Returns the reduction of `samples` samples to f32. Sums have the divisor 1.
    ///
    /// # Errors
    /// Channels that are not whole vectors; samples without pixels, or of 2^31 or more; more blocks than a
    /// grid has.
    pub fn new(
        operation: PixelOperation,
        samples: u64,
        channels: u32,
        pixels: u64,
    ) -> Result<Self, Refusal> {
        if channels == 0 || !channels.is_multiple_of(VECTOR_ELEMENTS as u32) {
            return Err(Refusal::Needs("a multiple of 4 channels"));
        }
        let Ok(pixels @ 1..=0x7fff_ffff) = u32::try_from(pixels) else {
            return Err(Refusal::Needs("samples of 1 to 2^31 - 1 pixels"));
        };
        // All blocks have about the same number of vectors, in whole sectors.
        let vectors = channels / VECTOR_ELEMENTS as u32;
        let few = vectors.div_ceil(vectors.div_ceil(MAX_VECTORS));
        let block_vectors = few.next_multiple_of(SECTOR_VECTORS).min(vectors);
        let lanes = (MAX_BLOCK_THREADS / block_vectors).min(MAX_LANES);
        // A thread has about the same number of pixels in this launch and in the next one.
        let of_thread = match pixels.div_ceil(lanes) {
            all @ ..=MAX_PIXELS => all,
            _ => (pixels.isqrt() / lanes).clamp(FEWEST_PIXELS, MAX_PIXELS),
        };
        let part_pixels = of_thread * lanes;
        let new = Self {
            samples,
            channels,
            pixels,
            block_vectors,
            channel_blocks: vectors.div_ceil(block_vectors),
            lanes,
            part_pixels,
            parts: pixels.div_ceil(part_pixels),
            operation,
            none: operation.none(),
            divisor: 1.0,
            output: ElementType::F32,
        };
        match new.shape() {
            Some(_) => Ok(new),
            None => Err(Refusal::Needs("a grid of no more than 2^31 - 1 blocks")),
        }
    }

    /// Elements of the tensor.
    #[must_use]
    #[inline(always)]
    pub const fn elements(&self) -> u64 {
        self.samples * self.pixels as u64 * self.channels as u64
    }

    /// Number of results: one for each channel of each part, `[samples][parts][channels]`.
    #[must_use]
    #[inline(always)]
    pub const fn results(&self) -> u64 {
        self.samples * self.parts as u64 * self.channels as u64
    }

    /// The kernel's launch; `None` if it exceeds a grid.
    #[must_use]
    pub const fn shape(&self) -> Option<LaunchShape> {
        let of_sample = self.parts as u64 * self.channel_blocks as u64;
        let threads = self.lanes * self.block_vectors;
        LaunchShape::linear(self.samples.saturating_mul(of_sample), threads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(channels: u32, pixels: u64) -> Result<ReductionNhwcGeometry, Refusal> {
        ReductionNhwcGeometry::new(PixelOperation::Sum, 2, channels, pixels)
    }

    #[test]
    fn parts_cover_a_sample_and_none_is_empty() {
        for (channels, pixels, parts) in [
            (4, 1, 1),
            (4, 64 * 64, 1),
            (4, 64 * 64 + 1, 5),
            (2048, 49, 1),
            (512, 28 * 28, 1),
            (256, 56 * 56, 13),
            (96, 112 * 112, 38),
            (64, 512 * 512, 512),
            (64, 4096 * 4096, 16384),
            (72, 1024, 1),
        ] {
            let g = of(channels, pixels).expect("whole vectors");
            let before = u64::from(g.parts - 1) * u64::from(g.part_pixels);
            assert!(before < pixels, "{channels} channels, {pixels} pixels");
            assert!(before + u64::from(g.part_pixels) >= pixels);
            assert_eq!(g.parts, parts, "{channels} channels, {pixels} pixels");
            let vectors = channels / VECTOR_ELEMENTS as u32;
            assert!(g.channel_blocks * g.block_vectors >= vectors);
            assert!((g.channel_blocks - 1) * g.block_vectors < vectors);
            let [threads, ..] = g.shape().expect("a small grid").block;
            // The last step has one thread per channel of a block.
            assert!(threads <= MAX_BLOCK_THREADS && g.lanes >= VECTOR_ELEMENTS as u32);
            assert!(g.block_vectors <= MAX_VECTORS);
            assert!(g.part_pixels <= MAX_PIXELS * g.lanes);
        }
    }

    #[test]
    fn other_shapes_are_refused() {
        for (channels, pixels) in [(6, 9), (0, 9), (8, 0), (8, 1 << 31)] {
            assert!(of(channels, pixels).is_err(), "{channels}, {pixels}");
        }
        let many = |samples| ReductionNhwcGeometry::new(PixelOperation::Max, samples, 64, 9);
        assert!(many((1 << 31) - 1).is_ok());
        assert!(many(1 << 31).is_err());
    }
}
