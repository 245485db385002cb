//! Gates of channels-last tensors. (Gates of NCHW tensors are scales with one channel per plane.)
//!
//! A thread multiplies vectors of [`VECTOR_ELEMENTS`] channels by the vectors of the sample's gate.

use super::norm::FAR;
use super::reciprocal::Reciprocal;
use super::{LaunchShape, Refusal, VECTOR_ELEMENTS};

/// Threads of a block.
pub const BLOCK_THREADS: u32 = 256;

/// Minimum resident blocks per multiprocessor (launch bounds).
pub const MIN_BLOCKS: u32 = 5;

/// Vectors of a thread, [`BLOCK_THREADS`] vectors apart.
pub const VECTORS_PER_THREAD: usize = 4;

/// Consecutive vectors of a block.
pub const BLOCK_VECTORS: u32 = BLOCK_THREADS * VECTORS_PER_THREAD as u32;

/// A gate of a channels-last tensor.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GateGeometry {
    /// Samples.
    pub samples: u64,
    /// Vectors of a sample, less than 2^31.
    pub sample_vectors: u32,
    /// Reciprocal of the vectors of a pixel.
    pub pixel: Reciprocal,
    /// Reciprocal of the vectors of a sample, at most [`FAR`]; see `ApplyGeometry`.
    pub near: Reciprocal,
}

impl GateGeometry {
    /// Returns the gate of `n` samples with this number of channels and positions.
    ///
    /// # Errors
    /// Channels that are not whole vectors; samples of 2^31 vectors or more.
    pub fn new(n: usize, channels: usize, spatial: usize) -> Result<Self, Refusal> {
        if channels == 0 || !channels.is_multiple_of(VECTOR_ELEMENTS) {
            return Err(Refusal::Needs("a multiple of 4 channels"));
        }
        let pixel = channels / VECTOR_ELEMENTS;
        let vectors = pixel
            .checked_mul(spatial)
            .and_then(|all| u32::try_from(all).ok());
        match vectors {
            Some(sample_vectors) if sample_vectors < Reciprocal::LIMIT => Ok(Self {
                samples: n as u64,
                sample_vectors,
                pixel: Reciprocal::of(pixel as u32),
                near: Reciprocal::of(sample_vectors.min(FAR)),
            }),
            _ => Err(Refusal::Needs("samples of less than 2^31 vectors")),
        }
    }

    /// Vectors of all samples.
    #[must_use]
    #[inline(always)]
    pub const fn vectors(&self) -> u64 {
        self.samples * self.sample_vectors as u64
    }

    /// The kernel's launch; `None` if it exceeds a grid.
    #[must_use]
    pub const fn shape(&self) -> Option<LaunchShape> {
        LaunchShape::linear(self.vectors().div_ceil(BLOCK_VECTORS as u64), BLOCK_THREADS)
    }
}
