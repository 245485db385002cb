//! How many clusters of blocks run at the same time.
//!
//! Multiprocessors come in groups, and a cluster lies within one of them, so some multiprocessors stay idle.
//! How large each group is differs from chip to chip; these are the numbers of one H200 (docs/tuning.md), and
//! those of a device with more or fewer multiprocessors are taken to be in proportion.

/// Blocks of a cluster, one to a multiprocessor, and how many such clusters ran at once.
const COUNTED: [(u32, u64); 5] = [(8, 15), (6, 17), (5, 22), (4, 30), (2, 66)];

/// The multiprocessors that they were counted on.
const COUNTED_ON: u64 = 132;

/// Clusters of `blocks` blocks, one to a multiprocessor, that run at once on `multiprocessors` of them; none
/// for a number of blocks that nothing is known of.
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
