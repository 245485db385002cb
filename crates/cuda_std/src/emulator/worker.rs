//! The OS thread that runs a device's launches, and the watchdog over it.
//!
//! Launches run on a thread of their own, so that endless ones can be ended. A loop that calls into this
//! crate reaches the step limit. For a loop that never calls, the pulse stops while the thread consumes
//! processor time, and a signal interrupts it (see `signals`). Without signal handling, the thread is
//! abandoned with the memory that it may access, and the device is lost.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::fault::{Fault, FaultKind};
use super::fiber::Stacks;
use super::launch::{Pulse, Stats};
use super::memory::Memory;
use super::run::Job;
use super::{panics, signals};

type Outcome = (Box<Memory>, Result<Stats, Fault>);

/// A device's OS thread. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Worker {
    jobs: mpsc::Sender<(Job, Box<Memory>)>,
    outcomes: mpsc::Receiver<Outcome>,
    pulse: Arc<Pulse>,
    target: signals::Target,
}

/// Runs a job on the worker, and starts one if there is none. `Err` if the job could not be stopped: worker
/// and memory are then lost.
pub(crate) fn run(
    worker: &mut Option<Worker>,
    memory: Box<Memory>,
    job: Job,
    limit: Duration,
) -> Result<Outcome, FaultKind> {
    let current = match worker {
        Some(worker) => worker,
        None => match start() {
            Ok(started) => worker.insert(started),
            Err(error) => {
                let message = format!("no thread for the emulator: {error}");
                return Ok((memory, Err(Fault::on_host(FaultKind::Launch(message)))));
            }
        },
    };
    let catch_signals = job.catch_signals;
    let outcome = match current.jobs.send((job, memory)) {
        Ok(()) => watch(current, limit, catch_signals),
        Err(_) => Err(FaultKind::DeviceLost),
    };
    if outcome.is_err() {
        *worker = None;
    }
    outcome
}

fn start() -> std::io::Result<Worker> {
    panics::install_hook();
    let (jobs, inbox) = mpsc::channel::<(Job, Box<Memory>)>();
    let (outbox, outcomes) = mpsc::channel();
    let (hello, target) = mpsc::channel();
    let pulse = Arc::new(Pulse::default());
    let beating = Arc::clone(&pulse);
    std::thread::Builder::new()
        .name("emulated device".to_owned())
        .spawn(move || {
            let _ = hello.send(signals::Target::this_thread());
            let mut stacks = Stacks::default();
            let mut signals = None;
            for (job, memory) in inbox {
                if job.catch_signals {
                    signals.get_or_insert_with(signals::prepare_thread);
                }
                let outcome = (job.run)(memory, &mut stacks, Arc::clone(&beating));
                if outbox.send(outcome).is_err() {
                    break;
                }
            }
        })?;
    let target = target.recv().map_err(std::io::Error::other)?;
    Ok(Worker {
        jobs,
        outcomes,
        pulse,
        target,
    })
}

fn watch(worker: &Worker, limit: Duration, catch_signals: bool) -> Result<Outcome, FaultKind> {
    const LOOK: Duration = Duration::from_millis(50);
    /// The time that a thread has to react to an interruption.
    const GRACE: Duration = Duration::from_secs(5);
    let mut beats = worker.pulse.beats();
    let mut since = worker.target.processor_time();
    let mut interrupted: Option<Instant> = None;
    loop {
        match worker.outcomes.recv_timeout(LOOK) {
            Ok(outcome) => return Ok(outcome),
            Err(RecvTimeoutError::Disconnected) => return Err(FaultKind::DeviceLost),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let (beats_now, time) = (worker.pulse.beats(), worker.target.processor_time());
        if beats_now != beats {
            (beats, since) = (beats_now, time);
            continue;
        }
        if time.saturating_sub(since) < limit {
            continue;
        }
        let gave_up = interrupted.get_or_insert_with(Instant::now).elapsed() > GRACE;
        if gave_up || !catch_signals || !worker.target.interrupt(limit) {
            return Err(FaultKind::NoProgress {
                seconds: limit.as_secs(),
            });
        }
    }
}
