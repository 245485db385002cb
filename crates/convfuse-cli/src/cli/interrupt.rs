//! What is done when somebody ends the program by SIGINT (Ctrl-C) or SIGTERM: files that are half written go, results that are
//! there are kept, and the program ends by the signal, as it would have without this.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use signal_hook::consts::{SIGINT, SIGPIPE, SIGTERM};
use signal_hook::flag::register_conditional_default;
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use super::out;

/// The signals that end the program. That of a terminal which is closed is not among them: it may be turned off (`nohup`).
const ENDING: [i32; 2] = [SIGINT, SIGTERM];

/// Whether somebody has begun to end the program.
static BEGUN: AtomicBool = AtomicBool::new(false);

struct AtEnd {
    /// Files that are being written.
    temporary: Vec<PathBuf>,
    /// Writes what has been found so far.
    keep: Option<Box<dyn FnMut() + Send>>,
}

static AT_END: Mutex<AtEnd> = Mutex::new(AtEnd {
    temporary: Vec::new(),
    keep: None,
});

fn at_end() -> MutexGuard<'static, AtEnd> {
    AT_END.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins to wait for signals, in a thread of its own.
pub(super) fn watch() {
    let ending = Arc::new(AtomicBool::new(false));
    for signal in ENDING {
        // Whoever asks a second time does not want to wait.
        let _ = register_conditional_default(signal, Arc::clone(&ending));
    }
    // A system that grants no handler or no thread leaves its own way to end a program.
    let Ok(mut signals) = Signals::new(ENDING) else {
        return;
    };
    let end = move || {
        if let Some(signal) = signals.forever().next() {
            ending.store(true, Ordering::SeqCst);
            BEGUN.store(true, Ordering::SeqCst);
            // Not under the lock, for this writes a file, too.
            let keep = at_end().keep.take();
            if let Some(mut keep) = keep {
                keep();
            }
            let mut at_end = at_end();
            // The lock is never given back: the program finishes no more files.
            for path in at_end.temporary.drain(..) {
                let _ = std::fs::remove_file(path);
            }
            out::err("\nconvfuse: interrupted\n");
            let _ = emulate_default_handler(signal);
            std::process::exit(128 + signal);
        }
    };
    let _ = std::thread::Builder::new().spawn(end);
}

/// Waits for the end, if somebody has begun to end the program: what the interrupted thread still has to say is not to replace what was
/// kept.
pub(super) fn give_way() {
    while BEGUN.load(Ordering::SeqCst) {
        std::thread::park();
    }
}

/// Ends the program as the system ends one that writes to a pipe which nobody reads.
pub(super) fn end_by_closed_pipe() {
    let _ = emulate_default_handler(SIGPIPE);
}

/// Notes that a file is being written, which must go if the program is ended.
pub(super) fn begin(temporary: &Path) {
    at_end().temporary.push(temporary.to_owned());
}

/// Ends the writing of such a file: `finish` moves or removes it.
pub(super) fn end<T>(temporary: &Path, finish: impl FnOnce() -> T) -> T {
    // Under the lock, so that the program is not ended between.
    let mut at_end = at_end();
    let result = finish();
    at_end.temporary.retain(|path| path != temporary);
    result
}

/// Has `keep` called if the program is ended, until the guard is dropped.
pub(super) fn keep(keep: impl FnMut() + Send + 'static) -> Keep {
    at_end().keep = Some(Box::new(keep));
    Keep
}

/// See [`keep`].
pub(super) struct Keep;

impl Drop for Keep {
    fn drop(&mut self) {
        at_end().keep = None;
    }
}
