//! The number of clusters that run at the same time.
//!
//! A cluster lies within one group of multiprocessors (GPC), and some multiprocessors therefore stay idle.
//! The sizes of GPCs differ from chip to chip. These numbers were measured on one H200 (docs/tuning.md) and
//! are scaled in proportion to a device's number of multiprocessors.

/// Blocks of a cluster, one per multiprocessor, and the measured number of clusters that run at the same
/// time.
const COUNTED: [(u32, u64); 5] = [(8, 15), (6, 17), (5, 22), (4, 30), (2, 66)];

/// Multiprocessors of the device on which [`COUNTED`] was measured.
const COUNTED_ON: u64 = 132;

/// Returns the number of clusters of `blocks` blocks, one per multiprocessor, that run at the same time on
/// `multiprocessors` multiprocessors; 0 for a cluster size without a measurement.
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
