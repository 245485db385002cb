//! The rules that every run is timed by.

use std::time::{Duration, Instant};

use convfuse::{DType, Event, Result, Stream, Tensor, lab};
use launch_config::peak::COPY_BLOCK_ELEMENTS;

use super::{Summary, peak};

/// How runs are timed: repeated after a warm-up, on a GPU with its cache flushed before each.
///
/// On a GPU an event before the run and one after give the device's own time. The flush writes more than the
/// level-2 cache holds, outside of the timed span, so that a run finds its input in memory as it would in
/// practice. It also keeps the device busy while the host queues the run, so the launches of a run follow one
/// another closely and the host's own speed does not show. On any other device the host's clock is read
/// around the run.
#[derive(Debug)]
#[non_exhaustive]
pub struct Protocol {
    /// Timed repetitions.
    pub repeats: usize,
    /// Repetitions before that.
    pub warm_ups: usize,
    stream: Stream,
    flush: Option<(Tensor, Tensor)>,
}

/// Launches with events for each flush in front of them: few enough that a host should have queued them all
/// when the flushes are done.
const SPANS_OF_A_FLUSH: usize = 16;

/// What a flush writes at least.
const FLUSH_BYTES: u64 = 256 << 20;

impl Protocol {
    /// 50 repetitions on a GPU, 5 on the CPU, 1 in the emulator.
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

    /// The stream that work is timed on.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Bytes that each flush writes; 0 where there is none.
    pub fn flush_bytes(&self) -> u64 {
        self.flush.as_ref().map_or(0, |(_, target)| target.bytes())
    }

    /// The clock that times come from, in words.
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
    /// Those of `run`, and of the device.
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

    /// Times the spans between the events that `run` records on this protocol's stream, `spans` of them, the
    /// same number in each repetition.
    ///
    /// # Errors
    /// [`OutOfMemory`](convfuse::Error::OutOfMemory) for the times; those of `run`, and of the device.
    pub fn time_spans(
        &mut self,
        spans: usize,
        mut run: impl FnMut() -> Result<Vec<Event>>,
    ) -> Result<Vec<Summary>> {
        let all = spans.saturating_mul(self.repeats);
        lab::must_have_memory(all.saturating_mul(size_of::<Duration>()))?;
        let mut times = vec![Vec::new(); spans];
        for repeat in 0..self.warm_ups + self.repeats.max(1) {
            // The device stays busy until the host has queued all.
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

    /// All repetitions are queued before the first is waited for.
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

/// Work on other devices than a GPU is done when the call returns.
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
