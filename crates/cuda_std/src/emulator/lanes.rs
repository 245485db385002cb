//! Warp operations: lanes wait for each other, and the last one computes for all.

use super::clock::Token;
use super::exec::{Exec, Extension, fail, with};
use super::fault::{Fault, FaultKind, Place};
use super::schedule;
use super::tensor::{self, Inputs, Outputs};
use super::waiting::{Op, Waiting};
use crate::common::{WarpReductionOp, WarpShuffleMode};

/// The mask of all lanes, for instructions of whole warps and warpgroups.
pub(crate) const ALL: u32 = u32::MAX;

/// Lanes that have arrived at an operation.
#[derive(Debug)]
pub(crate) struct Rendezvous {
    op: Op,
    pub(crate) mask: u32,
    pub(crate) arrived: u32,
    inputs: Box<Inputs>,
    /// The lanes' vector clocks, for `sync_warp`.
    tokens: Vec<Token>,
}

/// The operations at which lanes of each warp have arrived.
struct AllRendezvous(Vec<Vec<Rendezvous>>);

impl Extension for AllRendezvous {
    fn new(exec: &Exec) -> Self {
        let warps = exec.threads.len().div_ceil(32);
        Self((0..warps).map(|_| Vec::new()).collect())
    }
}

fn all_of(exec: &mut Exec, warp: usize) -> &mut Vec<Rendezvous> {
    &mut exec.extension::<AllRendezvous>().0[warp]
}

/// The operation at which a thread waits.
pub(crate) fn rendezvous_of(exec: &mut Exec, thread: u32) -> Option<&Rendezvous> {
    let (warp, lane) = (thread as usize / 32, thread % 32);
    (all_of(exec, warp).iter()).find(|rendezvous| rendezvous.arrived >> lane & 1 == 1)
}

/// The current thread takes part in `op` with the lanes of `mask`, and gets its result.
pub(crate) fn meet(op: Op, mask: u32, input: &[u32], place: Place) -> [u32; 4] {
    let exec = with();
    exec.tick(place);
    let (warp, lane) = ((exec.thread / 32) as usize, exec.thread % 32);
    let refuse = |problem| {
        fail(
            place,
            FaultKind::Warp {
                op: op.to_string(),
                problem,
            },
        )
    };
    if mask >> lane & 1 == 0 {
        refuse(format!("mask {mask:#010x} lacks the calling lane {lane}"));
    }
    let present = exec.lanes(warp);
    if mask & !present != 0 {
        let (absent, problem) = ((mask & !present).trailing_zeros(), mask & !present);
        let exists = exec.in_block(warp as u32 * 32) + absent < exec.block_threads;
        let reason = if exists {
            "has exited"
        } else {
            "does not exist in this block"
        };
        refuse(format!(
            "mask {mask:#010x}, lanes {problem:#010x} never come: lane {absent} {reason}"
        ));
    }
    let all = all_of(exec, warp);
    let expecting = |rendezvous: &Rendezvous| {
        rendezvous.mask >> lane & 1 == 1 && rendezvous.arrived & mask != 0
    };
    let index = match all.iter().position(expecting) {
        Some(index) => index,
        None => {
            all.push(Rendezvous {
                op,
                mask,
                arrived: 0,
                inputs: Box::default(),
                tokens: Vec::new(),
            });
            all.len() - 1
        }
    };
    let rendezvous = &all[index];
    if rendezvous.op != op || rendezvous.mask != mask {
        let (other, theirs, them) = (
            rendezvous.op,
            rendezvous.mask,
            rendezvous.arrived.trailing_zeros(),
        );
        refuse(format!(
            "mask {mask:#010x}, lane {lane} is here, but lane {them} waits in {other} with mask {theirs:#010x}"
        ));
    }
    let token = (op == Op::Sync).then(|| exec.token());
    let rendezvous = &mut all_of(exec, warp)[index];
    rendezvous.arrived |= 1 << lane;
    rendezvous.inputs[lane as usize][..input.len()].copy_from_slice(input);
    rendezvous.tokens.extend(token);
    if rendezvous.arrived != mask {
        let me = exec.thread as usize;
        schedule::wait(Waiting::Lanes(op), place);
        return with().threads[me].result;
    }
    let rendezvous = all_of(exec, warp).swap_remove(index);
    complete(exec, warp, lane, &rendezvous)
}

fn complete(exec: &mut Exec, warp: usize, lane: u32, rendezvous: &Rendezvous) -> [u32; 4] {
    exec.stats.warp_operations += 1;
    let first = warp as u32 * 32;
    let members = (0..32).filter(|lane| rendezvous.mask >> lane & 1 == 1);
    if rendezvous.op == Op::Sync {
        exec.meet(&rendezvous.tokens, members.clone().map(|lane| first + lane));
    }
    let outputs = compute(rendezvous.op, rendezvous.mask, &rendezvous.inputs);
    let mut others: Vec<u32> = members
        .filter(|&other| other != lane)
        .map(|lane| first + lane)
        .collect();
    for &thread in &others {
        exec.threads[thread as usize].result = outputs[(thread % 32) as usize];
    }
    schedule::wake(exec, &mut others);
    outputs[lane as usize]
}

/// Called after `thread` has ended: no operation may wait for its lane.
pub(crate) fn check_exit(exec: &mut Exec, thread: u32) -> Result<(), Fault> {
    let (warp, lane) = ((thread / 32) as usize, thread % 32);
    let Some(rendezvous) = all_of(exec, warp)
        .iter()
        .find(|rendezvous| rendezvous.mask >> lane & 1 == 1)
    else {
        return Ok(());
    };
    let waiting = warp as u32 * 32 + rendezvous.arrived.trailing_zeros();
    let missing = rendezvous.mask & !rendezvous.arrived;
    let problem = format!(
        "mask {:#010x}, lanes {missing:#010x} never come: lane {lane} has exited",
        rendezvous.mask
    );
    let kind = FaultKind::Warp {
        op: rendezvous.op.to_string(),
        problem,
    };
    let wait = exec.threads[waiting as usize].wait.as_ref();
    let place = wait.map(|wait| wait.place);
    Err(schedule::fault_of(exec, waiting, place, kind))
}

impl Exec {
    /// The lanes of a warp that exist and have not ended.
    pub(crate) fn lanes(&self, warp: usize) -> u32 {
        self.present[warp]
    }
}

fn compute(op: Op, mask: u32, inputs: &Inputs) -> Outputs {
    let mut outputs = Outputs::default();
    let members = || (0..32_usize).filter(|lane| mask >> lane & 1 == 1);
    match op {
        Op::Sync | Op::SetRegisters(_) => {}
        Op::Shuffle(mode) => {
            for lane in members() {
                let [value, b, width, ..] = inputs[lane];
                let (source, inside) = source_lane(mode, lane as u32, b, width);
                let value = if inside {
                    inputs[source as usize][0]
                } else {
                    value
                };
                outputs[lane] = [value, u32::from(inside), 0, 0];
            }
        }
        Op::Ballot => {
            let ballot: u32 = members().map(|lane| inputs[lane][0] << lane).sum();
            members().for_each(|lane| outputs[lane][0] = ballot);
        }
        Op::MatchAny => {
            for lane in members() {
                let same = members().filter(|&other| inputs[other][..2] == inputs[lane][..2]);
                outputs[lane][0] = same.map(|other| 1 << other).sum();
            }
        }
        Op::Reduce(op, signed) => {
            let values = members().map(|lane| inputs[lane][0]);
            let result = values.reduce(|a, b| reduce(op, signed, a, b)).unwrap_or(0);
            members().for_each(|lane| outputs[lane][0] = result);
        }
        Op::Ldmatrix { count, transposed } => tensor::load(count, transposed, inputs, &mut outputs),
        Op::StmatrixTransposed => tensor::transpose(inputs, &mut outputs),
        Op::Multiply(kind) => tensor::multiply(kind, inputs, &mut outputs),
    }
    outputs
}

/// The source lane of a shuffle, and whether it is in range, by the pseudocode of `shfl.sync` in the PTX
/// manual.
pub(crate) fn source_lane(mode: WarpShuffleMode, lane: u32, b: u32, width: u32) -> (u32, bool) {
    let first = lane & !(width - 1);
    let last = first | (width - 1);
    let b = b & 31;
    match mode {
        WarpShuffleMode::Idx => (first | (b & (width - 1)), true),
        WarpShuffleMode::Up => (lane.wrapping_sub(b) & 31, lane >= b && lane - b >= first),
        WarpShuffleMode::Down => ((lane + b) & 31, lane + b <= last),
        WarpShuffleMode::Xor => (lane ^ b, lane ^ b <= last),
    }
}

fn reduce(op: WarpReductionOp, signed: bool, a: u32, b: u32) -> u32 {
    match op {
        WarpReductionOp::Add => a.wrapping_add(b),
        WarpReductionOp::Min if signed => (a as i32).min(b as i32) as u32,
        WarpReductionOp::Max if signed => (a as i32).max(b as i32) as u32,
        WarpReductionOp::Min => a.min(b),
        WarpReductionOp::Max => a.max(b),
        WarpReductionOp::And => a & b,
        WarpReductionOp::Or => a | b,
        WarpReductionOp::Xor => a ^ b,
    }
}
