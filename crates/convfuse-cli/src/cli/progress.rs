//! A line on standard error that says what is going on.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

/// A step that takes its time. Says so when it starts, and how long it took when it is done.
pub(super) struct Step {
    what: String,
    start: Instant,
    last: Instant,
}

/// How often a terminal's line is written anew.
const REFRESH: Duration = Duration::from_millis(100);

impl Step {
    pub(super) fn start(what: impl Into<String>) -> Step {
        let (what, now) = (what.into(), Instant::now());
        if stderr().is_terminal() {
            eprint!("{what} ...");
        }
        Step {
            what,
            start: now,
            last: now,
        }
    }

    /// Says how far the step is, on a terminal only: a log is not to hold hundreds of such lines.
    pub(super) fn at(&mut self, done: usize, of: usize, detail: &str) {
        if stderr().is_terminal() && self.last.elapsed() >= REFRESH {
            self.last = Instant::now();
            eprint!("\r\x1b[K{} {done}/{of} {detail}", self.what);
            // A lost progress line is no reason to stop.
            let _ = stderr().flush();
        }
    }

    /// Ends the step.
    pub(super) fn done(self) -> Duration {
        let took = self.start.elapsed();
        let back = if stderr().is_terminal() {
            "\r\x1b[K"
        } else {
            ""
        };
        eprintln!("{back}{} {:.1} s", self.what, took.as_secs_f64());
        took
    }
}
