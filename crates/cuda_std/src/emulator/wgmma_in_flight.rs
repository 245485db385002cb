//! Chains (MMA batches) of `wgmma` in flight.
//!
//! Accumulators are computed at the start, but operands in shared memory must not change until the wait that
//! covers the chain. At that wait the reads are checked a second time. A write before the wait is found by a
//! changed write stamp. A write after the wait that is ordered only after the chain's start is a race with
//! the second read. So the result does not depend on the order in which the two run.

use std::collections::VecDeque;
use std::rc::Rc;

use super::exec::{Exec, Extension, fail, with};
use super::fault::{Fault, FaultKind, Place};
use super::matrix_rows::{ROW_BYTES, Row};
use super::schedule::fault_of;
use super::{async_proxy, stamp};

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
    /// The rows, and the write stamps of their cells.
    rows: [Rc<[Row]>; 2],
    writes: Vec<u64>,
    /// Cells of a row at the start. A narrower access splits them.
    cells: Vec<u8>,
}

impl Flight {
    /// Reads the rows through the asynchronous proxy, on behalf of the current thread.
    pub(crate) fn new(rows: [Rc<[Row]>; 2], place: Place) -> Self {
        let (mut writes, mut cells) = (Vec::new(), Vec::new());
        for rows in &rows {
            async_proxy::check(rows, place);
            for row in rows.iter() {
                row.read(place);
                let before = writes.len();
                writes.extend(row.writes());
                cells.push((writes.len() - before) as u8);
            }
        }
        Self {
            number: 0,
            read: with().stamp(place),
            rows,
            writes,
            cells,
        }
    }

    /// The rows.
    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().flat_map(|rows| rows.iter())
    }

    /// Checks the reads again. The bytes must not have changed since the start of the chain or store
    /// `what`.
    pub(crate) fn land(&self, what: &'static str, place: Place) {
        let mut before = self.writes.as_slice();
        for (row, &cells) in self.rows().zip(&self.cells) {
            let (of_row, others) = before.split_at(cells.into());
            let parts = (ROW_BYTES >> row.region().shift()) / of_row.len();
            for (cell, write) in row.writes().enumerate() {
                if write != of_row[cell / parts] {
                    self.refuse(row, cell, what, place);
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
        self.rows().for_each(|row| row.read(place));
        with().loaded = loaded;
    }

    fn refuse(&self, row: &Row, cell: usize, by: &'static str, place: Place) -> ! {
        let region = row.region();
        let (what, earlier) = (
            "operand written before the wait",
            with().earlier(by, self.read),
        );
        fail(
            place,
            region.in_flight(what, row.offset + (cell << region.shift()), earlier),
        )
    }
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
