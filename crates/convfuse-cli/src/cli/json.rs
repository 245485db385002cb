//! The option `--json`: results for other programs. `docs/json.md` describes the format.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use convfuse_cli::Status;
use humantime::format_rfc3339_seconds;
use serde_json::{Map, Value, json};

use super::failure::{Failure, Outcome};
use super::files::Target;
use super::interrupt;
use super::out::{self, Out};

/// The option, of every command.
#[derive(clap::Args, Clone, Default)]
pub(super) struct Json {
    /// Write what was found as JSON to this file, as a whole; for - or no FILE to standard output, which then
    /// gets nothing else
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub(super) json: Option<PathBuf>,
}

impl Json {
    /// The destination of the JSON. Silences text output if this is standard output.
    pub(super) fn target(&self, out: &mut Out) -> Result<Option<Target>, Failure> {
        let target = |path: &PathBuf| Target::new("--json", path);
        let target = self.json.as_ref().map(target).transpose()?;
        if target == Some(Target::Stdout) {
            out.be_silent();
        }
        Ok(target)
    }

    /// Runs a command and writes the results that it noted, even if the command failed.
    pub(super) fn record(
        &self,
        kind: &str,
        out: &mut Out,
        command: impl FnOnce(&mut Out, &mut Found) -> Outcome,
    ) -> Outcome {
        let target = self.target(out)?;
        let mut found = Found::default();
        let outcome = command(out, &mut found);
        let Some(target) = target else {
            return outcome;
        };
        if outcome.is_err() && found.0.is_empty() {
            // Nothing was found, so an older file stays.
            return outcome;
        }
        let mut record = json!({
            "convfuse": env!("CARGO_PKG_VERSION"),
            "kind": kind,
            "date": now(),
            "command": command_line(),
            "status": outcome.as_ref().map_or_else(Failure::status, Status::clone),
            "error": outcome.as_ref().err().map(ToString::to_string),
        });
        if let Some(record) = record.as_object_mut() {
            record.extend(found.0);
        }
        let written = target.write(out, &out::json(&record));
        // The first failure is reported.
        outcome.and_then(|status| written.map(|()| status))
    }
}

/// The results of a command so far.
#[derive(Default)]
pub(super) struct Found(Map<String, Value>);

impl Found {
    pub(super) fn note(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// Appends to a list.
    pub(super) fn push(&mut self, name: &str, value: impl Into<Value>) {
        let list = self.0.entry(name).or_insert_with(|| json!([]));
        if let Some(list) = list.as_array_mut() {
            list.push(value.into());
        }
    }
}

/// The program's name and arguments.
pub(super) fn command_line() -> Vec<String> {
    let arguments = std::env::args_os();
    arguments
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect()
}

/// The current time in the format of records.
pub(super) fn now() -> String {
    let now = SystemTime::now().max(SystemTime::UNIX_EPOCH);
    format_rfc3339_seconds(now).to_string()
}

/// Refuses two options that name one file.
pub(super) fn must_differ(
    one: (&str, Option<&Target>),
    other: (&str, Option<&Target>),
) -> Result<(), Failure> {
    match (one.1, other.1) {
        (Some(a), Some(b)) if a.is(b) => Err(Failure::Refused(format!(
            "{} and {} are one file, must be two",
            one.0, other.0
        ))),
        _ => Ok(()),
    }
}

/// Refuses to replace a file that is also read, such as a list of problems or weights.
pub(super) fn must_not_replace(
    written: (&str, Option<&Target>),
    read: (&str, Option<&Path>),
) -> Result<(), Failure> {
    match read.1 {
        Some(path) if path != Path::new("-") => {
            let read = (read.0, Some(&Target::File(path.to_owned())));
            must_differ(written, read)
        }
        _ => Ok(()),
    }
}

/// A file that is rewritten as results arrive. Writing takes at most a twentieth of the time, independent of
/// its size.
pub(super) struct Kept {
    target: Target,
    last: Instant,
    took: Duration,
}

/// The minimum time between two writes.
const PAUSE: Duration = Duration::from_secs(1);

impl Kept {
    pub(super) fn new(target: Target) -> Kept {
        Kept {
            target,
            last: Instant::now(),
            took: Duration::ZERO,
        }
    }

    /// Writes `text` if enough time has passed since the previous write.
    pub(super) fn now_and_then(&mut self, text: impl FnOnce() -> String) -> Result<(), Failure> {
        let pause = PAUSE.max(20 * self.took);
        if self.target == Target::Stdout || self.last.elapsed() < pause {
            return Ok(());
        }
        interrupt::give_way();
        let start = Instant::now();
        self.target.write_beside(&text())?;
        self.last = Instant::now();
        self.took = start.elapsed();
        Ok(())
    }
}

/// The name of a file, without folder and extension.
pub(super) fn file_name(path: &Path) -> String {
    path.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}
