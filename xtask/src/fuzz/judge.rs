//! Runs the program on a case, and judges the outcome.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Result;

/// The most lines of standard error that a refusal may print.
const MOST_LINES: usize = 12;

/// Limits the address space in kilobytes: far more than the corpus files need, far less than a machine has.
const LIMITED: &str = "ulimit -v 8388608; exec \"$0\" \"$@\"";

/// Runs `command` in `folder`. Interrupts it after some seconds, and kills it after the same time again.
/// Returns the kind of end: a result (`taken`), an error message (`refused`), the interrupt (`long`), or a
/// description of a forbidden end.
pub(super) fn judge(
    program: &Path,
    command: &str,
    folder: &Path,
    seconds: &str,
) -> Result<Result<&'static str, String>> {
    let err = folder.join("err.txt");
    let status = Command::new("timeout")
        .args([
            "--signal=INT",
            "--kill-after",
            seconds,
            seconds,
            "sh",
            "-c",
            LIMITED,
        ])
        .arg(program)
        .args(command.split_whitespace())
        .current_dir(folder)
        .env("CONVFUSE_CACHE", "off")
        // Each thread uses much of the limited address space.
        .env("RAYON_NUM_THREADS", "2")
        .stdin(Stdio::null())
        .stdout(fs::File::create(folder.join("out.txt"))?)
        .stderr(fs::File::create(&err)?)
        .status()?;
    let said = String::from_utf8_lossy(&fs::read(err)?).into_owned();
    if let Some(why) = flaw(&said) {
        return Ok(Err(why));
    }
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        // As the command line calls the files that it has not finished.
        if name.starts_with(".convfuse.") {
            return Ok(Err(format!("leaves {name}")));
        }
    }
    Ok(match status.code() {
        Some(0) => Ok("taken"),
        // The status of `timeout`. If the program had to be killed, `timeout` ends by signal 9.
        Some(124) => Ok("long"),
        // The documented exit statuses.
        Some(1) => Ok("refused"),
        Some(2 | 3) if !said.is_empty() => Ok("refused"),
        Some(code @ (2 | 3)) => Err(format!("exit status {code}, and says nothing")),
        Some(code) => Err(format!("exit status {code}")),
        None => Err(format!("ended by {status}")),
    })
}

/// Finds forbidden output on standard error.
fn flaw(said: &str) -> Option<String> {
    let ends = [
        "panicked",
        "has overflowed its stack",
        "memory allocation of",
    ];
    if ends.iter().any(|end| said.contains(end)) {
        let first = said.lines().find(|line| !line.is_empty());
        return Some(first.unwrap_or_default().to_owned());
    }
    if let Some(control) = said.chars().find(|&c| c.is_control() && c != '\n') {
        return Some(format!("prints the control character {control:?}"));
    }
    let lines = said.lines().count();
    (lines > MOST_LINES).then(|| format!("takes {lines} lines to say what is wrong"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs scripts in place of the program.
    #[test]
    fn what_may_not_be_is_judged_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let verdict = |script: &str| {
            let _ = fs::remove_file(folder.path().join(".convfuse.y.tmp"));
            fs::write(folder.path().join("script"), script).unwrap();
            judge(Path::new("/bin/sh"), "script", folder.path(), "1").unwrap()
        };
        assert_eq!(verdict("exit 0"), Ok("taken"));
        assert_eq!(verdict("echo wrong >&2; exit 2"), Ok("refused"));
        assert_eq!(verdict("exec sleep 20"), Ok("long"));
        let wrong = [
            ("exit 2", "exit status 2, and says nothing"),
            ("echo wrong >&2; exit 101", "exit status 101"),
            (
                "echo \"thread 'main' panicked at\" >&2; exit 2",
                "thread 'main' panicked at",
            ),
            (
                "printf '\\033[2J' >&2; exit 2",
                "prints the control character '\\u{1b}'",
            ),
            (
                "touch .convfuse.y.tmp; echo wrong >&2; exit 2",
                "leaves .convfuse.y.tmp",
            ),
            ("kill -SEGV $$", "ended by signal: 11"),
            ("trap '' INT; sleep 20", "ended by signal: 9"),
        ];
        for (script, why) in wrong {
            let said = verdict(script).expect_err(script);
            assert!(said.starts_with(why), "{said}");
        }
    }
}
