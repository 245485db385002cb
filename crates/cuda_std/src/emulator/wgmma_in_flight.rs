//! Chains (MMA batches) of `wgmma` in flight.
//!
//! Accumulators are computed at the start, but operands in shared memory must not change until the wait that
//! covers the chain. At that wait the reads are checked a second time. A write before the wait is found by a
//! changed write stamp. A write after the wait that is ordered only after the chain's start is a race with
//! the second read. So the result does not depend on the order in which the two run.

use std::collections::VecDeque;

use super::access;
use super::exec::{Exec, Extension, fail, with};
use super::fault::{Fault, FaultKind, Place};
use super::region::Region;
use super::schedule::fault_of;
use super::stamp;

/// The number of a thread's chain, from 0; none for no chain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChainNumber(Option<u64>);

impl ChainNumber {
    pub(crate) const NONE: Self = Self(None);
}

/// The chains of one thread.
#[derive(Debug, Default)]
struct Chains {
    started: u64,
    /// Chains below this number are complete.
    finished: u64,
    /// The source line of the last chain's start.
    place: Option<Place>,
    /// The reads of incomplete chains, if this thread reads for its warp.
    flights: VecDeque<Flight>,
}

/// The chains of each thread.
#[derive(Debug)]
struct AllChains(Vec<Chains>);

impl Extension for AllChains {
    fn new(exec: &Exec) -> Self {
        Self(exec.threads.iter().map(|_| Chains::default()).collect())
    }
}

/// The chains of the current thread.
fn chains(exec: &mut Exec) -> &mut Chains {
    let thread = exec.thread as usize;
    &mut exec.extension::<AllChains>().0[thread]
}

/// The reads of a chain, or of a store of a box, in shared memory.
#[derive(Debug)]
pub(crate) struct Flight {
    number: u64,
    /// The stamp of the reads.
    read: u64,
    /// Rows of core matrices.
    rows: Vec<Row>,
    /// The write stamps of their cells.
    writes: Vec<u64>,
}

/// A row of a core matrix.
#[derive(Debug)]
struct Row {
    address: u32,
    /// Cells had `1 << shift` bytes at the start. A narrower access splits them.
    shift: u32,
}

/// Bytes of a row of a core matrix.
pub(crate) const ROW_BYTES: usize = 16;

impl Flight {
    /// The rows that the current thread has just read for its warp.
    pub(crate) fn new(rows: impl Iterator<Item = u32>, place: Place) -> Self {
        let mut rows: Vec<u32> = rows.collect();
        rows.sort_unstable();
        rows.dedup();
        let writes = (rows.iter()).flat_map(|&row| writes(row)).collect();
        let rows = rows.into_iter().map(|address| {
            let (region, _) = at(address);
            // SAFETY: shared regions live as long as the launch.
            let shift = unsafe { &*region }.shift();
            Row { address, shift }
        });
        Self {
            number: 0,
            read: with().stamp(place),
            rows: rows.collect(),
            writes,
        }
    }

    /// Checks the reads again, of bytes that must not have changed since the start of a `what`.
    pub(crate) fn land(&self, what: &'static str, place: Place) {
        let mut before = self.writes.as_slice();
        for row in &self.rows {
            let (of_row, others) = before.split_at(ROW_BYTES >> row.shift);
            let parts = (writes(row.address).count() / of_row.len()).max(1);
            let was = of_row
                .iter()
                .flat_map(|&write| std::iter::repeat_n(write, parts));
            for (cell, (write, was)) in writes(row.address).zip(was).enumerate() {
                if write != was {
                    self.refuse(row.address, cell, what, place);
                }
            }
            before = others;
        }
        let exec = with();
        // No thread has synchronised with this one since: a write is a race with the first read.
        if stamp::same_segment(self.read, exec.now.me) {
            return;
        }
        let loaded = exec.loaded;
        for row in &self.rows {
            let (region, offset) = at(row.address);
            access::read(region, offset, ROW_BYTES, place);
        }
        with().loaded = loaded;
    }

    fn refuse(&self, row: u32, cell: usize, by: &'static str, place: Place) -> ! {
        let (region, offset) = at(row);
        // SAFETY: shared regions live as long as the launch.
        let region = unsafe { &*region };
        let (what, earlier) = (
            "operand written before the wait",
            with().earlier(by, self.read),
        );
        fail(
            place,
            region.in_flight(what, offset + (cell << region.shift()), earlier),
        )
    }
}

/// The region and offset of a row.
fn at(row: u32) -> (*const Region, usize) {
    let region = with().shared_at(row).expect("it was read");
    (region, row as usize - region.base)
}

/// The write stamps of a row's cells.
fn writes(row: u32) -> impl Iterator<Item = u64> {
    let (region, offset) = at(row);
    // SAFETY: shared regions live as long as the launch.
    let region = unsafe { &*region };
    let cells = offset >> region.shift()..(offset + ROW_BYTES) >> region.shift();
    // SAFETY: the row was read, so it is inside of the region.
    cells.map(|cell| unsafe { (*region.cell(cell)).write & !stamp::BYTES })
}

/// Counts a chain of the current thread, and keeps the reads that it made for its warp.
pub(crate) fn start(flight: Option<Flight>, place: Place) {
    let chains = chains(with());
    let number = chains.started;
    chains.started += 1;
    chains.place = Some(place);
    let flight = flight.map(|flight| Flight { number, ..flight });
    chains.flights.extend(flight);
}

/// The number of chains that the current thread has waited for.
pub(crate) fn finished(exec: &mut Exec) -> u64 {
    chains(exec).finished
}

/// Called after `thread` has ended: all of its chains must be complete.
pub(crate) fn check_end(exec: &mut Exec, thread: u32) -> Result<(), Fault> {
    let chains = &exec.extension::<AllChains>().0[thread as usize];
    let (left, place) = (chains.started - chains.finished, chains.place);
    if left == 0 {
        return Ok(());
    }
    let kind = FaultKind::Warp {
        op: "wgmma".to_owned(),
        problem: format!(
            "the thread has ended, and did not wait for {left} chain(s), of which this is the last"
        ),
    };
    Err(fault_of(exec, thread, place, kind))
}

/// The last chain that the current thread has started.
pub(crate) fn newest() -> ChainNumber {
    ChainNumber(Some(chains(with()).started - 1))
}

/// Waits for all chains of the current thread but the `left` youngest, which must not include `chain`.
pub(crate) fn wait(chain: ChainNumber, left: u32, place: Place) {
    let exec = with();
    exec.tick(place);
    let chains = chains(exec);
    let over = chains.started.saturating_sub(u64::from(left));
    chains.finished = chains.finished.max(over);
    if let Some(number) = chain.0
        && number >= chains.finished
    {
        let younger = chains.started - 1 - number;
        let text = format!(
            "wgmma: {younger} chain(s) started after this one, so a wait that leaves {left} under way does not wait for it"
        );
        fail(place, FaultKind::Argument(text));
    }
    while let Some(flight) = next_finished() {
        flight.land("chain", place);
    }
}

/// The oldest complete chain whose reads have not been checked again.
fn next_finished() -> Option<Flight> {
    let chains = chains(with());
    let first = chains.flights.front()?;
    if first.number < chains.finished {
        chains.flights.pop_front()
    } else {
        None
    }
}
