//! What is done when a signal ends the program, such as that of Ctrl-C: files that are half written go,
//! results that are there are kept, and the program ends by the signal, as it would have without this.

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

/// The signals that end the program: of those that would, all but the ones of a program gone wrong. SIGXCPU
/// says that the time of `ulimit -t` is over.
const ENDING: [i32; 10] = [
    SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU, SIGALRM, SIGVTALRM, SIGPROF, SIGUSR1, SIGUSR2,
];

/// What records say of a command that was ended.
pub(super) const INTERRUPTED: &str = "interrupted";

/// Whether the program is being ended.
static BEGUN: AtomicBool = AtomicBool::new(false);

struct AtEnd {
    /// Files that are being written.
    temporary: Vec<PathBuf>,
    /// Waits for the interrupted thread, which ends early and tells what it has found.
    wait: Option<Box<dyn FnMut() + Send>>,
    /// Writes what has been found so far.
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

/// The signals of [`ENDING`], less those that whoever started the program has turned off, as `nohup` does for
/// SIGHUP. SIGINT and SIGTERM stay: of a program in a script's background the shell has turned SIGINT off,
/// and nobody has asked for that.
fn wanted() -> Vec<i32> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let ignored = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // Where that is unknown, only these two are handled.
    let ignored = ignored.unwrap_or(u64::MAX);
    let is_wanted =
        |signal: &i32| matches!(*signal, SIGINT | SIGTERM) || ignored >> (*signal - 1) & 1 == 0;
    ENDING.into_iter().filter(is_wanted).collect()
}

/// Begins to wait for signals, in a thread of its own.
pub(super) fn watch() {
    // Handled by doing nothing, so that a write beyond `ulimit -f` returns an error.
    let _ = register(SIGXFSZ, Arc::default());
    let ending = Arc::new(AtomicBool::new(false));
    let signals = wanted();
    for &signal in &signals {
        // A second signal ends the program at once.
        let _ = register_conditional_default(signal, Arc::clone(&ending));
    }
    // A system that grants no handler or no thread leaves its own way to end a program.
    let Ok(mut signals) = Signals::new(signals) else {
        return;
    };
    let end = move || {
        if let Some(signal) = signals.forever().next() {
            ending.store(true, Ordering::SeqCst);
            // While it waits, the interrupted thread may still write.
            let wait = at_end().wait.take();
            if let Some(mut wait) = wait {
                wait();
            }
            BEGUN.store(true, Ordering::SeqCst);
            // Not under the lock, for this writes a file, too.
            let keep = at_end().keep.take();
            if let Some(mut keep) = keep {
                keep();
            }
            let mut at_end = at_end();
            // The lock is never given back: the program finishes no more files.
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

/// Waits for the end, if somebody has begun to end the program: what the interrupted thread still has to say
/// is not to replace what was kept.
pub(super) fn give_way() {
    while BEGUN.load(Ordering::SeqCst) {
        std::thread::park();
    }
}

/// Ends the program as the system ends one that writes to a pipe which nobody reads.
pub(super) fn end_by_closed_pipe() {
    let _ = emulate_default_handler(SIGPIPE);
}

/// Creates a temporary file in a folder. It is removed when its path is dropped or a signal ends the program.
pub(super) fn temporary(folder: &Path) -> io::Result<(File, TempPath)> {
    let mut builder = tempfile::Builder::new();
    let builder = builder.prefix(".convfuse.").suffix(".tmp");
    // Under the lock, so that no file is there that the end of the program does not know.
    let mut at_end = at_end();
    // With the permissions of any new file: those of a file of `tempfile` are its owner's alone.
    let created = builder.make_in(folder, |path| File::create_new(path))?;
    at_end.temporary.retain(|path| path.exists());
    at_end.temporary.push(created.path().to_owned());
    Ok(created.into_parts())
}

/// Moves such a file to its place.
pub(super) fn persist(temporary: TempPath, path: &Path) -> io::Result<()> {
    // Under the lock, so that the program does not end in between.
    let _at_end = at_end();
    temporary.persist(path).map_err(|failed| failed.error)
}

/// Has `keep` called if the program is ended, until the guard is dropped.
pub(super) fn keep(keep: impl FnMut() + Send + 'static) -> Keep {
    at_end().keep = Some(Box::new(keep));
    Keep
}

/// Has `wait` called before anything else if the program is ended, until the guard is dropped.
pub(super) fn wait(wait: impl FnMut() + Send + 'static) -> Keep {
    at_end().wait = Some(Box::new(wait));
    Keep
}

/// See [`keep`] and [`wait`].
pub(super) struct Keep;

impl Drop for Keep {
    fn drop(&mut self) {
        let mut at_end = at_end();
        (at_end.wait, at_end.keep) = (None, None);
    }
}
