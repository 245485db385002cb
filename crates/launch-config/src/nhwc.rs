//! The distribution of work over blocks for kernels with sliding windows on channels-last tensors.
//!
//! A thread computes *runs*: neighbouring outputs of a row, for a vector of channels. A block computes
//! consecutive runs of one sample, for several vectors of channels. `kernels_gpu::parts::nhwc` maps threads
//! to runs.

use super::norm::ENOUGH_BLOCKS;
use super::{LaunchShape, Refusal, VECTOR_ELEMENTS};

/// The maximum number of threads of a block.
pub const MAX_BLOCK_THREADS: u32 = 256;

/// The maximum number of vectors of channels per block: one cache line of 16-bit values.
pub const MAX_VECTORS: u32 = 16;

/// Vectors of 16-bit values in a sector of memory.
const SECTOR_VECTORS: u32 = 4;

/// The maximum number of runs that a thread computes one after the other.
const MAX_ROUNDS: u64 = 4;

/// The division of runs and vectors of channels into blocks.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunBlocks {
    /// Samples.
    pub n: u64,
    /// Channels of input and output.
    pub channels: u32,
    /// Outputs of a run.
    pub run: u32,
    /// Runs in a row of the output.
    pub row_runs: u32,
    /// Runs in a sample; each of them has all channels.
    pub sample_runs: u32,
    /// Vectors of channels of a block.
    pub block_vectors: u32,
    /// Blocks along the channels.
    pub channel_blocks: u32,
    /// Runs that a block computes at the same time, with one thread per vector of channels.
    pub round_runs: u32,
    /// Runs of a block.
    pub block_runs: u32,
    /// Blocks along the runs of a sample.
    pub sample_blocks: u32,
}

impl RunBlocks {
    /// Returns blocks of at most `most_vectors` vectors for `n` samples with this number of channels. Inputs
    /// have `columns` columns, and outputs `[z, p, q]` pixels, less than 2^31. No result depends on the
    /// blocks.
    ///
    /// # Errors
    /// Channels that are not whole vectors; an output without elements; rows of 2^32 elements or more; more
    /// blocks than a grid has.
    pub fn new(
        (n, channels): (u64, u32),
        columns: u32,
        [z, p, q]: [u32; 3],
        run: u32,
        most_vectors: u32,
    ) -> Result<Self, Refusal> {
        if !channels.is_multiple_of(VECTOR_ELEMENTS as u32) {
            return Err(Refusal::Needs("a multiple of 4 channels"));
        }
        if n == 0 || channels == 0 || z * p * q == 0 {
            return Err(Refusal::Needs("an output with elements"));
        }
        if channels.checked_mul(columns.max(q)).is_none() {
            return Err(Refusal::Needs("rows of less than 2^32 elements"));
        }
        let row_runs = q.div_ceil(run);
        // The product is at most the number of pixels.
        let sample_runs = z * p * row_runs;

        // All blocks have about the same number of vectors, and whole sectors if these fit.
        let vectors = channels / VECTOR_ELEMENTS as u32;
        let few = vectors.div_ceil(vectors.div_ceil(most_vectors));
        let block_vectors = match few.next_multiple_of(SECTOR_VECTORS) {
            sectors if sectors <= most_vectors => sectors.min(vectors),
            _ => few,
        };
        let channel_blocks = vectors.div_ceil(block_vectors);
        let round_runs = (MAX_BLOCK_THREADS / block_vectors).min(sample_runs);
        // More rounds amortise a block's preparation and share input rows in cache.
        let rounds = n.saturating_mul(channel_blocks.into());
        let rounds = rounds.saturating_mul(sample_runs.div_ceil(round_runs).into());
        let block_runs = round_runs * (rounds / ENOUGH_BLOCKS).clamp(1, MAX_ROUNDS) as u32;
        let blocks = Self {
            n,
            channels,
            run,
            row_runs,
            sample_runs,
            block_vectors,
            channel_blocks,
            round_runs,
            block_runs,
            sample_blocks: sample_runs.div_ceil(block_runs),
        };
        match blocks.shape() {
            Some(_) => Ok(blocks),
            None => Err(Refusal::Needs("a grid of no more than 2^31 - 1 blocks")),
        }
    }

    /// The launch of a kernel with these blocks; `None` if it exceeds a grid.
    #[must_use]
    pub fn shape(&self) -> Option<LaunchShape> {
        let blocks = self.n.checked_mul(self.sample_blocks.into())?;
        let blocks = blocks.checked_mul(self.channel_blocks.into())?;
        LaunchShape::linear(blocks, self.round_runs * self.block_vectors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_all_runs_of_all_channels() {
        for (n, channels, output, run, most) in [
            (1, 4, [1, 1, 1], 8, 16),
            (32, 96, [1, 112, 112], 8, 16),
            (1, 960, [1, 7, 7], 4, 16),
            (2, 240, [9, 14, 14], 4, 16),
            (1, 20, [1, 59, 59], 8, 3),
        ] {
            let blocks = RunBlocks::new((n, channels), 120, output, run, most);
            let blocks = blocks.expect("a small grid");
            let [z, p, q] = output;
            let vectors = channels / 4;
            assert!(blocks.block_vectors <= most && blocks.row_runs * run >= q);
            assert!(blocks.channel_blocks * blocks.block_vectors >= vectors);
            assert!((blocks.channel_blocks - 1) * blocks.block_vectors < vectors);
            assert_eq!(blocks.sample_runs, z * p * blocks.row_runs);
            assert!(blocks.sample_blocks * blocks.block_runs >= blocks.sample_runs);
            assert_eq!(blocks.block_runs % blocks.round_runs, 0);
            let shape = blocks.shape().expect("a small grid");
            assert!(shape.block[0] <= MAX_BLOCK_THREADS);
        }
    }

    #[test]
    fn tensors_that_threads_cannot_index_are_refused() {
        let blocks = |n, channels, columns| {
            RunBlocks::new((n, channels), columns, [1, 9, 9], 8, MAX_VECTORS)
        };
        assert!(blocks(1, 8, 9).is_ok());
        assert!(blocks(1, 6, 9).is_err());
        assert!(blocks(0, 8, 9).is_err());
        assert!(blocks(1, 1 << 20, 1 << 12).is_err());
        assert!(blocks(1 << 31, 8, 9).is_err());
    }
}
