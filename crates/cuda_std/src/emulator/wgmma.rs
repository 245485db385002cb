//! MMA batches of `wgmma`: the 128 threads of a warpgroup meet, and the last one multiplies for all.
//!
//! Fence, MMA steps and commit are one call, so kernels cannot leave one out, and accumulators are returned
//! by the wait. The reads of shared memory remain to be checked, at the start and until the wait
//! (`wgmma_in_flight`). Each warp of the warpgroup reads all of B, and its own rows of A if A is in shared
//! memory. Here lane 0 reads for its warp, as far as proxies and races are concerned. So every warp must
//! signal the end of a batch.

use std::ops::Range;
use std::rc::Rc;

use super::exec::{Exec, Extension, WARPGROUP, fail, with};
use super::fault::{FaultKind, Place};
use super::matrix_rows::{ROW_BYTES, Row};
use super::shared_memory::mapped;
use super::tensor_sum;
use super::waiting::{MmaBatch, Waiting};
use super::wgmma_in_flight::Flight;
use super::{matrix_rows, schedule, tensor, wgmma_in_flight};

const THREADS: usize = WARPGROUP as usize;
const WARP: usize = 32;
/// Rows of A, and rows of A of a warp.
const ROWS: usize = 64;
const WARP_ROWS: usize = ROWS * WARP / THREADS;
/// Lines of a core matrix.
const MATRIX_LINES: usize = 8;
/// Core matrices along K of a step.
const K_MATRICES: usize = 2;
/// K of a step of 16-bit values; a step of tf32 has half of it.
const K: usize = K_MATRICES * ROW_BYTES / 2;

/// The bits of a descriptor without swizzle: start address, and strides along K and along M or N.
const DESCRIPTOR_BITS: u64 = 0x3fff | 0x3fff << 16 | 0x3fff << 32;

/// The swizzle bits of a descriptor, for spans of 32, 64 and 128 bytes. This crate's functions offer no
/// others.
const SWIZZLED: [u64; 3] = [3 << 62, 2 << 62, 1 << 62];

/// The bits that are 0 in a start address, and in a stride along M or N, that are multiples of 32 bytes.
const LINE_UNITS: u64 = 1 | 1 << 32;

/// Columns of B in an MMA batch with `results` accumulators a thread.
const fn columns(results: usize) -> usize {
    results * THREADS / ROWS
}

/// The A operand of each step.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RowsOfA<'a> {
    Registers(&'a [[u32; 4]]),
    /// Descriptors.
    Shared(&'a [u64]),
}

/// A row of A or a column of B in an MMA step.
type Line = tensor_sum::Line<K>;

/// Threads that have arrived at an MMA batch.
struct Rendezvous {
    batch: MmaBatch,
    /// Descriptors of A (none if A is in registers) and of B for each step. With two Bs, groups of eight
    /// columns alternate between them.
    a: Vec<u64>,
    b: Vec<Vec<u64>>,
    members: Vec<Member>,
    /// The number of batches that the threads have waited for.
    finished: u64,
    /// A of each step. Lanes 0, or threads with A in registers, fill in their part.
    rows: Vec<[Line; ROWS]>,
    /// B of each step, as the first lane 0 read it, and its rows.
    columns: Vec<Vec<Line>>,
    b_rows: Option<Rc<[Row]>>,
}

/// The MMA batch at which threads of each warpgroup have arrived.
struct AllRendezvous(Vec<Option<Rendezvous>>);

impl Extension for AllRendezvous {
    fn new(exec: &Exec) -> Self {
        let warpgroups = exec.threads.len().div_ceil(THREADS);
        Self((0..warpgroups).map(|_| None).collect())
    }
}

fn rendezvous(exec: &mut Exec, warpgroup: usize) -> &mut Option<Rendezvous> {
    &mut exec.extension::<AllRendezvous>().0[warpgroup]
}

/// A thread that is suspended in its call.
struct Member {
    thread: u32,
    /// The accumulators.
    result: *mut f32,
}

/// Adds the products of all steps to `result`. Their operands are in flight until the wait. With two Bs,
/// groups of eight columns alternate between them.
pub(crate) fn multiply(
    kind: tensor::Kind,
    result: &mut [f32],
    a: RowsOfA<'_>,
    b: &[&[u64]],
    place: Place,
) {
    let (parts, steps) = (b.len(), b[0].len());
    let of_step = |step: usize| b.iter().map(|part| part[step]).collect();
    let b: Vec<Vec<u64>> = (0..steps).map(of_step).collect();
    let exec = with();
    exec.tick(place);
    let (registers, a): (&[_], &[_]) = match a {
        RowsOfA::Registers(operands) => (operands, &[]),
        RowsOfA::Shared(descriptors) => (&[], descriptors),
    };
    let batch = MmaBatch {
        kind,
        steps,
        columns: columns(result.len()),
        shared_a: !a.is_empty(),
        parts,
    };
    let refuse = |problem: String| {
        let op = batch.to_string();
        fail(place, FaultKind::Warp { op, problem })
    };
    let (thread, in_block) = (exec.thread, exec.in_block(exec.thread) as usize);
    if exec.block_threads as usize / THREADS <= in_block / THREADS {
        refuse(format!("thread {in_block} belongs to no whole warpgroup"));
    }
    let warpgroup = thread as usize / THREADS;
    let finished = wgmma_in_flight::finished(exec);
    let rendezvous = rendezvous(exec, warpgroup).get_or_insert_with(|| Rendezvous {
        batch,
        a: a.to_vec(),
        b: b.to_vec(),
        members: Vec::new(),
        finished,
        rows: vec![[Line::ZERO; ROWS]; steps],
        columns: Vec::new(),
        b_rows: None,
    });
    if rendezvous.batch != batch || rendezvous.a != a || rendezvous.b != b {
        let mine = whereabouts(&batch, a, &b);
        let theirs = whereabouts(&rendezvous.batch, &rendezvous.a, &rendezvous.b);
        refuse(format!(
            "threads of one warpgroup disagree: {mine} and {theirs}"
        ));
    }
    if rendezvous.finished != finished {
        let theirs = rendezvous.finished;
        refuse(format!(
            "threads of one warpgroup disagree: one has waited for {finished} MMA batch(es), another for {theirs}"
        ));
    }
    for (rows, words) in rendezvous.rows.iter_mut().zip(registers) {
        fill_in(rows, kind, thread, words);
    }
    let result = result.as_mut_ptr();
    rendezvous.members.push(Member { thread, result });
    let complete = rendezvous.members.len() == THREADS;
    let mut flight = None;
    if in_block % WARP == 0 {
        let warp = in_block % THREADS / WARP;
        let own = warp * WARP_ROWS..(warp + 1) * WARP_ROWS;
        let a: Vec<_> = a.iter().map(std::slice::from_ref).collect();
        let of_a = rows_of(&batch, &a, own.clone(), place);
        // B is the same for all warps, but the reads of each are checked.
        let of_b = match &rendezvous.b_rows {
            Some(rows) => Rc::clone(rows),
            None => {
                let b: Vec<_> = b.iter().map(Vec::as_slice).collect();
                let rows = rows_of(&batch, &b, 0..batch.columns, place);
                let rendezvous = self::rendezvous(with(), warpgroup).as_mut();
                rendezvous.expect("this thread has come").b_rows = Some(Rc::clone(&rows));
                rows
            }
        };
        flight = Some(Flight::new([of_a, of_b], place));
        let rows: Vec<_> = (a.iter())
            .map(|a| values(&batch, a, own.clone(), place))
            .collect();
        let rendezvous = self::rendezvous(with(), warpgroup).as_mut();
        let rendezvous = rendezvous.expect("this thread has come");
        for (all, rows) in rendezvous.rows.iter_mut().zip(rows) {
            all[own.clone()].copy_from_slice(&rows);
        }
        // A change before the other lanes 0 read it is a race.
        if rendezvous.columns.is_empty() {
            let columns = (b.iter()).map(|b| values(&batch, b, 0..batch.columns, place));
            rendezvous.columns = columns.collect();
        }
    }
    let exec = with();
    if complete {
        let rendezvous = self::rendezvous(exec, warpgroup)
            .take()
            .expect("it is complete");
        compute(&rendezvous);
        exec.stats.warp_operations += 1;
        let mut others: Vec<u32> = (rendezvous.members.iter().map(|member| member.thread))
            .filter(|&other| other != thread)
            .collect();
        schedule::wake(exec, &mut others);
    } else {
        schedule::wait(Waiting::MmaBatch(batch), place);
    }
    wgmma_in_flight::start(flight, place);
}

/// An MMA batch and its operands' addresses, for messages.
fn whereabouts(batch: &MmaBatch, a: &[u64], b: &[Vec<u64>]) -> String {
    match a {
        [] => format!("{batch}, B at {b:x?}"),
        _ => format!("{batch}, A at {a:x?}, B at {b:x?}"),
    }
}

/// Puts a thread's registers into their position in A.
fn fill_in(rows: &mut [Line; ROWS], kind: tensor::Kind, thread: u32, words: &[u32; 4]) {
    let (row, quad_lane) = place_of(thread);
    for (i, &word) in words.iter().enumerate() {
        for (h, value) in tensor::halves(kind, word).into_iter().enumerate() {
            rows[row + 8 * (i % 2)].set(2 * quad_lane + h + 8 * (i / 2), value);
        }
    }
}

/// The rows of core matrices of an operand's lines, in all steps.
fn rows_of(batch: &MmaBatch, steps: &[&[u64]], lines: Range<usize>, place: Place) -> Rc<[Row]> {
    for descriptor in steps.iter().copied().flatten() {
        let swizzle = descriptor & !DESCRIPTOR_BITS;
        let is_swizzled = SWIZZLED.contains(&swizzle);
        let problem = match swizzle {
            _ if is_swizzled && descriptor & LINE_UNITS != 0 => "no multiple of 32 bytes",
            _ if is_swizzled || swizzle == 0 => continue,
            _ => "too large",
        };
        let text =
            format!("{batch}: a start or a distance in descriptor {descriptor:#x} is {problem}");
        fail(place, FaultKind::Argument(text));
    }
    let addresses = (steps.iter()).flat_map(|step| line_addresses(step, lines.clone()).flatten());
    matrix_rows::rows(batch, addresses, place)
}

/// The values of an operand's lines in a step, which were read before.
fn values(batch: &MmaBatch, descriptors: &[u64], lines: Range<usize>, place: Place) -> Vec<Line> {
    let of_line = |addresses: [u32; K_MATRICES]| {
        let mut line = Line::ZERO;
        for (matrix, address) in addresses.into_iter().enumerate() {
            let words = Row::at(batch, address, place).words();
            for (i, word) in words.into_iter().enumerate() {
                let of_row = ROW_BYTES / 4 * matrix + i;
                if batch.kind == tensor::Kind::Tf32 {
                    line.set(of_row, tensor::tf32(word));
                } else {
                    let [low, high] = tensor::halves(batch.kind, word);
                    line.set(2 * of_row, low);
                    line.set(2 * of_row + 1, high);
                }
            }
        }
        line
    };
    line_addresses(descriptors, lines).map(of_line).collect()
}

/// For each line (row of A or column of B) of an operand, the addresses of its 16-byte chunks along K. With
/// several descriptors, groups of eight lines alternate between them. Descriptors hold addresses without the
/// block's rank.
fn line_addresses(
    descriptors: &[u64],
    lines: Range<usize>,
) -> impl Iterator<Item = [u32; K_MATRICES]> {
    let rank = with().rank;
    lines.map(move |line| {
        let (octet, of_octet) = (line / MATRIX_LINES, (line % MATRIX_LINES) as u32);
        let descriptor = descriptors[octet % descriptors.len()];
        let octet = (octet / descriptors.len()) as u32;
        let field = |shift: u32| ((descriptor >> shift & 0x3fff) as u32) << 4;
        // One row of a core matrix, or with swizzle a span of two, four or eight of them, in which chunks are
        // exchanged by bits 7 to 9 of the absolute address. Tensor cores thus read the layout that copies of
        // boxes write.
        let chunks = match SWIZZLED.iter().position(|&bits| descriptor & bits == bits) {
            Some(doublings) => 2 << doublings,
            None => 1,
        };
        let row_bytes = ROW_BYTES as u32;
        let first = field(0) + octet * field(32) + of_octet * chunks * row_bytes;
        let k_stride = if chunks > 1 { row_bytes } else { field(16) };
        let exchanged = (chunks - 1) * row_bytes;
        std::array::from_fn(|k| {
            let address = first + k as u32 * k_stride;
            mapped(address ^ ((address >> 3) & exchanged), rank)
        })
    })
}

fn compute(rendezvous: &Rendezvous) {
    for member in &rendezvous.members {
        let (row, quad_lane) = place_of(member.thread);
        let results = rendezvous.batch.columns * ROWS / THREADS;
        // SAFETY: the thread is suspended in `multiply`, or is the current one, and nobody else refers to its
        // results, which are as many as the batch's.
        let results = unsafe { std::slice::from_raw_parts_mut(member.result, results) };
        for (i, sum) in results.iter_mut().enumerate() {
            let row = row + 8 * (i / 2 % 2);
            let column = 8 * (i / 4) + 2 * quad_lane + i % 2;
            for (rows, columns) in rendezvous.rows.iter().zip(&rendezvous.columns) {
                *sum = tensor_sum::add(*sum, &rows[row], &columns[column]);
            }
        }
    }
}

/// The first of a thread's rows, and the thread's index among the four threads that share it.
fn place_of(thread: u32) -> (usize, usize) {
    let thread = thread as usize % THREADS;
    let (warp, lane) = (thread / WARP, thread % WARP);
    (WARP_ROWS * warp + lane / 4, lane % 4)
}
