//! Launches of a program on several streams, in a capture.
//!
//! A graph runs launches side by side if none reads or writes what another writes: preparations of
//! parameters, and branches of a network. The order of conflicting launches is the program's, so results
//! have the same bits as on one stream.

use std::ops::Range;

use crate::device::{Event, Stream};
use crate::error::Result;

/// The most streams, and thus launches at one time.
const STREAMS: usize = 4;

/// A launch's access to memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Access {
    /// The addresses.
    pub(super) bytes: Range<usize>,
    pub(super) is_written: bool,
}

impl Access {
    /// Whether the order of two accesses matters.
    fn conflicts(&self, other: &Access) -> bool {
        let overlap = self.bytes.start < other.bytes.end && other.bytes.start < self.bytes.end;
        overlap && (self.is_written || other.is_written)
    }
}

/// The place of a launch.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Slot {
    stream: usize,
    /// The earlier launches on other streams that it waits for.
    waits: Vec<usize>,
}

/// For each stream, the number of launches, in the program's order, before the last one that is complete.
/// Launches on other streams do not count.
type Clock = [usize; STREAMS];

/// Gives each launch a stream, such that conflicting launches keep their order.
fn schedule(accesses: &[Vec<Access>]) -> Vec<Slot> {
    let mut slots: Vec<Slot> = Vec::with_capacity(accesses.len());
    // What is complete once a launch is.
    let mut clocks: Vec<Clock> = Vec::with_capacity(accesses.len());
    // The last launch of each stream.
    let mut last: [Option<usize>; STREAMS] = [None; STREAMS];
    for (index, own) in accesses.iter().enumerate() {
        // The clock before the launch, without the earlier launches of its own stream.
        let (mut before, mut needs) = ([0; STREAMS], Vec::new());
        for earlier in (0..index).rev() {
            let stream = slots[earlier].stream;
            if earlier < before[stream] {
                continue;
            }
            let mut theirs = accesses[earlier].iter();
            if theirs.any(|access| own.iter().any(|one| one.conflicts(access))) {
                needs.push(earlier);
                join(&mut before, &clocks[earlier]);
            }
        }
        // A launch behind one that it needs anyway waits for nothing more. Otherwise a stream is taken whose
        // last launch was given the earliest.
        let is_needed = |stream: usize| last[stream].is_some_and(|at| at < before[stream]);
        let behind = needs.iter().find(|&&at| last[slots[at].stream] == Some(at));
        let stream = match behind {
            Some(&at) => slots[at].stream,
            None => (0..STREAMS)
                .min_by_key(|&stream| (!is_needed(stream), last[stream]))
                .expect("there are streams"),
        };
        let waits = needs.into_iter().filter(|&at| slots[at].stream != stream);
        let waits = waits.collect();
        if let Some(at) = last[stream] {
            join(&mut before, &clocks[at]);
        }
        before[stream] = index + 1;
        slots.push(Slot { stream, waits });
        clocks.push(before);
        last[stream] = Some(index);
    }
    slots
}

/// Sets a clock to the later of both, for each stream.
fn join(clock: &mut Clock, other: &Clock) {
    for (one, other) in clock.iter_mut().zip(other) {
        *one = (*one).max(*other);
    }
}

/// Launches with these accesses by `launch`, which gets the index of the launch and its stream. The streams
/// begin behind the work of `origin`, which is in capture, and end before its later work.
pub(super) fn launch_side_by_side(
    origin: &Stream,
    others: &[Stream],
    accesses: &[Vec<Access>],
    mut launch: impl FnMut(usize, &Stream) -> Result<()>,
) -> Result<()> {
    let slots = schedule(accesses);
    let stream = |index: usize| match index {
        0 => origin,
        _ => &others[index - 1],
    };
    let mut is_awaited = vec![false; slots.len()];
    for &at in slots.iter().flat_map(|slot| &slot.waits) {
        is_awaited[at] = true;
    }
    let begin = origin.mark()?;
    let mut has_begun = [true, false, false, false];
    let mut events: Vec<Option<Event>> = Vec::with_capacity(slots.len());
    let mut slots = slots.iter().enumerate();
    let launched = slots.try_for_each(|(index, slot)| {
        let on = stream(slot.stream);
        if !has_begun[slot.stream] {
            on.wait(&begin)?;
            has_begun[slot.stream] = true;
        }
        for &at in &slot.waits {
            on.wait(events[at].as_ref().expect("it is awaited"))?;
        }
        launch(index, on)?;
        events.push(is_awaited[index].then(|| on.mark()).transpose()?);
        Ok(())
    });
    // Also after a failure: otherwise the capture could not end.
    for index in (1..STREAMS).filter(|&index| has_begun[index]) {
        origin.wait(&stream(index).mark()?)?;
    }
    launched
}

/// Makes the streams beside `origin` for [`launch_side_by_side`].
pub(crate) fn other_streams(origin: &Stream) -> Result<Vec<Stream>> {
    (1..STREAMS).map(|_| origin.device().stream()).collect()
}

#[cfg(test)]
mod tests {
    use op_spec::data::splitmix64;

    use super::*;

    fn access(start: usize, end: usize, is_written: bool) -> Access {
        Access {
            bytes: start..end,
            is_written,
        }
    }

    /// The launches that are complete before each launch begins, by streams and waits alone.
    fn complete(slots: &[Slot]) -> Vec<Vec<bool>> {
        let mut before: Vec<Vec<bool>> = Vec::new();
        for (index, slot) in slots.iter().enumerate() {
            let mut own = vec![false; index];
            let same = (0..index).rev().find(|&at| slots[at].stream == slot.stream);
            for at in slot.waits.iter().copied().chain(same) {
                own[at] = true;
                for (earlier, is_complete) in before[at].iter().enumerate() {
                    own[earlier] |= is_complete;
                }
            }
            before.push(own);
        }
        before
    }

    #[test]
    fn conflicting_launches_keep_their_order() {
        for seed in 0..200 {
            let number = |index: u64, below: u64| splitmix64(seed * 10_000 + index) % below;
            let accesses: Vec<Vec<Access>> = (0..40)
                .map(|launch| {
                    let each = (0..1 + number(launch, 4)).map(|use_of| {
                        let at = 100 * launch + 10 * use_of;
                        let start = number(at + 1, 60) as usize;
                        let length = 1 + number(at + 2, 12) as usize;
                        access(start, start + length, number(at + 3, 3) == 0)
                    });
                    each.collect()
                })
                .collect();
            let slots = schedule(&accesses);
            let complete = complete(&slots);
            for (later, Slot { waits, .. }) in slots.iter().enumerate() {
                for &at in waits {
                    let mut others = waits.iter().filter(|&&other| other > at);
                    let is_implied = others.any(|&other| complete[other][at]);
                    assert!(!is_implied, "seed {seed}: {later} waits for {at}");
                }
            }
            for later in 0..accesses.len() {
                for earlier in 0..later {
                    let mut pairs = accesses[later]
                        .iter()
                        .flat_map(|one| accesses[earlier].iter().map(move |other| (one, other)));
                    if pairs.any(|(one, other)| one.conflicts(other)) {
                        assert!(
                            complete[later][earlier],
                            "seed {seed}: {earlier} and {later}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn preparations_run_beside_the_layers_before_theirs() {
        // Each layer reads the output of the previous one, and what a preparation of its own wrote.
        let accesses: Vec<Vec<Access>> = (0..12)
            .map(|launch| match launch % 2 {
                0 => vec![access(1000 + launch, 1001 + launch, true)],
                _ => vec![
                    access(999 + launch, 1000 + launch, false),
                    access(launch, launch + 1, false),
                    access(launch + 2, launch + 3, true),
                ],
            })
            .collect();
        let slots = schedule(&accesses);
        let complete = complete(&slots);
        for preparation in (2..12).step_by(2) {
            assert!(!complete[preparation][preparation - 1]);
        }
    }

    #[test]
    fn a_sequence_is_on_one_stream() {
        let accesses: Vec<Vec<Access>> = (0..9)
            .map(|launch| {
                vec![
                    access(launch, launch + 1, false),
                    access(launch + 1, launch + 2, true),
                ]
            })
            .collect();
        let slots = schedule(&accesses);
        assert!(slots.iter().all(|slot| slot.stream == slots[0].stream));
        assert!(slots.iter().all(|slot| slot.waits.is_empty()));
    }
}
