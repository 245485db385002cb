//! Progress lines on standard error.

use std::io::{IsTerminal, stderr};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::out::{err, plain};

/// A long-running step. Prints its name at the start, and its duration at the end.
pub(super) struct Step {
    what: String,
    start: Instant,
    last: Mutex<Instant>,
}

/// The minimum time between two updates of a terminal's line.
const REFRESH: Duration = Duration::from_millis(100);

impl Step {
    pub(super) fn start(what: impl AsRef<str>) -> Step {
        let (what, now) = (plain(what.as_ref()), Instant::now());
        if stderr().is_terminal() {
            err(&format!("{what} ..."));
        }
        Step {
            what,
            start: now,
            last: Mutex::new(now),
        }
    }

    /// Prints the progress of the step, but only on a terminal: a log should not contain hundreds of such
    /// lines. Parallel threads may call this.
    pub(super) fn at(&self, done: usize, of: usize, detail: &str) {
        // Another thread is already printing the progress.
        let Ok(mut last) = self.last.try_lock() else {
            return;
        };
        if last.elapsed() >= REFRESH && stderr().is_terminal() {
            *last = Instant::now();
            let detail = plain(detail);
            err(&format!("\r\x1b[K{} {done}/{of} {detail}", self.what));
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
        err(&format!(
            "{back}{} {:.1} s\n",
            self.what,
            took.as_secs_f64()
        ));
        took
    }
}
