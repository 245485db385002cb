//! The timing protocol of all runs.

use std::time::{Duration, Instant};

use convfuse::{DType, Event, Result, Stream, Tensor, lab};
use launch_config::peak::COPY_BLOCK_ELEMENTS;

use super::{Summary, peak};

/// How runs are timed: repeated after a warm-up, on a GPU with its cache flushed before each.
///
/// On a GPU, events before and after the run give the device time. The flush writes more than the level-2
/// cache holds, outside of the timed span, so a run reads its input from device memory as in practice. The
/// flush also keeps the device busy while the host queues the run: its launches follow one another closely,
/// and the host's speed does not affect the time. Other devices are timed by the host's clock.
#[derive(Debug)]
#[non_exhaustive]
pub struct Protocol {
    /// Timed repetitions.
    pub repeats: usize,
    /// Untimed repetitions before the timed ones.
    pub warm_ups: usize,
    stream: Stream,
    flush: Option<(Tensor, Tensor)>,
}

/// Launches with events per flush: few enough for the host to queue them all before the flushes end.
const SPANS_OF_A_FLUSH: usize = 16;

/// The least bytes that a flush writes.
const FLUSH_BYTES: u64 = 256 << 20;

impl Protocol {
    /// Creates a protocol with 50 repetitions on a GPU, 5 on the CPU, 1 in the emulator.
    ///
    /// # Errors
    /// [`OutOfMemory`](convfuse::Error::OutOfMemory) for the buffers of the flush.
    pub fn new(stream: &Stream) -> Result<Protocol> {
        let device = stream.device();
        let (repeats, warm_ups) = match () {
            () if device.is_gpu() => (50, 5),
            () if device.is_cpu() => (5, 1),
            () => (1, 0),
        };
        let flush = if device.is_gpu() {
            let bytes = FLUSH_BYTES.max(2 * device.info().l2_bytes.unwrap_or(0));
            let elements =
                (bytes as usize / DType::F32.size()).next_multiple_of(COPY_BLOCK_ELEMENTS);
            let buffer = || Tensor::zeros(stream, &[elements], DType::F32);
            Some((buffer()?, buffer()?))
        } else {
            None
        };
        Ok(Protocol {
            repeats,
            warm_ups,
            stream: stream.clone(),
            flush,
        })
    }

    /// The stream of the timed work.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Bytes that each flush writes; 0 if there is no flush.
    pub fn flush_bytes(&self) -> u64 {
        self.flush.as_ref().map_or(0, |(_, target)| target.bytes())
    }

    /// The name of the clock that gives the times.
    pub fn clock(&self) -> &'static str {
        if self.flush.is_some() {
            "device events"
        } else {
            "wall clock"
        }
    }

    /// Times `run`, which queues its work on this protocol's stream.
    ///
    /// # Errors
    /// Errors of `run` and of the device.
    pub fn time(&mut self, mut run: impl FnMut() -> Result<()>) -> Result<Summary> {
        for _ in 0..self.warm_ups {
            self.flush()?;
            run()?;
        }
        let repeats = self.repeats.max(1);
        let times = match self.flush {
            Some(_) => self.device_times(repeats, run)?,
            None => host_times(repeats, run)?,
        };
        Ok(Summary::of(&times).expect("there was at least one repetition"))
    }

    /// Times the spans between consecutive events that `run` records on this protocol's stream. Each
    /// repetition has the same number of spans, `spans`.
    ///
    /// # Errors
    /// [`OutOfMemory`](convfuse::Error::OutOfMemory) for the times; errors of `run` and of the device.
    pub fn time_spans(
        &mut self,
        spans: usize,
        mut run: impl FnMut() -> Result<Vec<Event>>,
    ) -> Result<Vec<Summary>> {
        let all = spans.saturating_mul(self.repeats);
        lab::must_have_memory(all.saturating_mul(size_of::<Duration>()))?;
        let mut times = vec![Vec::new(); spans];
        for repeat in 0..self.warm_ups + self.repeats.max(1) {
            // The device stays busy until the host has queued the whole run.
            for _ in 0..=spans / SPANS_OF_A_FLUSH {
                self.flush()?;
            }
            let events = run()?;
            if repeat >= self.warm_ups {
                for (times, span) in times.iter_mut().zip(events.windows(2)) {
                    times.push(span[1].since(&span[0])?);
                }
            }
        }
        let summaries = times.iter().map(|times| Summary::of(times));
        Ok(summaries
            .map(|summary| summary.expect("there was a repetition"))
            .collect())
    }

    /// Queues all repetitions before waiting for the first.
    fn device_times(
        &mut self,
        repeats: usize,
        mut run: impl FnMut() -> Result<()>,
    ) -> Result<Vec<Duration>> {
        let mut events = Vec::with_capacity(repeats);
        for _ in 0..repeats {
            self.flush()?;
            let start = self.stream.record()?;
            run()?;
            events.push((start, self.stream.record()?));
        }
        events.iter().map(|(start, end)| end.since(start)).collect()
    }

    fn flush(&mut self) -> Result<()> {
        match &mut self.flush {
            Some((source, target)) => peak::copy(&self.stream, source, target),
            None => Ok(()),
        }
    }
}

/// Times runs by the host's clock. On devices other than a GPU, the work is complete when `run` returns.
fn host_times(repeats: usize, mut run: impl FnMut() -> Result<()>) -> Result<Vec<Duration>> {
    let mut times = Vec::with_capacity(repeats);
    for _ in 0..repeats {
        let start = Instant::now();
        run()?;
        times.push(start.elapsed());
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use convfuse::Device;

    #[test]
    fn warm_ups_are_run_but_not_counted() {
        let stream = Device::cpu().stream().unwrap();
        let mut protocol = Protocol::new(&stream).unwrap();
        (protocol.repeats, protocol.warm_ups) = (4, 3);
        let mut runs = 0;
        let summary = protocol.time(|| {
            runs += 1;
            Ok(())
        });
        assert_eq!(summary.unwrap().repeats, 4);
        assert_eq!(runs, 7);
        assert_eq!(
            (protocol.flush_bytes(), protocol.clock()),
            (0, "wall clock")
        );
    }
}
