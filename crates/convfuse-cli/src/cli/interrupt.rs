//! Handling of signals that end the program, such as SIGINT: removes half-written files, keeps the results
//! so far, and then ends the program by the same signal.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGPIPE, SIGPROF, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM,
    SIGXCPU, SIGXFSZ,
};
use signal_hook::flag::{register, register_conditional_default};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use tempfile::TempPath;

use super::out;

/// The handled signals: all that end a program by default, except those of program errors. SIGXCPU is sent
/// when the time of `ulimit -t` is over.
const ENDING: [i32; 10] = [
    SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU, SIGALRM, SIGVTALRM, SIGPROF, SIGUSR1, SIGUSR2,
];

/// The error message in the record of an interrupted command.
pub(super) const INTERRUPTED: &str = "interrupted";

/// Whether the program is ending.
static BEGUN: AtomicBool = AtomicBool::new(false);

struct AtEnd {
    /// Files that are currently being written.
    temporary: Vec<PathBuf>,
    /// Waits for the interrupted thread, which ends early and reports its results so far.
    wait: Option<Box<dyn FnMut() + Send>>,
    /// Writes the results so far.
    keep: Option<Box<dyn FnMut() + Send>>,
}

static AT_END: Mutex<AtEnd> = Mutex::new(AtEnd {
    temporary: Vec::new(),
    wait: None,
    keep: None,
});

fn at_end() -> MutexGuard<'static, AtEnd> {
    AT_END.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the signals of [`ENDING`] that are not ignored since the start of the program, as SIGHUP is under
/// `nohup`. SIGINT and SIGTERM are always included: a shell ignores SIGINT for a script's background jobs
/// without anyone's request.
fn wanted() -> Vec<i32> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let ignored = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // If the mask is unknown, only SIGINT and SIGTERM are handled.
    let ignored = ignored.unwrap_or(u64::MAX);
    let is_wanted =
        |signal: &i32| matches!(*signal, SIGINT | SIGTERM) || ignored >> (*signal - 1) & 1 == 0;
    ENDING.into_iter().filter(is_wanted).collect()
}

/// Starts the thread that waits for signals.
pub(super) fn watch() {
    // An empty handler lets a write beyond `ulimit -f` return an error.
    let _ = register(SIGXFSZ, Arc::default());
    let ending = Arc::new(AtomicBool::new(false));
    let signals = wanted();
    for &signal in &signals {
        // A second signal ends the program at once.
        let _ = register_conditional_default(signal, Arc::clone(&ending));
    }
    // Without a handler or a thread, the signals keep their default action.
    let Ok(mut signals) = Signals::new(signals) else {
        return;
    };
    let end = move || {
        if let Some(signal) = signals.forever().next() {
            ending.store(true, Ordering::SeqCst);
            // Meanwhile the interrupted thread may still write.
            let wait = at_end().wait.take();
            if let Some(mut wait) = wait {
                wait();
            }
            BEGUN.store(true, Ordering::SeqCst);
            // Outside of the lock, because `keep` also writes a file.
            let keep = at_end().keep.take();
            if let Some(mut keep) = keep {
                keep();
            }
            let mut at_end = at_end();
            // The lock is never released: no further file can be finished.
            for path in at_end.temporary.drain(..) {
                let _ = fs::remove_file(path);
            }
            out::err(&format!("\nconvfuse: {INTERRUPTED}\n"));
            let _ = emulate_default_handler(signal);
            std::process::exit(128 + signal);
        }
    };
    let _ = std::thread::Builder::new().spawn(end);
}

/// Blocks forever if the program is ending: later output of the interrupted thread must not replace the kept
/// results.
pub(super) fn give_way() {
    while BEGUN.load(Ordering::SeqCst) {
        std::thread::park();
    }
}

/// Ends the program by SIGPIPE, the default for a write to a pipe without a reader.
pub(super) fn end_by_closed_pipe() {
    let _ = emulate_default_handler(SIGPIPE);
}

/// Creates a temporary file in a folder. It is removed when its path is dropped or a signal ends the program.
pub(super) fn temporary(folder: &Path) -> io::Result<(File, TempPath)> {
    let mut builder = tempfile::Builder::new();
    let builder = builder.prefix(".convfuse.").suffix(".tmp");
    // Under the lock, to register every file before the end of the program removes them.
    let mut at_end = at_end();
    // With the default permissions of a new file; `tempfile` would restrict them to the owner.
    let created = builder.make_in(folder, |path| File::create_new(path))?;
    at_end.temporary.retain(|path| path.exists());
    at_end.temporary.push(created.path().to_owned());
    Ok(created.into_parts())
}

/// Moves a temporary file to its final path.
pub(super) fn persist(temporary: TempPath, path: &Path) -> io::Result<()> {
    // Under the lock, to prevent the end of the program in between.
    let _at_end = at_end();
    temporary.persist(path).map_err(|failed| failed.error)
}

/// Registers `keep`, which is called when the program is ended, until the guard is dropped.
pub(super) fn keep(keep: impl FnMut() + Send + 'static) -> Keep {
    at_end().keep = Some(Box::new(keep));
    Keep
}

/// Registers `wait`, which is called first when the program is ended, until the guard is dropped.
pub(super) fn wait(wait: impl FnMut() + Send + 'static) -> Keep {
    at_end().wait = Some(Box::new(wait));
    Keep
}

/// The guard of [`keep`] and [`wait`].
pub(super) struct Keep;

impl Drop for Keep {
    fn drop(&mut self) {
        let mut at_end = at_end();
        (at_end.wait, at_end.keep) = (None, None);
    }
}
