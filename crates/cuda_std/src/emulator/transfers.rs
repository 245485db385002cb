//! Starts copies and stores that report to a transaction barrier.

use super::exec::{fail, with};
use super::fault::{FaultKind, Place};
use super::region::Region;
use super::transactions::{CHUNK, Transaction};
use super::{async_proxy, clusters, mbarriers};

/// Starts a bulk copy.
pub(crate) fn copy(
    target: u32,
    source: Option<(*const Region, usize)>,
    bytes: u32,
    address: u32,
    place: Place,
) {
    let bytes = bytes as usize;
    let aligned = |value: usize| value.is_multiple_of(CHUNK);
    if bytes == 0 || !aligned(bytes) || !aligned(target as usize) {
        let text =
            format!("copy_bulk: {bytes} bytes to {target:#x}, both must be multiples of {CHUNK}");
        fail(place, FaultKind::Argument(text));
    }
    let (source, from) = source.expect("bytes > 0");
    mbarriers::touch(address, place);
    let Some(region) = with().shared_at(target) else {
        let text =
            format!("copy_bulk: target {target:#x} is no address in this block's shared memory");
        fail(place, FaultKind::Argument(text));
    };
    let (to, shared): (usize, *const Region) = (target as usize - region.base, region);
    // The copy is a reader and a writer of its own time, which only the barrier passes on.
    let token = with().token();
    let copy = Transaction::copy((source, from), (shared, to), bytes, place);
    async_proxy::wrote(with(), copy.segment());
    with().stats.async_copies += 1;
    mbarriers::add(address, copy, token, place);
}

/// Starts a store to block `rank` of the cluster, at the place that has this address here, which
/// reports to that block's barrier.
pub(crate) fn store(to: u32, barrier: u32, rank: u32, values: [f32; 2], place: Place) {
    const WHAT: &str = "st.async";
    with().tick(place);
    let there = clusters::remote(to, rank, WHAT, place);
    let barrier = clusters::remote(barrier, rank, WHAT, place);
    mbarriers::touch(barrier, place);
    mbarriers::check_phase(barrier, place);
    let exec = with();
    let region = (exec.shared.at(there)).expect("all blocks have the same pieces");
    let (to, target): (usize, *const Region) = (there as usize - region.base, region);
    let token = exec.token();
    let store = Transaction::store((target, to), values, WHAT, place);
    with().stats.async_copies += 1;
    mbarriers::add(barrier, store, token, place);
}
