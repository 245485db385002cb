//! `setmaxnreg`: warpgroups of a block release and request registers.
//!
//! A block starts with the registers of the kernel's launch bounds for each thread, and an empty pool. A
//! warpgroup releases registers to the pool; one that requests more waits until the pool has enough. The 128
//! threads of a warpgroup wait for each other here. That orders no accesses, because on a device the warps do
//! not wait.

use std::fmt::Write;

use super::exec::{Exec, Extension, WARPGROUP, fail, with};
use super::fault::{FaultKind, Place};
use super::lanes::{self, ALL};
use super::schedule;
use super::waiting::{Op, Setting, Waiting};

/// The fewest registers of a thread.
const LEAST: u32 = 24;

/// A warpgroup's registers.
#[derive(Debug)]
struct Group {
    /// Registers of each thread of the warpgroup.
    registers: u32,
    /// The operation in progress, and the threads that have arrived.
    setting: Option<Setting>,
    members: Vec<u32>,
}

/// The registers of the running cluster.
#[derive(Debug)]
struct Registers {
    groups: Vec<Group>,
    /// For each block, the registers of its pool.
    free: Vec<u32>,
    /// Warpgroups that wait for registers, in order of arrival.
    waiting: Vec<usize>,
}

impl Extension for Registers {
    fn new(exec: &Exec) -> Self {
        let group = |_| Group {
            registers: exec.registers.unwrap_or(0),
            setting: None,
            members: Vec::new(),
        };
        let groups = exec.threads.len().div_ceil(WARPGROUP as usize);
        Self {
            groups: (0..groups).map(group).collect(),
            free: vec![0; exec.cluster_blocks as usize],
            waiting: Vec::new(),
        }
    }
}

impl Registers {
    /// Gives a warpgroup the registers that it waits for, if the pool has them. Returns the threads to wake.
    fn grant(&mut self, group: usize, rank: usize, wanted: u32) -> Option<Vec<u32>> {
        let of = &mut self.groups[group];
        let more = (wanted - of.registers) * WARPGROUP;
        if more > self.free[rank] {
            return None;
        }
        self.free[rank] -= more;
        of.registers = wanted;
        of.setting = None;
        Some(std::mem::take(&mut of.members))
    }
}

/// Releases or requests registers, together with the other threads of the warpgroup.
pub(crate) fn set(setting: Setting, place: Place) {
    let op = Op::SetRegisters(setting);
    lanes::meet(op, ALL, &[], place);
    let refuse = |problem: String| {
        let op = op.to_string();
        fail(place, FaultKind::Warp { op, problem })
    };
    let exec = with();
    let Some(at_start) = exec.registers else {
        refuse(
            "the assembler ignores it in a kernel that declares no max_threads and min_blocks"
                .to_owned(),
        )
    };
    let (thread, rank) = (exec.thread, exec.rank as usize);
    let (in_block, block_threads) = (exec.in_block(thread), exec.block_threads);
    if block_threads / WARPGROUP <= in_block / WARPGROUP {
        refuse(format!("thread {in_block} belongs to no whole warpgroup"));
    }
    let group = (thread / WARPGROUP) as usize;
    let registers = exec.extension::<Registers>();
    let of = &mut registers.groups[group];
    let has = of.registers;
    match *of.setting.get_or_insert(setting) {
        theirs if theirs != setting => {
            refuse(format!(
                "threads of one warpgroup disagree: {setting} and {theirs}"
            ));
        }
        Setting::Increase(wanted) if wanted < has => {
            refuse(format!("the warpgroup's threads have {has} registers"));
        }
        Setting::Decrease(wanted) if wanted > has => {
            refuse(format!("the warpgroup's threads have {has} registers"));
        }
        Setting::Increase(wanted) => {
            let others = (block_threads - WARPGROUP) * LEAST;
            let all = at_start * block_threads;
            if wanted * WARPGROUP + others > all {
                refuse(format!(
                    "never met: the block has {all} registers, of which its other threads keep {others} at least"
                ));
            }
        }
        Setting::Decrease(_) => {}
    }
    of.members.push(thread);
    if of.members.len() < WARPGROUP as usize {
        return wait(setting, place);
    }
    match setting {
        Setting::Decrease(left) => {
            of.registers = left;
            of.setting = None;
            let mut woken = std::mem::take(&mut of.members);
            registers.free[rank] += (has - left) * WARPGROUP;
            let waiting = std::mem::take(&mut registers.waiting);
            for other in waiting {
                // Warpgroups of other blocks have other pools; checking them again is harmless.
                let rank = other * WARPGROUP as usize / exec.stride as usize;
                let registers = exec.extension::<Registers>();
                let Some(Setting::Increase(wanted)) = registers.groups[other].setting else {
                    continue;
                };
                match registers.grant(other, rank, wanted) {
                    Some(members) => woken.extend(members),
                    None => registers.waiting.push(other),
                }
            }
            woken.retain(|&other| other != thread);
            schedule::wake(exec, &mut woken);
        }
        Setting::Increase(wanted) => match registers.grant(group, rank, wanted) {
            Some(mut woken) => {
                woken.retain(|&other| other != thread);
                schedule::wake(exec, &mut woken);
            }
            None => {
                registers.waiting.push(group);
                wait(setting, place);
            }
        },
    }
}

fn wait(setting: Setting, place: Place) {
    schedule::wait(Waiting::Registers(setting), place);
}

/// The registers that waiting warpgroups lack, for messages.
pub(crate) fn lack(exec: &mut Exec) -> String {
    let stride = exec.stride;
    let registers = exec.extension::<Registers>();
    let mut text = String::new();
    for &group in &registers.waiting {
        let (of, first) = (&registers.groups[group], group as u32 * WARPGROUP);
        let free = registers.free[(first / stride) as usize];
        let (has, local) = (of.registers, first % stride / WARPGROUP);
        let _ = write!(
            text,
            "; warpgroup {local} has {has} registers for each thread, and its block {free} that nobody has"
        );
    }
    text
}
