//! Runs the program on a case, and says whether it did what it may.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How a case ended.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// With a result.
    Taken,
    /// With a message.
    Refused,
    /// It ran longer than cases may, and ended when it was interrupted.
    Long,
    /// As no file may make it end.
    Wrong(String),
}

/// How long a case may take before it is interrupted.
const LONG: Duration = Duration::from_secs(5);

/// How long it may go on after that.
const GRACE: Duration = Duration::from_secs(5);

/// Kilobytes of addresses that the program may have: far more than corpus files need, far less than a machine
/// has.
const MEMORY: u64 = 8 << 20;

/// Lines of standard error that a refusal may take.
const MOST_LINES: usize = 12;

/// Exit statuses that the command line documents.
const STATUSES: std::ops::RangeInclusive<i32> = 0..=3;

/// The signal's name for `kill`.
enum Signal {
    Interrupt,
    Kill,
}

/// Runs `command` in `folder`.
pub(super) fn judge(
    program: &Path,
    command: &str,
    folder: &Path,
) -> Result<Verdict, Box<dyn Error>> {
    let out = fs::File::create(folder.join("out.txt"))?;
    let err = fs::File::create(folder.join("err.txt"))?;
    let mut child = Command::new("sh")
        .arg("-c")
        .arg(format!("ulimit -v {MEMORY}; exec \"$0\" \"$@\""))
        .arg(program)
        .args(command.split_whitespace())
        .current_dir(folder)
        .env("CONVFUSE_CACHE", "off")
        // The limit is on addresses, of which each thread takes many.
        .env("RAYON_NUM_THREADS", "2")
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .spawn()?;
    let mut was_long = false;
    if !ends(&mut child, LONG)? {
        was_long = true;
        signal(&child, &Signal::Interrupt)?;
        if !ends(&mut child, GRACE)? {
            signal(&child, &Signal::Kill)?;
            child.wait()?;
            return Ok(Verdict::Wrong("goes on after an interrupt".to_owned()));
        }
    }
    let status = child.wait()?;
    let said = String::from_utf8_lossy(&fs::read(folder.join("err.txt"))?).into_owned();
    if let Some(why) = flaw(&said) {
        return Ok(Verdict::Wrong(why));
    }
    if let Some(name) = leftover(folder)? {
        return Ok(Verdict::Wrong(format!("leaves {name}")));
    }
    Ok(match (was_long, status.code()) {
        (true, _) => Verdict::Long,
        (false, None) => Verdict::Wrong(format!("ended by {status}")),
        (false, Some(0)) => Verdict::Taken,
        (false, Some(code)) if !STATUSES.contains(&code) => {
            Verdict::Wrong(format!("exit status {code}"))
        }
        (false, Some(code)) if said.is_empty() && code != 1 => {
            Verdict::Wrong(format!("exit status {code}, and says nothing"))
        }
        (false, Some(_)) => Verdict::Refused,
    })
}

/// What is wrong with what it says on standard error.
fn flaw(said: &str) -> Option<String> {
    if said.contains("panicked")
        || said.contains("has overflowed its stack")
        || said.contains("memory allocation of")
    {
        return Some(
            said.lines()
                .find(|line| !line.is_empty())
                .unwrap_or_default()
                .to_owned(),
        );
    }
    let is_control = |c: char| c.is_control() && c != '\n';
    if let Some(control) = said.chars().find(|&c| is_control(c)) {
        return Some(format!("prints the control character {control:?}"));
    }
    let lines = said.lines().count();
    (lines > MOST_LINES).then(|| format!("takes {lines} lines to say what is wrong"))
}

/// A file that is only half written.
fn leftover(folder: &Path) -> Result<Option<String>, Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.contains(".partial") {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Whether it ends within that time.
fn ends(child: &mut Child, within: Duration) -> Result<bool, Box<dyn Error>> {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    while start.elapsed() < within {
        if child.try_wait()?.is_some() {
            return Ok(true);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
    Ok(false)
}

fn signal(child: &Child, signal: &Signal) -> Result<(), Box<dyn Error>> {
    let name = match signal {
        Signal::Interrupt => "-INT",
        Signal::Kill => "-KILL",
    };
    Command::new("kill")
        .args([name, &child.id().to_string()])
        .status()?;
    Ok(())
}
