//! How many clusters of blocks run at the same time.
//!
//! A cluster lies within one group of multiprocessors (GPC), so some multiprocessors stay idle. The sizes of
//! GPCs differ from chip to chip. These are the numbers of one H200 (docs/tuning.md), scaled in proportion
//! for a device with more or fewer multiprocessors.

/// Blocks of a cluster, one to a multiprocessor, and the number of such clusters that ran at the same time.
const COUNTED: [(u32, u64); 5] = [(8, 15), (6, 17), (5, 22), (4, 30), (2, 66)];

/// Multiprocessors of the device of [`COUNTED`].
const COUNTED_ON: u64 = 132;

/// Clusters of `blocks` blocks, one to a multiprocessor, that run at the same time on `multiprocessors`
/// multiprocessors; 0 for a number of blocks that was not counted.
#[must_use]
pub(crate) const fn at_once(blocks: u32, multiprocessors: u32) -> u64 {
    let mut row = 0;
    while row < COUNTED.len() {
        if COUNTED[row].0 == blocks {
            return COUNTED[row].1 * multiprocessors as u64 / COUNTED_ON;
        }
        row += 1;
    }
    0
}
