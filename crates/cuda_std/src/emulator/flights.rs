//! Chains of `wgmma` that are under way.
//!
//! Their sums are there at once, but what they read must stay as it is until the wait that covers them: a
//! chain reads then once more, as far as checks go. Whoever overwrites before that wait is found by the
//! stamps that have changed, whoever does so after it, but ordered after the start only, is a race with the
//! second read. So whether it is found does not depend on which of the two happens first.

use std::collections::VecDeque;

use super::access;
use super::exec::{Exec, Extension, fail, with};
use super::fault::{Fault, FaultKind, Place};
use super::region::Region;
use super::schedule::fault_of;
use super::stamp;

/// Which of its chains a thread has started, counted from 0, if it is one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChainNumber(Option<u64>);

impl ChainNumber {
    pub(crate) const NONE: Self = Self(None);
}

/// The chains of one thread.
#[derive(Debug, Default)]
struct Chains {
    started: u64,
    /// Those before this one are over.
    finished: u64,
    /// Where the last one was started.
    place: Option<Place>,
    /// What those that are not over read, where this thread reads for its warp.
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

/// What a chain reads in shared memory.
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
    /// Of cells of `1 << shift` bytes at the start; an access to less divides them.
    shift: u32,
}

/// Bytes of a row of a core matrix.
pub(crate) const ROW_BYTES: usize = 16;

impl Flight {
    /// Rows that the current thread has just read for its warp.
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

    /// Reads again what was read at the start, which must be as it was.
    fn land(&self, place: Place) {
        let mut before = self.writes.as_slice();
        for row in &self.rows {
            let (of_row, others) = before.split_at(ROW_BYTES >> row.shift);
            let parts = (writes(row.address).count() / of_row.len()).max(1);
            let was = of_row
                .iter()
                .flat_map(|&write| std::iter::repeat_n(write, parts));
            for (cell, (write, was)) in writes(row.address).zip(was).enumerate() {
                if write != was {
                    self.refuse(row.address, cell, place);
                }
            }
            before = others;
        }
        let exec = with();
        // Nobody has heard of this thread since: whoever overwrites is a race with the first read.
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

    fn refuse(&self, row: u32, cell: usize, place: Place) -> ! {
        let (region, offset) = at(row);
        // SAFETY: shared regions live as long as the launch.
        let region = unsafe { &*region };
        let kind = FaultKind::InFlight {
            what: "operand written before the wait",
            object: region.describe(),
            offset: (offset + (cell << region.shift())) as u64,
            earlier: with().earlier("chain", self.read),
        };
        fail(place, kind)
    }
}

/// The region and offset of a row that was read.
fn at(row: u32) -> (*const Region, usize) {
    let region = with().shared_at(row).expect("it was read");
    (region, row as usize - region.base)
}

/// The times, threads and places of the last writes of a row's cells.
fn writes(row: u32) -> impl Iterator<Item = u64> {
    let (region, offset) = at(row);
    // SAFETY: shared regions live as long as the launch.
    let region = unsafe { &*region };
    let cells = offset >> region.shift()..(offset + ROW_BYTES) >> region.shift();
    // SAFETY: the row was read, so it is inside of the region.
    cells.map(|cell| unsafe { (*region.cell(cell)).write & !stamp::BYTES })
}

/// Counts a chain of the current thread, and keeps what it reads for its warp.
pub(crate) fn start(flight: Option<Flight>, place: Place) {
    let chains = chains(with());
    let number = chains.started;
    chains.started += 1;
    chains.place = Some(place);
    let flight = flight.map(|flight| Flight { number, ..flight });
    chains.flights.extend(flight);
}

/// The chains that the current thread has waited for.
pub(crate) fn finished(exec: &mut Exec) -> u64 {
    chains(exec).finished
}

/// After `thread` has ended: all of its chains must be over.
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

/// The chain that the current thread has started last.
pub(crate) fn newest() -> ChainNumber {
    ChainNumber(Some(chains(with()).started - 1))
}

/// Waits for all chains of the current thread but the `left` youngest ones, of which `chain` must not be one.
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
        flight.land(place);
    }
}

/// The oldest chain that is over and has not been looked at.
fn next_finished() -> Option<Flight> {
    let chains = chains(with());
    let first = chains.flights.front()?;
    if first.number < chains.finished {
        chains.flights.pop_front()
    } else {
        None
    }
}
