//! MMA batches of `wgmma` in flight.
//!
//! Accumulators are computed at the start, but operands in shared memory must not change until the wait that
//! covers the batch. At that wait the reads are checked a second time. A write before the wait is found by a
//! changed write stamp. A write after the wait that is ordered only after the batch's start is a race with
//! the second read. So the result does not depend on the order in which the two run.

use std::collections::VecDeque;
use std::rc::Rc;

use super::exec::{Exec, Extension, fail, with};
use super::fault::{Fault, FaultKind, Place};
use super::matrix_rows::{ROW_BYTES, Row};
use super::schedule::fault_of;
use super::{async_proxy, stamp};

/// The number of a thread's MMA batch, from 0; none for no batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchNumber(Option<u64>);

impl BatchNumber {
    pub(crate) const NONE: Self = Self(None);
}

/// The MMA batches of one thread.
#[derive(Debug, Default)]
struct Batches {
    started: u64,
    /// Batches below this number are complete.
    finished: u64,
    /// The source line of the last batch's start.
    place: Option<Place>,
    /// The reads of incomplete batches, if this thread reads for its warp.
    flights: VecDeque<Flight>,
}

/// The MMA batches of each thread.
#[derive(Debug)]
struct AllBatches(Vec<Batches>);

impl Extension for AllBatches {
    fn new(exec: &Exec) -> Self {
        Self(exec.threads.iter().map(|_| Batches::default()).collect())
    }
}

/// The batches of the current thread.
fn batches(exec: &mut Exec) -> &mut Batches {
    let thread = exec.thread as usize;
    &mut exec.extension::<AllBatches>().0[thread]
}

/// The reads of an MMA batch, or of a store of a box, in shared memory.
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

    /// Checks the reads again. The bytes must not have changed since the start of `what`, an
    /// MMA batch or a store.
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

/// Counts an MMA batch of the current thread, and keeps the reads that it made for its warp.
pub(crate) fn start(flight: Option<Flight>, place: Place) {
    let batches = batches(with());
    let number = batches.started;
    batches.started += 1;
    batches.place = Some(place);
    let flight = flight.map(|flight| Flight { number, ..flight });
    batches.flights.extend(flight);
}

/// The number of batches that the current thread has waited for.
pub(crate) fn finished(exec: &mut Exec) -> u64 {
    batches(exec).finished
}

/// Called after `thread` has ended: all of its batches must be complete.
pub(crate) fn check_end(exec: &mut Exec, thread: u32) -> Result<(), Fault> {
    let batches = &exec.extension::<AllBatches>().0[thread as usize];
    let (left, place) = (batches.started - batches.finished, batches.place);
    if left == 0 {
        return Ok(());
    }
    let kind = FaultKind::Warp {
        op: "wgmma".to_owned(),
        problem: format!(
            "the thread has ended, and did not wait for {left} MMA batch(es), of which this is the last"
        ),
    };
    Err(fault_of(exec, thread, place, kind))
}

/// The last batch that the current thread has started.
pub(crate) fn newest() -> BatchNumber {
    BatchNumber(Some(batches(with()).started - 1))
}

/// Waits for all batches of the current thread but the `left` youngest, which must not include `batch`.
pub(crate) fn wait(batch: BatchNumber, left: u32, place: Place) {
    let exec = with();
    exec.tick(place);
    let batches = batches(exec);
    let over = batches.started.saturating_sub(u64::from(left));
    batches.finished = batches.finished.max(over);
    if let Some(number) = batch.0
        && number >= batches.finished
    {
        let younger = batches.started - 1 - number;
        let text = format!(
            "wgmma: {younger} MMA batch(es) started after this one, so a wait that leaves {left} under way does not wait for it"
        );
        fail(place, FaultKind::Argument(text));
    }
    while let Some(flight) = next_finished() {
        flight.land("MMA batch", place);
    }
}

/// The oldest complete batch whose reads have not been checked again.
fn next_finished() -> Option<Flight> {
    let batches = batches(with());
    let first = batches.flights.front()?;
    if first.number < batches.finished {
        batches.flights.pop_front()
    } else {
        None
    }
}
