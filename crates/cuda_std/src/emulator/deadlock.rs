//! Describes a deadlock: which threads wait where, and which are missing.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::barriers::Barriers;
use super::clusters::Cluster;
use super::exec::Exec;
use super::fault::{Fault, FaultKind};
use super::mbarriers::MemoryBarriers;
use super::schedule::fault_of;
use super::waiting::Waiting;
use super::{lanes, registers};

/// The fault of a cluster in which threads wait and none is ready.
pub(crate) fn report(exec: &mut Exec) -> Fault {
    let waits = |thread: &u32| exec.threads[*thread as usize].wait.is_some();
    // A warp operation names missing threads more precisely than a barrier.
    let lanes = |thread: &u32| {
        let wait = exec.threads[*thread as usize].wait;
        wait.is_some_and(|wait| matches!(wait.what, Waiting::Lanes(_)))
    };
    let mut threads = 0..exec.threads.len() as u32;
    let first = threads
        .clone()
        .find(lanes)
        .or_else(|| threads.find(waits))
        .expect("somebody waits");
    let wait = exec.threads[first as usize].wait.expect("it waits");
    let kind = match missing_lanes(exec, first) {
        Some(problem) => FaultKind::Warp {
            op: wait.what.to_string(),
            problem,
        },
        None => FaultKind::Deadlock {
            what: wait.what.to_string(),
            detail: survey(exec),
        },
    };
    fault_of(exec, first, Some(wait.place), kind)
}

/// If `thread` waits for lanes: the lanes, and where they are.
fn missing_lanes(exec: &mut Exec, thread: u32) -> Option<String> {
    let rendezvous = lanes::rendezvous_of(exec, thread)?;
    let (mask, missing) = (rendezvous.mask, rendezvous.mask & !rendezvous.arrived);
    let absent = missing.trailing_zeros();
    let place = match &exec.threads[(thread / 32 * 32 + absent) as usize].wait {
        Some(wait) => format!("waits for {} at {}", wait.what, wait.place),
        None => "has exited".to_owned(),
    };
    Some(format!(
        "mask {mask:#010x}, lanes {missing:#010x} never come: lane {absent} {place}"
    ))
}

/// The state of all threads. Threads of a block in the same state are listed together.
fn survey(exec: &mut Exec) -> String {
    let mut groups: BTreeMap<(u32, String), Vec<u32>> = BTreeMap::new();
    for (number, thread) in (0..).zip(&exec.threads) {
        let in_block = exec.in_block(number);
        if in_block >= exec.block_threads {
            continue;
        }
        let situation = match &thread.wait {
            Some(wait) => format!("wait for {} at {}", wait.what, wait.place),
            None => "have exited".to_owned(),
        };
        let group = groups.entry((exec.rank_of(number), situation));
        group.or_default().push(in_block);
    }
    let mut text = String::new();
    for ((rank, situation), threads) in &groups {
        let separator = if text.is_empty() { "" } else { "; " };
        let _ = write!(
            text,
            "{separator}{}{} thread(s) ({}) {situation}",
            block_name(exec.cluster_blocks, *rank as usize),
            threads.len(),
            ranges(threads)
        );
    }
    let mbarriers = exec.extension::<MemoryBarriers>();
    for address in mbarriers.awaited() {
        let _ = write!(text, "; mbarrier {address:#x}: {}", mbarriers.lack(address));
    }
    if let Some(arrived) = exec.extension::<Cluster>().lack() {
        let threads = exec.cluster_blocks * exec.block_threads;
        let _ = write!(
            text,
            "; the barrier of the cluster has {arrived} of {threads}"
        );
    }
    text += &registers::lack(exec);
    let blocks = exec.cluster_blocks;
    let barriers = exec.extension::<Barriers>();
    for (rank, id) in barriers.awaited() {
        let (block, lack) = (block_name(blocks, rank), barriers.lack(rank, id));
        let _ = write!(text, "; {block}barrier {id} {lack}");
    }
    text
}

/// Names a block of a cluster of several.
fn block_name(blocks: u32, rank: usize) -> String {
    match blocks {
        1 => String::new(),
        _ => format!("block {rank} of the cluster: "),
    }
}

/// `0..=31, 40`: sorted numbers as ranges, the first few of them.
fn ranges(numbers: &[u32]) -> String {
    const SHOWN: usize = 4;
    let mut parts = Vec::new();
    let mut rest = numbers;
    while let [first, ..] = *rest {
        let run = rest
            .iter()
            .zip(first..)
            .take_while(|&(&number, expected)| number == expected)
            .count();
        let last = rest[run - 1];
        parts.push(if run == 1 {
            first.to_string()
        } else {
            format!("{first}..={last}")
        });
        rest = &rest[run..];
        if parts.len() == SHOWN && !rest.is_empty() {
            parts.push("...".to_owned());
            break;
        }
    }
    parts.join(", ")
}
