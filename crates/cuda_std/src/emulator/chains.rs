//! Chains of `wgmma` with A in registers: 128 threads meet, and the last one multiplies for all.
//!
//! Fence, steps, commit and wait are one call, so the registers are never in flight while the
//! kernel can touch them, and steps cannot be left out. What remains to be checked is B: each warp
//! of the warpgroup reads all of it by itself. Its lane 0 does so here, as far as proxies and races
//! are concerned, so the end of a product must be told by every warp.

use std::fmt;

use super::exec::{Place, fail, with};
use super::fault::FaultKind;
use super::tensor_sum::{self, Factor};
use super::waiting::{Wait, Waiting};
use super::warpgroups::{self, ROW_BYTES, ROWS, THREADS};
use super::{schedule, tensor};

/// K of a step of 16-bit values.
const K: usize = 16;
/// Columns of B, of a chain that gives each thread `results` results.
const fn columns(results: usize) -> usize {
    results * THREADS / ROWS
}
const WARP: usize = 32;

/// What the threads of a warpgroup must agree on, but for where B is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chain {
    kind: tensor::Kind,
    steps: usize,
    columns: usize,
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = warpgroups::type_name(self.kind);
        let (steps, columns) = (self.steps, self.columns);
        write!(
            f,
            "{steps} steps of wgmma m64n{columns}k{K} {name}, A in registers"
        )
    }
}

/// Threads on their way to a chain.
pub(crate) struct Meeting {
    chain: Chain,
    b: Vec<u64>,
    members: Vec<Member>,
    /// B, as a lane 0 read it. If it changes before the others do, that is a race.
    tiles: Vec<Tile>,
}

/// B of a step: two pieces of 8 values for each column.
type Tile = Vec<[u32; 4]>;

/// A thread that is suspended in its call.
struct Member {
    thread: u32,
    /// Operands of A, one for each step.
    a: *const [u32; 4],
    /// What the products are added to, and then the sums.
    result: *mut f32,
}

pub(crate) fn multiply<const STEPS: usize, const RESULTS: usize>(
    kind: tensor::Kind,
    mut result: [f32; RESULTS],
    a: &[[u32; 4]; STEPS],
    b: &[u64; STEPS],
    place: Place,
) -> [f32; RESULTS] {
    let exec = with();
    exec.tick(place);
    let chain = Chain {
        kind,
        steps: STEPS,
        columns: columns(RESULTS),
    };
    let refuse = |problem: String| {
        let op = chain.to_string();
        fail(place, FaultKind::Warp { op, problem })
    };
    let (thread, in_block) = (exec.thread, exec.in_block(exec.thread) as usize);
    if exec.block_threads as usize / THREADS <= in_block / THREADS {
        refuse(format!("thread {in_block} belongs to no whole warpgroup"));
    }
    let warpgroup = thread as usize / THREADS;
    if exec.chains.len() <= warpgroup {
        exec.chains.resize_with(warpgroup + 1, || None);
    }
    let meeting = exec.chains[warpgroup].get_or_insert_with(|| Meeting {
        chain,
        b: b.to_vec(),
        members: Vec::new(),
        tiles: Vec::new(),
    });
    if meeting.chain != chain || meeting.b != b {
        let (mine, theirs) = (format!("{chain}, B at {b:x?}"), &meeting.b);
        refuse(format!(
            "threads of one warpgroup disagree: {mine} and {}, B at {theirs:x?}",
            meeting.chain
        ));
    }
    meeting.members.push(Member {
        thread,
        a: a.as_ptr(),
        result: result.as_mut_ptr(),
    });
    let complete = meeting.members.len() == THREADS;
    if in_block % WARP == 0 {
        let tiles: Vec<_> = (b.iter().map(|&tile| read(&chain, tile, place))).collect();
        let meeting = with().chains[warpgroup].as_mut();
        meeting.expect("this thread has come").tiles = tiles;
    }
    let exec = with();
    if complete {
        let meeting = exec.chains[warpgroup].take().expect("it is complete");
        compute(&meeting);
        exec.stats.warp_operations += 1;
        let mut others: Vec<u32> = (meeting.members.iter().map(|member| member.thread))
            .filter(|&other| other != thread)
            .collect();
        schedule::wake(exec, &mut others);
    } else {
        schedule::wait(Wait {
            what: Waiting::Chain(chain),
            place,
        });
    }
    // The commit and the wait at the chain's end are also those of what was issued before it.
    warpgroups::commit(place);
    warpgroups::wait(0, place);
    result
}

/// Checks that B of a step may be read, and reads it.
fn read(chain: &Chain, tile: u64, place: Place) -> Tile {
    let addresses = || warpgroups::row_addresses(tile, chain.columns);
    warpgroups::check_proxy(with(), addresses(), place);
    addresses()
        .map(|address| warpgroups::read_row(chain, address, place))
        .collect()
}

fn compute(meeting: &Meeting) {
    let (kind, columns) = (meeting.chain.kind, meeting.chain.columns);
    let mut sums = vec![vec![0.0_f32; columns]; ROWS];
    let results = columns * ROWS / THREADS;
    let place_of_result = |thread: u32, i: usize| {
        let (row, quad) = place_of(thread);
        (row + 8 * (i / 2 % 2), 8 * (i / 4) + 2 * quad + i % 2)
    };
    for member in &meeting.members {
        // SAFETY: the thread is suspended in `multiply`, or is the current one, and nobody else refers to its
        // results, which are as many as the chain's.
        let start = unsafe { std::slice::from_raw_parts(member.result, results) };
        for (i, &value) in start.iter().enumerate() {
            let (row, column) = place_of_result(member.thread, i);
            sums[row][column] = value;
        }
    }
    for (step, tile) in meeting.tiles.iter().enumerate() {
        let mut a = [[Factor::ZERO; K]; ROWS];
        for member in &meeting.members {
            // SAFETY: the thread is suspended in `multiply`, or is the current one; it has an
            // operand for each step.
            let words = unsafe { *member.a.add(step) };
            let (row, quad) = place_of(member.thread);
            for (i, &word) in words.iter().enumerate() {
                for (h, value) in tensor::halves(kind, word).into_iter().enumerate() {
                    a[row + 8 * (i % 2)][2 * quad + h + 8 * (i / 2)] = value.into();
                }
            }
        }
        let mut b = vec![[Factor::ZERO; K]; columns];
        let values_of_row = ROW_BYTES / 2;
        for (i, words) in tile.iter().enumerate() {
            let (column, first) = (i / 2, i % 2 * values_of_row);
            let values = words.iter().flat_map(|&word| tensor::halves(kind, word));
            for (k, value) in (first..).zip(values) {
                b[column][k] = value.into();
            }
        }
        for (sums, a) in sums.iter_mut().zip(&a) {
            for (sum, b) in sums.iter_mut().zip(&b) {
                *sum = tensor_sum::add(*sum, a.iter().copied().zip(b.iter().copied()));
            }
        }
    }
    for member in &meeting.members {
        // SAFETY: as above.
        let result = unsafe { std::slice::from_raw_parts_mut(member.result, results) };
        for (i, value) in result.iter_mut().enumerate() {
            let (row, column) = place_of_result(member.thread, i);
            *value = sums[row][column];
        }
    }
}

/// The first of a thread's rows, and its place among the four threads that share it.
fn place_of(thread: u32) -> (usize, usize) {
    let thread = thread as usize % THREADS;
    let (warp, lane) = (thread / WARP, thread % WARP);
    (16 * warp + lane / 4, lane % 4)
}
