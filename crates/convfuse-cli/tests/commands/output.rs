//! Closed or full standard streams, and escapes of output to a terminal.

use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use crate::program::{Program, Ran};

const COMMANDS: [&str; 6] = [
    "--help",
    "--version",
    "info",
    "explain --shape 1,8,9,9",
    "verify --device cpu --shapes smoke --only clamp",
    "bench --device cpu --shape 1,8,9,9",
];

const SIGPIPE: i32 = 13;

/// A pipe without a reader.
fn closed() -> Stdio {
    let (reader, writer) = io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

fn full() -> Stdio {
    let file = File::options().write(true).open("/dev/full");
    file.expect("a device that is always full").into()
}

fn with_stdout(mut command: Command, stdout: Stdio) -> (Option<i32>, Ran) {
    let output = command.stdout(stdout).output().expect("the program");
    (output.status.signal(), output.into())
}

#[test]
fn a_closed_pipe_ends_the_program_quietly() {
    let program = Program::new();
    for arguments in COMMANDS {
        let (signal, ran) = with_stdout(program.command(arguments), closed());
        assert_eq!(signal, Some(SIGPIPE), "{arguments}: {ran:?}");
        assert!(!ran.err.contains("convfuse:"), "{arguments}: {ran:?}");
    }
}

#[test]
fn a_full_disk_is_one_line_and_status_3() {
    let program = Program::new();
    for arguments in COMMANDS {
        let (_, ran) = with_stdout(program.command(arguments), full());
        assert_eq!(ran.code, Some(3), "{arguments}: {ran:?}");
        let words = "convfuse: standard output: No space left on device";
        assert!(ran.complaint().starts_with(words), "{arguments}: {ran:?}");
    }
}

#[test]
fn a_closed_pipe_loses_no_record() {
    let program = Program::new();
    let command = program.command("bench --device cpu --shape 1,8,9,9 --json a.json");
    let (signal, ran) = with_stdout(command, closed());
    assert_eq!(signal, Some(SIGPIPE), "{ran:?}");
    let record: serde_json::Value = serde_json::from_str(&program.read("a.json")).expect("JSON");
    assert_eq!(record["error"], "standard output was closed");
}

#[test]
fn a_standard_error_that_takes_nothing_is_no_reason_to_stop() {
    let program = Program::new();
    for stderr in [closed, full] {
        let mut command = program.command("bench --device cpu --shape 1,8,9,9");
        let output = command.stderr(stderr()).output().expect("the program");
        assert_eq!(output.status.code(), Some(0));
        let mut command = program.command("bench --device cpu --shape 1");
        let output = command.stderr(stderr()).output().expect("the program");
        assert_eq!(output.status.code(), Some(2));
    }
}

#[test]
fn control_characters_of_files_are_shown() {
    let program = Program::new();
    let title = "red\\u001b[31m\\nconvfuse: all is well\\u009b1m\\u202etxt";
    program.file(
        "a.json",
        format!(r#"[{{"title": "{title}", "input": [1, 8, 9, 9]}}, {{"title": "{title}", "input": [0, 0, 9, 9]}}]"#),
    );
    let shown = "red\\u{1b}[31m\\nconvfuse: all is well\\u{9b}1m\\u{202e}txt";
    let is_shown = |text: &str| {
        let is_plain = |c: char| c == '\n' || !c.is_control() && c != '\u{202e}';
        text.chars().all(is_plain) && text.contains(shown)
    };
    let refused = program.run("bench --device cpu --problems a.json");
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(is_shown(&refused.err), "{refused:?}");

    program.file(
        "a.json",
        format!(r#"[{{"title": "{title}", "input": [1, 8, 9, 9]}}]"#),
    );
    let ran = program.right("bench --device cpu --problems a.json");
    assert!(is_shown(&ran.out) && is_shown(&ran.err), "{ran:?}");
    let again = program.run("bench --device cpu --problems a.json --json");
    assert!(again.out.chars().all(|c| c == '\n' || !c.is_control()));
    assert!(
        again.json()["problems"][0]["title"]
            .as_str()
            .is_some_and(|title| title.contains('\u{1b}'))
    );

    let name = "\x1b]0;title\x07.json";
    let absent = program.run_with("bench --device cpu --problems", name);
    absent.was_refused(&["\\u{1b}]0;title\\u{7}.json: No such file"]);
}

#[test]
fn the_exit_status_is_in_the_help() {
    let help = Program::new().run("--help");
    assert_eq!(help.code, Some(0));
    for status in [
        "0  success",
        "1  a result is wrong",
        "2  the request",
        "3  the machine",
    ] {
        assert!(help.out.contains(status), "{status}");
    }
    let unknown = Program::new().run("bench --unknown");
    assert_eq!((unknown.code, &*unknown.out), (Some(2), ""));
}

#[test]
fn shells_get_completions() {
    for shell in ["bash", "zsh", "fish"] {
        let ran = Program::new().right(&format!("completions {shell}"));
        assert!(ran.out.contains("batch-dependent"), "{shell}");
    }
}

#[test]
fn the_guide_shows_what_explain_prints() {
    let guide = include_str!("../../../../docs/guide.md");
    let program = Program::new();
    program.file(
        "norm_silu.json",
        include_str!("../../../../examples/chains/norm_silu.json"),
    );
    for device in ["h200", "a100"] {
        let command = format!(
            "explain --chain norm_silu.json --shape 8,64,64,64 --dtype f16 --device {device}"
        );
        let shown = format!("$ convfuse {command}\n{}", program.right(&command).out);
        assert!(guide.contains(&shown), "{shown}");
    }
}
