//! Systems without signal handling.

use std::time::{Duration, Instant};

use corosensei::Coroutine;
use corosensei::stack::Stack;

pub(crate) struct Guard;

impl Guard {
    pub(crate) fn enter<S: Stack>(_: &Coroutine<(), (), (), S>) -> Self {
        Self
    }
}

pub(crate) fn prepare_thread() {}

/// Without a clock of each thread, progress is measured in wall time.
#[derive(Debug)]
pub(crate) struct Target {
    start: Instant,
}

impl Target {
    pub(crate) fn this_thread() -> Self {
        Self {
            start: Instant::now(),
        }
    }

    pub(crate) fn processor_time(&self) -> Duration {
        self.start.elapsed()
    }

    pub(crate) fn interrupt(&self, _: Duration) -> bool {
        false
    }
}
