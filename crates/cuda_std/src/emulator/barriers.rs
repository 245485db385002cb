//! The sixteen barriers of a block.

use super::clock::Token;
use super::exec::{Exec, Place, Wait, Waiting, fail, with};
use super::fault::FaultKind;
use super::schedule;

/// What a barrier is used for, on which all its threads must agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Threads of the whole block meet at one call.
    Whole,
    /// The same, and the predicates are counted.
    Reduce,
    /// A part of the block meets, perhaps from different calls.
    Named,
}

#[derive(Debug, Default)]
struct Barrier {
    expected: u32,
    arrived: u32,
    first: Option<(Use, Place)>,
    /// What threads brought that came through `arrive` or to a part of the block.
    tokens: Vec<Token>,
    waiting: Vec<u32>,
    /// Threads that came without waiting.
    passed: Vec<u32>,
    /// How many predicates hold.
    holding: u32,
}

/// The barriers of the running block.
#[derive(Debug, Default)]
pub(crate) struct Barriers([Barrier; 16]);

impl Barriers {
    pub(crate) fn clear(&mut self) {
        for barrier in &mut self.0 {
            *barrier = Barrier::default();
        }
    }

    /// The unopened barrier for messages: arrivals and expectation.
    pub(crate) fn state(&self, id: usize) -> (u32, u32) {
        (self.0[id].arrived, self.0[id].expected)
    }

    /// Barriers that someone waits at.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = usize> {
        (0..self.0.len()).filter(|&id| !self.0[id].waiting.is_empty())
    }
}

/// The current thread comes to a barrier of the whole block. How many predicates held.
pub(crate) fn sync_all(usage: Use, predicate: bool, place: Place) -> u32 {
    let threads = with().block_threads;
    come(0, threads, usage, predicate, true, place)
}

/// The current thread comes to a named barrier.
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
    let token = (usage == Use::Named).then(|| exec.token());
    let me = exec.thread;
    // The lanes that a partial last warp lacks count as present, as they do on the device.
    let last = me + 1 == exec.block_threads;
    let missing_lanes = if usage == Use::Named && last {
        exec.block_threads.next_multiple_of(32) - exec.block_threads
    } else {
        0
    };
    let barrier = &mut exec.barriers.0[id as usize];
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
            } else if barrier.passed.contains(&me) {
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
    barrier.arrived += 1 + missing_lanes;
    barrier.holding += u32::from(predicate);
    barrier.tokens.extend(token);
    if barrier.arrived < barrier.expected {
        if !wait {
            barrier.passed.push(me);
            advance(exec);
            return 0;
        }
        barrier.waiting.push(me);
        let what = match usage {
            Use::Named => Waiting::Barrier(id),
            Use::Whole | Use::Reduce => Waiting::SyncThreads,
        };
        schedule::wait(Wait { what, place });
        return with().threads[me as usize].result[0];
    }
    open(exec, id as usize, wait)
}

/// What a thread does after it gave its token without waiting must not count as given.
fn advance(exec: &mut Exec) {
    let time = exec.next_time();
    let me = exec.thread as usize;
    exec.threads[me].time = time;
    exec.refresh();
}

fn open(exec: &mut Exec, id: usize, last_waits: bool) -> u32 {
    let barrier = std::mem::take(&mut exec.barriers.0[id]);
    exec.stats.barriers += 1;
    let me = exec.thread;
    let everyone = barrier.waiting.len() + usize::from(last_waits) == exec.block_threads as usize;
    if everyone {
        exec.meet_all();
    } else {
        if !last_waits {
            advance(exec);
        }
        let last = last_waits.then_some(me);
        exec.meet(&barrier.tokens, barrier.waiting.iter().copied().chain(last));
    }
    let mut woken = barrier.waiting;
    for &thread in &woken {
        exec.threads[thread as usize].result[0] = barrier.holding;
    }
    schedule::wake(exec, &mut woken);
    barrier.holding
}
