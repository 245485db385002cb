//! `wgmma`: 128 threads meet, and the last one multiplies for all.
//!
//! The threads are suspended inside their calls, so their accumulators can be written where they
//! are. The sums are ready at once; that they must not be touched before the wait is kept as a
//! number in each accumulator. The tiles are read twice as far as the race detector is concerned:
//! when the instruction is issued, and when it is waited for, by the thread that came last.

use std::collections::VecDeque;
use std::fmt;
use std::panic::Location;

use super::access;
use super::exec::{Exec, Place, describe, fail, with};
use super::fault::FaultKind;
use super::tensor_sum::{self, Factor};
use super::waiting::{Wait, Waiting};
use super::{schedule, stamp, tensor};

/// Threads of a warpgroup.
pub(crate) const THREADS: usize = 128;
/// Rows of A.
pub(crate) const ROWS: usize = 64;
/// Bytes of a row of a core matrix, and core matrices along K.
pub(crate) const ROW_BYTES: usize = 16;
const K_MATRICES: usize = 2;

/// What the threads of a warpgroup must agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Multiplication {
    kind: tensor::Kind,
    columns: usize,
    a: u64,
    b: u64,
    accumulate: bool,
}

impl fmt::Display for Multiplication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let k = if self.kind == tensor::Kind::Tf32 {
            8
        } else {
            16
        };
        write!(f, "wgmma m64n{}k{k} {}", self.columns, type_name(self.kind))
    }
}

/// How the instruction calls its operands' type.
pub(crate) fn type_name(kind: tensor::Kind) -> &'static str {
    match kind {
        tensor::Kind::Tf32 => "tf32",
        tensor::Kind::F16 => "f16",
        tensor::Kind::Bf16 => "bf16",
    }
}

/// Threads on their way to a multiplication.
pub(crate) struct Meeting {
    what: Multiplication,
    /// The accumulators of those who have come.
    sums: Vec<(u32, *mut f32)>,
}

/// A thread's multiplications.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// Groups closed, and groups waited for, so far.
    closed: u64,
    waited: u64,
    /// What this thread reads for multiplications: of the open group, and of closed ones.
    open: Vec<Multiplication>,
    running: VecDeque<Vec<Multiplication>>,
    /// The time of the last fence for the asynchronous proxy, and the block's last barrier before
    /// it.
    proxy_fence: u64,
    proxy_base: u64,
}

/// An accumulator's own record.
#[derive(Debug, Clone)]
pub(crate) struct AccumulatorState {
    /// The number of the group that must have been waited for.
    group: u64,
    /// Nobody has touched the registers since they were handed over.
    handed_over: bool,
}

/// Accumulators that there are instructions for.
pub trait Tile {}

macro_rules! tiles {
    ($($n:literal)*) => { $(impl Tile for [f32; $n / 2] {})* };
}
tiles!(8 16 24 32 40 48 56 64 96 128 256);

fn groups(exec: &mut Exec) -> &mut Groups {
    &mut exec.threads[exec.thread as usize].groups
}

impl AccumulatorState {
    pub(crate) fn new() -> Self {
        Self {
            group: 0,
            handed_over: false,
        }
    }

    #[track_caller]
    pub(crate) fn touch<T: Tile>(&mut self, _: &mut T) {
        let groups = groups(with());
        if groups.waited < self.group {
            let text = "wgmma: accumulators are touched before the wait for their group".to_owned();
            fail(Location::caller(), FaultKind::Argument(text));
        }
        self.handed_over = false;
    }

    #[track_caller]
    pub(crate) fn hand_over<T: Tile>(&mut self, _: &mut T) {
        with().tick(Location::caller());
        self.handed_over = true;
    }
}

pub(crate) fn multiply<const R: usize>(
    kind: tensor::Kind,
    d: &mut [f32; R],
    state: &mut AccumulatorState,
    (a, b, accumulate): (u64, u64, bool),
    place: Place,
) {
    let exec = with();
    exec.tick(place);
    let what = Multiplication {
        kind,
        columns: 2 * R,
        a,
        b,
        accumulate,
    };
    let refuse = |problem: String| {
        fail(
            place,
            FaultKind::Warp {
                op: what.to_string(),
                problem,
            },
        )
    };
    let own = groups(exec);
    if !state.handed_over {
        refuse(
            "the accumulators were touched and not handed over by their `fence` since".to_owned(),
        );
    }
    state.group = own.closed + 1;
    let warpgroup = exec.thread as usize / THREADS;
    let thread = exec.thread;
    let in_block = exec.in_block(thread);
    if exec.block_threads as usize / THREADS <= in_block as usize / THREADS {
        refuse(format!("thread {in_block} belongs to no whole warpgroup"));
    }
    if exec.warpgroups.len() <= warpgroup {
        exec.warpgroups.resize_with(warpgroup + 1, || None);
    }
    let meeting = exec.warpgroups[warpgroup].get_or_insert_with(|| Meeting {
        what,
        sums: Vec::new(),
    });
    if meeting.what != what {
        let other = meeting.what;
        refuse(format!(
            "threads of one warpgroup disagree: {what:?} and {other:?}"
        ));
    }
    meeting.sums.push((thread, d.as_mut_ptr()));
    if meeting.sums.len() < THREADS {
        schedule::wait(Wait {
            what: Waiting::Warpgroup(what),
            place,
        });
        return;
    }
    let meeting = exec.warpgroups[warpgroup].take().expect("it is complete");
    exec.stats.warp_operations += 1;
    let addresses = row_addresses(what.a, ROWS).chain(row_addresses(what.b, what.columns));
    check_proxy(exec, addresses, place);
    let a_tile = read_tile(&what, what.a, ROWS, place);
    let b_tile = read_tile(&what, what.b, what.columns, place);
    for &(thread, sums) in &meeting.sums {
        // SAFETY: the thread is suspended in this function, or is the current one; its accumulator
        // has R values.
        let sums = unsafe { std::slice::from_raw_parts_mut(sums, R) };
        accumulate_into(
            sums,
            thread as usize % THREADS,
            &a_tile,
            &b_tile,
            accumulate,
        );
    }
    let exec = with();
    groups(exec).open.push(what);
    let mut others: Vec<u32> = meeting
        .sums
        .iter()
        .map(|&(other, _)| other)
        .filter(|&other| other != thread)
        .collect();
    schedule::wake(exec, &mut others);
}

fn accumulate_into(
    sums: &mut [f32],
    thread: usize,
    a: &[Vec<Factor>],
    b: &[Vec<Factor>],
    accumulate: bool,
) {
    let (warp, lane) = (thread / 32, thread % 32);
    for (i, sum) in sums.iter_mut().enumerate() {
        let row = 16 * warp + lane / 4 + 8 * (i / 2 % 2);
        let column = 8 * (i / 4) + 2 * (lane % 4) + i % 2;
        let start = if accumulate { *sum } else { 0.0 };
        let products = a[row].iter().copied().zip(b[column].iter().copied());
        *sum = tensor_sum::add(start, products);
    }
}

/// The addresses of a tile's 16-byte rows as its descriptor holds them: those of row 0 first,
/// along K.
pub(crate) fn row_addresses(descriptor: u64, rows: usize) -> impl Iterator<Item = u32> {
    let field = |shift: u32| ((descriptor >> shift & 0x3fff) as u32) << 4;
    let (start, k_stride, row_stride) = (field(0), field(16), field(32));
    (0..rows as u32).flat_map(move |row| {
        (0..K_MATRICES as u32)
            .map(move |k| start + k * k_stride + row / 8 * row_stride + row % 8 * ROW_BYTES as u32)
    })
}

/// Checks that a row is shared memory, and reads it.
pub(crate) fn read_row(what: &dyn fmt::Display, address: u32, place: Place) -> [u32; 4] {
    let address = with().in_window(address);
    let Some(region) = with().shared_at(address) else {
        let text = format!("{what}: {address:#x} is no address in this block's shared memory");
        fail(place, FaultKind::Argument(text));
    };
    let at = access::read(region, address as usize - region.base, ROW_BYTES, place);
    // SAFETY: `read` checked the 16 bytes and their alignment.
    unsafe { at.cast::<[u32; 4]>().read() }
}

fn read_tile(
    what: &Multiplication,
    descriptor: u64,
    rows: usize,
    place: Place,
) -> Vec<Vec<Factor>> {
    let words: Vec<[u32; 4]> = row_addresses(descriptor, rows)
        .map(|address| read_row(what, address, place))
        .collect();
    words
        .chunks(K_MATRICES)
        .map(|row| {
            let words = row.as_flattened().iter().copied();
            match what.kind {
                tensor::Kind::Tf32 => words.map(tensor::tf32).map(Factor::from).collect(),
                tensor::Kind::F16 | tensor::Kind::Bf16 => words
                    .flat_map(|word| tensor::halves(what.kind, word))
                    .map(Factor::from)
                    .collect(),
            }
        })
        .collect()
}

/// Checks that whoever wrote the tiles made them visible to the asynchronous proxy.
pub(crate) fn check_proxy(exec: &mut Exec, addresses: impl Iterator<Item = u32>, place: Place) {
    let own_base = groups(exec).proxy_base;
    for address in addresses {
        let address = exec.in_window(address);
        // Addresses outside are reported when they are read.
        let Some(region) = exec.shared_at(address) else {
            continue;
        };
        let offset = address as usize - region.base;
        let (first, last) = (
            offset >> region.shift(),
            (offset + ROW_BYTES - 1) >> region.shift(),
        );
        for index in first..=last.min((region.len() - 1) >> region.shift()) {
            // SAFETY: `index` is at most that of the region's last byte.
            let write = unsafe { (*region.cell(index)).write };
            let writer = &exec.threads[stamp::thread(write) as usize].groups;
            let visible = writer.proxy_fence > stamp::time(write)
                || write < own_base
                || exec
                    .mbarriers
                    .bulk_writes
                    .contains(&(write >> stamp::SEGMENT_SHIFT));
            if write & stamp::BYTES != 0 && !visible {
                let earlier = exec.earlier("write", write);
                let (object, offset) = (describe(region), (index << region.shift()) as u64);
                fail(
                    place,
                    FaultKind::AsyncProxy {
                        object,
                        offset,
                        earlier,
                    },
                );
            }
        }
    }
}

pub(crate) fn fence_proxy(place: Place) {
    let exec = with();
    exec.tick(place);
    let (time, base, thread) = (exec.next_time(), exec.now.base, exec.thread as usize);
    let state = &mut exec.threads[thread];
    state.time = time;
    state.groups.proxy_fence = time;
    state.groups.proxy_base = base;
    exec.refresh();
}

pub(crate) fn commit(place: Place) {
    let exec = with();
    exec.tick(place);
    let groups = groups(exec);
    groups.closed += 1;
    let group = std::mem::take(&mut groups.open);
    groups.running.push_back(group);
}

pub(crate) fn wait(left: u64, place: Place) {
    with().tick(place);
    loop {
        let groups = groups(with());
        if groups.closed - groups.waited <= left {
            return;
        }
        groups.waited += 1;
        let group = groups.running.pop_front().unwrap_or_default();
        for what in group {
            for (descriptor, rows) in [(what.a, ROWS), (what.b, what.columns)] {
                for address in row_addresses(descriptor, rows) {
                    read_row(&what, address, place);
                }
            }
        }
    }
}
