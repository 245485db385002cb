//! A line on standard error that says what is going on.

use std::io::{IsTerminal, stderr};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::out::{err, plain};

/// A step that takes its time. Says so when it starts, and how long it took when it is done.
pub(super) struct Step {
    what: String,
    start: Instant,
    last: Mutex<Instant>,
}

/// How often a terminal's line is written anew.
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

    /// Says how far the step is, on a terminal only: a log is not to hold hundreds of such lines.
    /// Threads that work on it side by side may do so.
    pub(super) fn at(&self, done: usize, of: usize, detail: &str) {
        // Another thread that is just writing says as much.
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
