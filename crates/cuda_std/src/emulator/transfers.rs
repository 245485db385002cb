//! Starts copies and stores that complete on a transaction barrier.

use super::exec::{fail, with};
use super::fault::{FaultKind, Place};
use super::region::Region;
use super::transactions::{CHUNK, Transaction};
use super::{access, async_proxy, clusters, mbarriers};
use crate::map_modes::{
    AXES, Boxes, Im2col, MapElement, MapMode, SPATIAL_AXES, TARGET_BYTES, TensorMap,
};

/// Elements of a 16-byte chunk of a tensor.
const fn chunk_elements(element: MapElement) -> u32 {
    CHUNK as u32 / element.bytes()
}

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
    let (start, mode) = checked_map(WHAT, target, map, place);
    let MapMode::Tiled(boxes) = mode else {
        other_mode(WHAT, place)
    };
    let first = i64::from(at[0]) * i64::from(boxes.element.bytes());
    if first % CHUNK as i64 != 0 {
        let text = format!("{WHAT}: the box starts at byte {first}, no multiple of {CHUNK}");
        fail(place, FaultKind::Argument(text));
    }
    let chunks = |offset| box_chunks(target, &boxes, at, offset);
    copy_chunks(WHAT, (target, start, boxes.element), chunks, address, place);
}

/// Starts to copy one pixel of each of several windows: the pixel at `offsets`, from the window that starts
/// at coordinates `at` on.
pub(crate) fn copy_im2col(
    target: u32,
    map: &TensorMap,
    (at, offsets): ([i32; AXES], [u16; SPATIAL_AXES]),
    address: u32,
    place: Place,
) {
    const WHAT: &str = "copy_im2col";
    /// Offsets have five bits each.
    const MOST_OFFSET: u16 = 31;
    let (start, mode) = checked_map(WHAT, target, map, place);
    let MapMode::Im2col(windows) = mode else {
        other_mode(WHAT, place)
    };
    if offsets.iter().any(|&offset| offset > MOST_OFFSET) {
        let text = format!("{WHAT}: offsets {offsets:?}, limit {MOST_OFFSET}");
        fail(place, FaultKind::Argument(text));
    }
    let Some(lines) = lines_of_windows(&windows, at, offsets) else {
        let text = format!("{WHAT}: no window begins at {at:?}");
        fail(place, FaultKind::Argument(text));
    };
    let element = windows.element;
    let line_chunks = windows.channels_per_pixel / chunk_elements(element);
    let is_swizzled = windows.is_swizzled == 1;
    let chunks = |offset: usize| {
        let of_chunk = |line: u32, chunk: u32| {
            let first = i64::from(at[0]) + i64::from(chunk * chunk_elements(element));
            let is_inside = (0..i64::from(windows.extents[0])).contains(&first);
            let line = lines[line as usize].filter(|_| is_inside)?;
            Some(offset + line + element.bytes() as usize * first as usize)
        };
        swizzled(
            target,
            [lines.len() as u32, line_chunks],
            is_swizzled,
            of_chunk,
        )
    };
    copy_chunks(WHAT, (target, start, element), chunks, address, place);
}

/// Returns the byte offset in the tensor of each line's pixel, or `None` for a line outside of the tensor.
/// Returns `None` as a whole if no window starts at `at`.
fn lines_of_windows(
    windows: &Im2col,
    at: [i32; AXES],
    offsets: [u16; SPATIAL_AXES],
) -> Option<Vec<Option<usize>>> {
    let [_, spatial @ .., samples] = windows.extents.map(i64::from);
    let corners = |axis: usize| {
        let lower = i64::from(windows.lower_corner[axis]);
        (
            lower,
            spatial[axis] - 1 + i64::from(windows.upper_corner[axis]),
        )
    };
    let [_, mut window @ .., mut sample] = at.map(i64::from);
    let begins = |axis: usize| {
        let (lower, upper) = corners(axis);
        let step = i64::from(windows.steps[axis]);
        (lower..=upper).contains(&window[axis]) && (window[axis] - lower) % step == 0
    };
    if !(0..SPATIAL_AXES).all(begins) {
        return None;
    }
    let line = |window: &[i64; SPATIAL_AXES], sample: i64| {
        let mut bytes = sample * windows.strides[SPATIAL_AXES] as i64;
        for axis in 0..SPATIAL_AXES {
            let index = window[axis] + i64::from(offsets[axis]);
            bytes += index * windows.strides[axis] as i64;
            if !(0..spatial[axis]).contains(&index) {
                return None;
            }
        }
        (0..samples).contains(&sample).then_some(bytes as usize)
    };
    let lines = (0..windows.pixels_per_column).map(|_| {
        let from = line(&window, sample);
        let mut axis = 0;
        while axis < SPATIAL_AXES {
            let (lower, upper) = corners(axis);
            window[axis] += i64::from(windows.steps[axis]);
            if window[axis] <= upper {
                break;
            }
            window[axis] = lower;
            axis += 1;
        }
        sample += i64::from(axis == SPATIAL_AXES);
        from
    });
    Some(lines.collect())
}

/// Starts to copy chunks of the tensor at `start`. `chunks` computes their offsets from the tensor's offset
/// in its allocation.
fn copy_chunks(
    what: &str,
    (target, start, element): (u32, usize, MapElement),
    chunks: impl Fn(usize) -> Vec<Option<usize>>,
    address: u32,
    place: Place,
) {
    mbarriers::touch(address, place);
    mbarriers::check_fence(address, place);
    let exec = with();
    let (shared, to) = access::own_shared("copy of boxes: the target", target, place);
    let region = exec.memory.find(start);
    let offset = region.map_or(0, |region| start - region.base);
    let region: *const Region = region.map_or(std::ptr::null(), |region| region);
    let from = chunks(offset);
    if region.is_null() && from.iter().any(Option::is_some) {
        let text = format!("{what}: the tensor at {start:#x} is in no allocation");
        fail(place, FaultKind::Argument(text));
    }
    let token = exec.token();
    let rounds = element == MapElement::Tf32;
    let copy = Transaction::chunks(region, (&from, rounds), (shared, to), place);
    async_proxy::wrote(with(), copy.segment());
    with().stats.async_copies += 1;
    mbarriers::add(address, copy, token, place);
}

/// Reports that `what` was given a map of the wrong mode.
pub(crate) fn other_mode(what: &str, place: Place) -> ! {
    let text = format!("{what}: the tensor map is of another mode");
    fail(place, FaultKind::Argument(text))
}

/// Checks a map that `what` takes, with lines at `shared`. Returns the tensor's address and the map's mode.
pub(crate) fn checked_map(
    what: &str,
    shared: u32,
    map: &TensorMap,
    place: Place,
) -> (usize, MapMode) {
    let refuse =
        |problem: String| -> ! { fail(place, FaultKind::Argument(format!("{what}: {problem}"))) };
    let (start, mode) = MapMode::of_emulated(map);
    if let Err(rule) = mode.check(start) {
        refuse(format!("there is no such tensor map: {rule}"));
    }
    if !shared.is_multiple_of(TARGET_BYTES) {
        refuse(format!(
            "the box at {shared:#x} in shared memory is no multiple of {TARGET_BYTES}"
        ));
    }
    (start, mode)
}

/// Returns the offset of each chunk of a box that is at `shared`, or `None` for a chunk outside of the
/// tensor. The tensor's first byte is at `offset`.
pub(crate) fn box_chunks(
    shared: u32,
    boxes: &Boxes,
    at: [i32; AXES],
    offset: usize,
) -> Vec<Option<usize>> {
    let [of_span, of_rest @ ..] = boxes.counts();
    let place_of = |line: u32, chunk: u32| {
        let mut rest = line;
        let mut source = Some(offset);
        let mut along = |axis: usize, index: u32, bytes: u64| {
            let index = i64::from(at[axis]) + i64::from(index);
            let is_inside = (0..i64::from(boxes.extents[axis])).contains(&index);
            source = source.filter(|_| is_inside);
            source = source.map(|source| source + index as usize * bytes as usize);
        };
        let element = boxes.element;
        along(0, chunk * chunk_elements(element), element.bytes().into());
        for (i, count) in of_rest.into_iter().enumerate() {
            along(i + 1, rest % count * boxes.steps[i + 1], boxes.strides[i]);
            rest /= count;
        }
        source
    };
    let lines = of_rest.iter().product::<u32>();
    let extents = [lines, of_span / chunk_elements(boxes.element)];
    swizzled(shared, extents, boxes.is_swizzled == 1, place_of)
}

/// Applies the swizzle to lines that are at `shared`: calls `place_of` for each chunk, with the line and
/// the source chunk in the line. The number of chunks in a line is a power of two.
fn swizzled(
    shared: u32,
    [lines, chunks]: [u32; 2],
    is_swizzled: bool,
    place_of: impl Fn(u32, u32) -> Option<usize>,
) -> Vec<Option<usize>> {
    let of_chunk = |chunk: u32| {
        // Swizzle: chunks are exchanged within their span, by bits 7 and up of their address.
        let byte = shared + chunk * CHUNK as u32;
        let exchanged = if is_swizzled {
            (byte >> 3) & ((chunks - 1) * CHUNK as u32)
        } else {
            0
        };
        let chunk = ((byte ^ exchanged) - shared) / CHUNK as u32;
        place_of(chunk / chunks, chunk % chunks)
    };
    (0..lines * chunks).map(of_chunk).collect()
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
