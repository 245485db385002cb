//! Starts copies and stores that complete on a transaction barrier.

use super::exec::{fail, with};
use super::fault::{FaultKind, Place};
use super::region::Region;
use super::transactions::{CHUNK, Transaction};
use super::{access, async_proxy, clusters, mbarriers};
use crate::common::{AXES, Boxes, TARGET_BYTES, TensorMap};

/// Elements of a 16-byte chunk of a box.
const CHUNK_ELEMENTS: u32 = CHUNK as u32 / 2;

/// The source of a bulk copy, a region and an offset; `None` for an empty copy.
type From = Option<(*const Region, usize)>;

/// Starts a bulk copy.
pub(crate) fn copy(target: u32, source: From, bytes: u32, address: u32, place: Place) {
    check_copy(target, bytes, place);
    mbarriers::touch(address, place);
    mbarriers::check_fence(address, place);
    access::own_shared("copy_bulk: target", target, place);
    start_copy(target, source, bytes, address, place);
}

/// Starts a multicast copy to each block with a bit in `blocks`. `target` and `address` are mapped to that
/// block's data and barrier.
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

/// Starts to copy the box of a tensor at these coordinates.
pub(crate) fn copy_box(target: u32, map: &TensorMap, at: [i32; AXES], address: u32, place: Place) {
    const WHAT: &str = "copy_box";
    let (start, boxes) = checked_map(WHAT, target, map, place);
    mbarriers::touch(address, place);
    mbarriers::check_fence(address, place);
    let exec = with();
    let (shared, to) = access::own_shared("copy_box: the target", target, place);
    let region = exec.memory.find(start);
    let offset = region.map_or(0, |region| start - region.base);
    let region: *const Region = region.map_or(std::ptr::null(), |region| region);
    let from = box_chunks(target, &boxes, at, offset);
    if region.is_null() && from.iter().any(Option::is_some) {
        let text = format!("{WHAT}: the tensor at {start:#x} is in no allocation");
        fail(place, FaultKind::Argument(text));
    }
    let token = exec.token();
    let copy = Transaction::chunks(region, &from, (shared, to), place);
    async_proxy::wrote(with(), copy.segment());
    with().stats.async_copies += 1;
    mbarriers::add(address, copy, token, place);
}

/// The tensor's address and the boxes of a map that `what` takes with a box at `shared`.
pub(crate) fn checked_map(
    what: &str,
    shared: u32,
    map: &TensorMap,
    place: Place,
) -> (usize, Boxes) {
    let refuse =
        |problem: String| -> ! { fail(place, FaultKind::Argument(format!("{what}: {problem}"))) };
    let (start, boxes) = Boxes::of_emulated(map);
    if let Err(rule) = boxes.check(start) {
        refuse(format!("there is no such tensor map: {rule}"));
    }
    if !shared.is_multiple_of(TARGET_BYTES) {
        refuse(format!(
            "the box at {shared:#x} in shared memory is no multiple of {TARGET_BYTES}"
        ));
    }
    (start, boxes)
}

/// For each chunk of a box that lies at `shared`, where it is in the tensor, whose first byte is at `offset`;
/// nothing outside of the tensor.
pub(crate) fn box_chunks(
    shared: u32,
    boxes: &Boxes,
    at: [i32; AXES],
    offset: usize,
) -> Vec<Option<usize>> {
    let [of_span, of_rest @ ..] = boxes.counts();
    let chunks = of_span / CHUNK_ELEMENTS;
    let is_swizzled = boxes.is_swizzled == 1;
    let place_of = |chunk: u32| {
        // Swizzle: chunks are exchanged within their span, by bits 7 and up of their address.
        let byte = shared + chunk * CHUNK as u32;
        let exchanged = if is_swizzled {
            (byte >> 3) & ((chunks - 1) * CHUNK as u32)
        } else {
            0
        };
        let chunk = (byte ^ exchanged) - shared;
        let mut rest = chunk / CHUNK as u32 / chunks;
        let first = chunk / CHUNK as u32 % chunks * CHUNK_ELEMENTS;
        let mut source = Some(offset);
        let mut along = |axis: usize, index: u32, bytes: u64| {
            let index = i64::from(at[axis]) + i64::from(index);
            let is_inside = (0..i64::from(boxes.extents[axis])).contains(&index);
            source = source.filter(|_| is_inside);
            source = source.map(|source| source + index as usize * bytes as usize);
        };
        along(0, first, 2);
        for (i, count) in of_rest.into_iter().enumerate() {
            along(i + 1, rest % count * boxes.steps[i + 1], boxes.strides[i]);
            rest /= count;
        }
        source
    };
    let all = of_rest.iter().product::<u32>() * chunks;
    (0..all).map(place_of).collect()
}

fn check_copy(target: u32, bytes: u32, place: Place) {
    let aligned = |value: u32| (value as usize).is_multiple_of(CHUNK);
    if bytes == 0 || !aligned(bytes) || !aligned(target) {
        let text =
            format!("copy_bulk: {bytes} bytes to {target:#x}, both must be multiples of {CHUNK}");
        fail(place, FaultKind::Argument(text));
    }
}

/// Starts a copy to shared memory of any block that completes on a `touch`ed barrier.
fn start_copy(target: u32, source: From, bytes: u32, barrier: u32, place: Place) {
    let bytes = bytes as usize;
    let (source, from) = source.expect("bytes > 0");
    let exec = with();
    let region = (exec.shared.at(target)).expect("all blocks have the same pieces");
    let (to, shared): (usize, *const Region) = (target as usize - region.base, region);
    // The copy reads and writes in a segment of its own, which only the barrier passes on.
    let token = exec.token();
    let copy = Transaction::copy((source, from), (shared, to), bytes, place);
    async_proxy::wrote(with(), copy.segment());
    with().stats.async_copies += 1;
    mbarriers::add(barrier, copy, token, place);
}

/// Starts a store to block `rank` of the cluster. `to` and `barrier` are mapped to that block's data and
/// barrier.
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
