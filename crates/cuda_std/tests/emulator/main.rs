//! Tests of the emulator's detectors. For each there are kernels with a planted bug that must be caught,
//! and correct ones that must pass; each runs in natural and in shuffled orders.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "every kernel here is launched by the test beside it, which knows its sizes; the bugs are on purpose"
)]

mod barriers;
mod box_stores;
mod boxes;
mod clusters;
mod copies;
mod endings;
mod exchanges;
mod families;
mod im2col;
mod mbarriers;
mod memory;
mod mma_batches;
mod multicast;
mod ordering;
mod packed;
mod races;
mod registers;
mod shared_mma_batches;
mod shown;
mod sparse;
mod support;
mod swizzled;
mod tensor_cores;
mod warps;
mod wide_mma_batches;
