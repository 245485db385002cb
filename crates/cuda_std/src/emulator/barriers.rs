//! The sixteen barriers of a block.

use super::clock::Token;
use super::exec::{Exec, Extension, fail, with};
use super::fault::{FaultKind, Place};
use super::schedule;
use super::waiting::Waiting;

/// The kind of barrier operation, on which all of its threads must agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// `bar.sync` of the whole block, from a single call site.
    Whole,
    /// As [`Use::Whole`], with a count of predicates.
    Reduce,
    /// A named barrier of a part of the block, perhaps from different call sites.
    Named,
}

#[derive(Debug, Default)]
struct Barrier {
    expected: u32,
    arrived: u32,
    first: Option<(Use, Place)>,
    /// Threads that have arrived, without those of incomplete warps.
    crowd: Crowd,
    /// Incomplete warps at a named barrier: number, lanes that have arrived, and their threads.
    parts: Vec<(u32, u32, Crowd)>,
    /// The number of true predicates.
    holding: u32,
}

/// Threads at a barrier.
#[derive(Debug, Default)]
struct Crowd {
    /// Their vector clocks, at a named barrier.
    tokens: Vec<Token>,
    waiting: Vec<u32>,
    /// Threads that arrived without waiting.
    passed: Vec<u32>,
}

/// The barriers of each block of the running cluster.
pub(crate) struct Barriers(Vec<[Barrier; 16]>);

impl Extension for Barriers {
    fn new(exec: &Exec) -> Self {
        Self(
            (0..exec.cluster_blocks)
                .map(|_| Default::default())
                .collect(),
        )
    }
}

fn barrier(exec: &mut Exec, rank: usize, id: usize) -> &mut Barrier {
    &mut exec.extension::<Barriers>().0[rank][id]
}

impl Barriers {
    /// The missing threads of a barrier, for messages.
    pub(crate) fn lack(&self, rank: usize, id: usize) -> String {
        let barrier = &self.0[rank][id];
        let mut text = format!("has {} of {}", barrier.arrived, barrier.expected);
        for (warp, lanes, _) in &barrier.parts {
            text += &format!(", and lanes {lanes:#010x} of warp {warp}");
        }
        text
    }

    /// Barriers with waiting threads: rank of the block, and number.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = (usize, usize)> {
        let awaited = |barrier: &Barrier| {
            let waits = |crowd: &Crowd| !crowd.waiting.is_empty();
            waits(&barrier.crowd) || barrier.parts.iter().any(|(_, _, crowd)| waits(crowd))
        };
        (self.0.iter().enumerate())
            .flat_map(|(rank, block)| {
                (0..)
                    .zip(block)
                    .map(move |(id, barrier)| (rank, id, barrier))
            })
            .filter(move |(_, _, barrier)| awaited(barrier))
            .map(|(rank, id, _)| (rank, id))
    }
}

/// The current thread arrives at a barrier of the whole block, and waits. Returns the number of true
/// predicates.
pub(crate) fn sync_all(usage: Use, predicate: bool, place: Place) -> u32 {
    let threads = with().block_threads;
    come(0, threads, usage, predicate, true, place)
}

/// The current thread arrives at a named barrier.
pub(crate) fn come_named(id: u32, threads: u32, wait: bool, place: Place) {
    let refuse = |message| fail(place, FaultKind::Barrier(message));
    if id > 15 {
        refuse(format!("number is {id}, the last one is 15"));
    }
    if threads == 0 || !threads.is_multiple_of(32) {
        refuse(format!(
            "{threads} threads, which is no positive multiple of 32"
        ));
    }
    let block = with().block_threads;
    if threads > block.next_multiple_of(32) {
        refuse(format!("{threads} threads, but the block has {block}"));
    }
    come(id, threads, Use::Named, false, wait, place);
}

fn come(id: u32, expected: u32, usage: Use, predicate: bool, wait: bool, place: Place) -> u32 {
    let exec = with();
    exec.tick(place);
    // A barrier of all threads of a cluster needs no vector clocks.
    let partial = usage == Use::Named || exec.cluster_blocks > 1;
    let token = partial.then(|| exec.token());
    let (me, rank) = (exec.thread, exec.rank as usize);
    let in_block = exec.in_block(me);
    let (warp, lane) = (in_block / 32, 1 << (in_block % 32));
    let warp_lanes = u32::MAX >> (32 - (exec.block_threads - 32 * warp).min(32));
    let barrier = barrier(exec, rank, id as usize);
    let came = |(number, lanes, _): &(u32, u32, Crowd)| *number == warp && lanes & lane != 0;
    match barrier.first {
        None => {
            barrier.first = Some((usage, place));
            barrier.expected = expected;
        }
        Some((other, elsewhere)) => {
            let problem = if other != usage {
                Some("different kinds of barrier".to_owned())
            } else if barrier.expected != expected {
                Some(format!("{} and {expected} threads", barrier.expected))
            } else if usage != Use::Named && elsewhere != place {
                Some("different calls".to_owned())
            } else if barrier.crowd.passed.contains(&me) || barrier.parts.iter().any(came) {
                Some("a thread that has arrived already".to_owned())
            } else {
                None
            };
            if let Some(problem) = problem {
                let message =
                    format!("number {id} is used with {problem}; the other use is at {elsewhere}");
                fail(place, FaultKind::Barrier(message));
            }
        }
    }
    barrier.holding += u32::from(predicate);
    if usage == Use::Named {
        barrier.come_by_warps(warp, lane, warp_lanes, (me, token, wait));
    } else {
        barrier.arrived += 1;
        barrier.crowd.add(me, token, wait);
    }
    if barrier.arrived >= barrier.expected {
        return open(exec, id as usize);
    }
    if !wait {
        exec.advance();
        return 0;
    }
    let what = match usage {
        Use::Named => Waiting::Barrier(id),
        Use::Whole | Use::Reduce => Waiting::SyncThreads,
    };
    schedule::wait(what, place);
    with().threads[me as usize].result[0]
}

impl Crowd {
    fn add(&mut self, thread: u32, token: Option<Token>, waits: bool) {
        self.tokens.extend(token);
        let list = if waits {
            &mut self.waiting
        } else {
            &mut self.passed
        };
        list.push(thread);
    }
}

impl Barrier {
    /// Counts whole warps, as the device does. A warp counts only when all of its lanes have arrived. (Lanes
    /// that a partial last warp lacks count as arrived.)
    fn come_by_warps(
        &mut self,
        warp: u32,
        lane: u32,
        warp_lanes: u32,
        (thread, token, waits): (u32, Option<Token>, bool),
    ) {
        let index = match self.parts.iter().position(|&(number, ..)| number == warp) {
            Some(index) => index,
            None => {
                self.parts.push((warp, 0, Crowd::default()));
                self.parts.len() - 1
            }
        };
        let (_, lanes, crowd) = &mut self.parts[index];
        *lanes |= lane;
        crowd.add(thread, token, waits);
        if *lanes == warp_lanes {
            let (_, _, crowd) = self.parts.swap_remove(index);
            self.crowd.tokens.extend(crowd.tokens);
            self.crowd.waiting.extend(crowd.waiting);
            self.crowd.passed.extend(crowd.passed);
            self.arrived += 32;
        }
    }
}

/// Completes a barrier at which the current thread arrived last.
fn open(exec: &mut Exec, id: usize) -> u32 {
    let (me, rank) = (exec.thread, exec.rank as usize);
    let barrier = std::mem::take(barrier(exec, rank, id));
    exec.stats.barriers += 1;
    let Crowd {
        tokens,
        mut waiting,
        passed,
    } = barrier.crowd;
    let whole = waiting.len() == exec.block_threads as usize;
    if whole && exec.cluster_blocks == 1 {
        exec.meet_all();
    } else {
        if whole {
            exec.share_fences(waiting.iter().copied());
        }
        exec.meet(&tokens, waiting.iter().copied());
        if passed.contains(&me) {
            exec.advance();
        }
    }
    for &thread in &waiting {
        exec.threads[thread as usize].result[0] = barrier.holding;
    }
    waiting.retain(|&thread| thread != me);
    schedule::wake(exec, &mut waiting);
    // Incomplete warps stay for the next completion.
    if !barrier.parts.is_empty() {
        *self::barrier(exec, rank, id) = Barrier {
            first: barrier.first,
            expected: barrier.expected,
            parts: barrier.parts,
            ..Barrier::default()
        };
    }
    barrier.holding
}
