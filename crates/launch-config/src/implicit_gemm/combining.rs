//! Launches that combine the moments of tiles into those of a norm's rows.

use super::SPREAD_THREADS;
use crate::LaunchShape;

/// A row with more moments than this is combined in two launches, first in chunks.
const COMBINED_AT_ONCE: u64 = 2048;

/// Moments of a chunk: as many for each thread as it keeps in flight.
const CHUNK_MOMENTS: u64 = SPREAD_THREADS as u64 * COMBINED_BY_THREAD as u64;

/// Moments that a thread keeps in flight.
pub const COMBINED_BY_THREAD: u32 = 4;

/// A launch that combines the moments of each row, chunk by chunk, to one for each chunk.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Combining {
    /// Moments of a row.
    pub count: u64,
    /// Moments of each chunk of a row but the last.
    pub chunk: u64,
    /// Chunks of a row.
    pub chunks: u32,
}

impl Combining {
    /// The launch that combines all `count` moments of a row, at least one, in one chunk.
    #[must_use]
    pub const fn whole(count: u64) -> Self {
        Self {
            count,
            chunk: count,
            chunks: 1,
        }
    }

    /// The launch for `rows` rows: a block for each chunk.
    #[must_use]
    pub fn shape(&self, rows: u64) -> Option<LaunchShape> {
        LaunchShape::linear(rows.checked_mul(self.chunks.into())?, SPREAD_THREADS)
    }
}

/// The launches that combine the `count` moments of a norm's row. The second one combines the results of the
/// first. Up to `by_readers` moments need no launch: the kernel that reads them combines them. Many moments
/// are combined in chunks first, because a single block would take long for them.
#[must_use]
pub fn combining(count: u64, by_readers: u64) -> [Option<Combining>; 2] {
    if count <= by_readers {
        return [None, None];
    }
    if count <= COMBINED_AT_ONCE {
        return [Some(Combining::whole(count)), None];
    }
    // A launch with too many chunks for a grid is refused.
    let chunks = count.div_ceil(CHUNK_MOMENTS);
    let in_chunks = Combining {
        count,
        chunk: CHUNK_MOMENTS,
        chunks: chunks.min(u32::MAX.into()) as u32,
    };
    [Some(in_chunks), Some(Combining::whole(chunks))]
}
