//! Stores of boxes of a tensor from shared memory.
//!
//! A store reads its box and writes the tensor when it starts, on behalf of its thread. The box must not
//! change until the wait that covers the store's group, like an operand of an MMA batch in flight.

use std::collections::VecDeque;
use std::rc::Rc;

use super::exec::{Exec, Extension, fail, with};
use super::fault::{Fault, FaultKind, Place};
use super::matrix_rows::Row;
use super::region::Region;
use super::schedule::fault_of;
use super::transactions::CHUNK;
use super::transfers::{box_chunks, checked_map, other_mode};
use super::wgmma_in_flight::Flight;
use super::{access, matrix_rows};
use crate::map_modes::{AXES, MapMode, TensorMap};

/// The stores of one thread.
#[derive(Debug, Default)]
struct Stores {
    /// Since the last group.
    open: Vec<Flight>,
    groups: VecDeque<Vec<Flight>>,
    /// The source line of the last store.
    place: Option<Place>,
}

/// The stores of each thread.
struct AllStores(Vec<Stores>);

impl Extension for AllStores {
    fn new(exec: &Exec) -> Self {
        Self(exec.threads.iter().map(|_| Stores::default()).collect())
    }
}

/// The stores of the current thread.
fn stores(exec: &mut Exec) -> &mut Stores {
    let thread = exec.thread as usize;
    &mut exec.extension::<AllStores>().0[thread]
}

/// Writes the box of a tensor at these coordinates.
pub(crate) fn store_box(source: u32, map: &TensorMap, at: [i32; AXES], place: Place) {
    const WHAT: &str = "store_box";
    with().tick(place);
    let (start, mode) = checked_map(WHAT, source, map, place);
    let MapMode::Tiled(boxes) = mode else {
        other_mode(WHAT, place)
    };
    if !(boxes.element.bytes() as usize * boxes.extents[0] as usize).is_multiple_of(CHUNK) {
        let text = format!("{WHAT}: a tensor with whole chunks of {CHUNK} bytes is modelled alone");
        fail(place, FaultKind::Argument(text));
    }
    let region = with().memory.find(start);
    let offset = region.map_or(0, |region| start - region.base);
    let region: *const Region = region.map_or(std::ptr::null(), |region| region);
    let chunks = box_chunks(source, &boxes, at, offset);
    if region.is_null() && chunks.iter().any(Option::is_some) {
        let text = format!("{WHAT}: the tensor at {start:#x} is in no allocation");
        fail(place, FaultKind::Argument(text));
    }
    let addresses = || (source..).step_by(CHUNK).take(chunks.len());
    let rows = matrix_rows::rows(WHAT, addresses(), place);
    let flight = Flight::new([rows, Rc::default()], place);
    for (address, to) in addresses().zip(&chunks) {
        if let &Some(to) = to {
            let row = Row::at(WHAT, address, place).words();
            let to = access::write(region, to, CHUNK, place);
            // SAFETY: `write` checked the 16 bytes and their alignment.
            unsafe { to.cast::<[u32; 4]>().write(row) };
        }
    }
    let stores = stores(with());
    stores.open.push(flight);
    stores.place = Some(place);
}

/// Makes a group of the current thread's stores since the last call.
pub(crate) fn commit(place: Place) {
    let exec = with();
    exec.tick(place);
    let stores = stores(exec);
    let group = std::mem::take(&mut stores.open);
    stores.groups.push_back(group);
}

/// Waits until the stores of all groups but the `left` youngest have read their boxes.
pub(crate) fn wait_read(left: usize, place: Place) {
    let exec = with();
    exec.tick(place);
    while stores(exec).groups.len() > left {
        let group = stores(exec).groups.pop_front();
        group
            .into_iter()
            .flatten()
            .for_each(|flight| flight.land("store", place));
    }
}

/// Called after `thread` has ended: all of its stores must have read shared memory, which ends with the
/// block.
pub(crate) fn check_end(exec: &mut Exec, thread: u32) -> Result<(), Fault> {
    let stores = &exec.extension::<AllStores>().0[thread as usize];
    let left = stores.open.len() + stores.groups.iter().map(Vec::len).sum::<usize>();
    if left == 0 {
        return Ok(());
    }
    let kind = FaultKind::Argument(format!(
        "store_box: the thread has ended, and did not wait until {left} store(s) had read shared memory"
    ));
    let place = stores.place;
    Err(fault_of(exec, thread, place, kind))
}
