//! Starts copies and stores that report to a transaction barrier.

use super::exec::{fail, with};
use super::fault::{FaultKind, Place};
use super::region::Region;
use super::transactions::{CHUNK, Transaction};
use super::{async_proxy, clusters, mbarriers};

/// What a bulk copy reads: a region and an offset, if it reads anything.
type From = Option<(*const Region, usize)>;

/// Starts a bulk copy.
pub(crate) fn copy(target: u32, source: From, bytes: u32, address: u32, place: Place) {
    check_copy(target, bytes, place);
    mbarriers::touch(address, place);
    mbarriers::check_fence(address, place);
    if with().shared_at(target).is_none() {
        let text =
            format!("copy_bulk: target {target:#x} is no address in this block's shared memory");
        fail(place, FaultKind::Argument(text));
    }
    start_copy(target, source, bytes, address, place);
}

/// Starts a bulk copy to each block that has a bit in `blocks`, at the place that has this address here, which
/// reports to that block's barrier.
pub(crate) fn copy_to_blocks(
    target: u32,
    source: From,
    bytes: u32,
    address: u32,
    blocks: u16,
    place: Place,
) {
    const WHAT: &str = "bulk copy to blocks";
    with().tick(place);
    check_copy(target, bytes, place);
    if blocks == 0 {
        let text = format!("{WHAT}: the mask names no block");
        fail(place, FaultKind::Argument(text));
    }
    for rank in (0..u16::BITS).filter(|rank| blocks >> rank & 1 == 1) {
        let there = clusters::remote(target, rank, WHAT, place);
        let barrier = clusters::remote(address, rank, WHAT, place);
        mbarriers::touch(barrier, place);
        mbarriers::check_fence(barrier, place);
        if rank != with().rank {
            mbarriers::check_phase(barrier, place);
        }
        start_copy(there, source, bytes, barrier, place);
    }
}

fn check_copy(target: u32, bytes: u32, place: Place) {
    let aligned = |value: u32| (value as usize).is_multiple_of(CHUNK);
    if bytes == 0 || !aligned(bytes) || !aligned(target) {
        let text =
            format!("copy_bulk: {bytes} bytes to {target:#x}, both must be multiples of {CHUNK}");
        fail(place, FaultKind::Argument(text));
    }
}

/// Starts a copy to shared memory of any block, which reports to a barrier that was touched.
fn start_copy(target: u32, source: From, bytes: u32, barrier: u32, place: Place) {
    let bytes = bytes as usize;
    let (source, from) = source.expect("bytes > 0");
    let exec = with();
    let region = (exec.shared.at(target)).expect("all blocks have the same pieces");
    let (to, shared): (usize, *const Region) = (target as usize - region.base, region);
    // The copy is a reader and a writer of its own time, which only the barrier passes on.
    let token = exec.token();
    let copy = Transaction::copy((source, from), (shared, to), bytes, place);
    async_proxy::wrote(with(), copy.segment());
    with().stats.async_copies += 1;
    mbarriers::add(barrier, copy, token, place);
}

/// Starts a store to block `rank` of the cluster, at the place that has this address here, which
/// reports to that block's barrier.
pub(crate) fn store(to: u32, barrier: u32, rank: u32, values: [f32; 2], place: Place) {
    const WHAT: &str = "st.async";
    with().tick(place);
    let there = clusters::remote(to, rank, WHAT, place);
    let barrier = clusters::remote(barrier, rank, WHAT, place);
    mbarriers::touch(barrier, place);
    mbarriers::check_fence(barrier, place);
    mbarriers::check_phase(barrier, place);
    let exec = with();
    let region = (exec.shared.at(there)).expect("all blocks have the same pieces");
    let (to, target): (usize, *const Region) = (there as usize - region.base, region);
    let token = exec.token();
    let store = Transaction::store((target, to), values, WHAT, place);
    with().stats.async_copies += 1;
    mbarriers::add(barrier, store, token, place);
}
