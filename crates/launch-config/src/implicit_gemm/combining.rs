//! Launches that combine the moments of tiles.

use super::SPREAD_THREADS;
use crate::LaunchShape;

/// More moments than this of one row are combined in pieces first.
const COMBINED_AT_ONCE: u64 = 2048;

/// Moments of a piece: as many for each thread as it loads at once.
const PIECE_MOMENTS: u64 = SPREAD_THREADS as u64 * COMBINED_BY_THREAD as u64;

/// Moments that a thread loads at once where they are combined.
pub const COMBINED_BY_THREAD: u32 = 4;

/// A launch that combines moments: those of each row in pieces, of which each becomes one.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Combining {
    /// Moments of a row.
    pub count: u64,
    /// Moments of each of its pieces but the last.
    pub piece: u64,
    /// Pieces of a row.
    pub pieces: u32,
}

impl Combining {
    /// All of `count` moments at a time, of which there is one at least.
    #[must_use]
    pub const fn whole(count: u64) -> Self {
        Self {
            count,
            piece: count,
            pieces: 1,
        }
    }

    /// The launch for `rows` rows: a block for each piece.
    #[must_use]
    pub fn shape(&self, rows: u64) -> Option<LaunchShape> {
        LaunchShape::linear(rows.checked_mul(self.pieces.into())?, SPREAD_THREADS)
    }
}

/// The launches that combine the `count` moments of a norm's row, each of which takes those that the one
/// before leaves. Up to `by_readers` of them are left to the kernel that reads them. One block would take
/// long for many of them, however idle the device is, so pieces come first.
#[must_use]
pub fn combining(count: u64, by_readers: u64) -> [Option<Combining>; 2] {
    if count <= by_readers {
        return [None, None];
    }
    if count <= COMBINED_AT_ONCE {
        return [Some(Combining::whole(count)), None];
    }
    // Where these are too many for a grid, the launch is refused.
    let pieces = count.div_ceil(PIECE_MOMENTS);
    let in_pieces = Combining {
        count,
        piece: PIECE_MOMENTS,
        pieces: pieces.min(u32::MAX.into()) as u32,
    };
    [Some(in_pieces), Some(Combining::whole(pieces))]
}
