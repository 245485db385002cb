//! Output files are replaced atomically: an old file remains until a new one is complete.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};

use serde_json::Value;

use crate::program::{Program, Ran, system};

const SMALL: &str = "bench --device cpu --shape 1,8,9,9";

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

/// Starts a benchmark of very many problems, whose record replaces `a.json`.
fn start_long(program: &Program) -> (Child, BufReader<ChildStdout>) {
    program.file("a.json", "before");
    let many = vec![r#"{"input": [1, 8, 9, 9]}"#; 20_000].join(",");
    program.file("many.json", format!("[{many}]"));
    let mut command = program.command("bench --device cpu --problems many.json --json a.json");
    let command = command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut running = command.spawn().expect("the program");
    let out = BufReader::new(running.stdout.take().expect("a pipe"));
    (running, out)
}

#[test]
fn whoever_interrupts_keeps_what_there_is() {
    let program = Program::new();
    for (signal, number) in [("-INT", 2), ("-TERM", 15)] {
        let (mut running, out) = start_long(&program);
        let mut lines = out.lines().map_while(Result::ok);
        let finished = lines.by_ref().filter(|line| line.contains("largest error"));
        assert_eq!(finished.take(3).count(), 3);
        let id = running.id().to_string();
        system("kill", &[signal.as_ref(), id.as_ref()]);
        let status = running.wait().expect("the program");
        drop(lines);
        assert_eq!(status.signal(), Some(number), "{status:?}");
        let record = parsed(&program.read("a.json"));
        assert_eq!(record["error"], "interrupted");
        assert!(record["problems"].as_array().expect("a list").len() >= 3);
        assert_eq!(program.names(), ["a.json", "many.json"]);
    }
}

#[test]
fn whoever_interrupts_a_campaign_is_told_what_it_came_to() {
    let program = Program::new();
    let mut command = program.command(
        "campaign --device cpu --cost 20000 --cases 100000000 --seed 3 --threads 2 --json a.json",
    );
    let command = command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut running = command.spawn().expect("the program");
    let out = BufReader::new(running.stdout.take().expect("a pipe"));
    let mut lines = out.lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("is left out")));
    system(
        "kill",
        &["-INT".as_ref(), running.id().to_string().as_ref()],
    );
    assert!(lines.any(|line| line.trim_start().starts_with("family")));
    assert!(lines.next().is_some_and(|line| line.contains("right")));
    drop(lines);
    let status = running.wait().expect("the program");
    assert_eq!(status.signal(), Some(2), "{status:?}");
    let record = parsed(&program.read("a.json"));
    assert_eq!(record["error"], "interrupted");
    assert_eq!(record["status"], 3);
    let families = record["families"].as_object().expect("families");
    let cases = families.values().map(|line| line["cases"].as_u64());
    assert!(cases.sum::<Option<u64>>().expect("counts") > 0);
    assert_eq!(program.names(), ["a.json"]);
}

#[test]
fn a_killed_program_leaves_a_whole_record() {
    let program = Program::new();
    let (mut running, out) = start_long(&program);
    // Wait for the first write of the record, a second after the start.
    let mut lines = out.lines().map_while(Result::ok);
    assert!(lines.any(|_| program.read("a.json") != "before"));
    running.kill().expect("a signal");
    running.wait().expect("the program");
    let record = parsed(&program.read("a.json"));
    let problems = record["problems"].as_array().expect("a list");
    assert!(
        problems
            .iter()
            .all(|problem| !problem["results"].as_array().expect("a list").is_empty())
    );
    assert_eq!(record["error"], Value::Null);
    assert_eq!(record["status"], 0);
}

#[test]
fn standard_output_has_many_names() {
    let program = Program::new();
    for name in ["-", "/dev/stdout", "/dev/fd/1"] {
        let ran = program.run(&format!("{SMALL} --json {name}"));
        assert_eq!((ran.code, &ran.json()["kind"]), (Some(0), &"bench".into()));
    }
    let ran = program.run(&format!("{SMALL} --json"));
    assert_eq!(ran.json()["status"], 0);
    let folder = program.run(&format!("{SMALL} --save -"));
    folder.was_refused(&["must be a folder"]);
    assert!(program.names().is_empty());
}

#[test]
fn a_pipe_that_nobody_reads_is_not_waited_for() {
    let program = Program::new();
    program.pipe("pipe.json");
    let ran = program.run("info --json pipe.json");
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert_eq!(
        ran.complaint(),
        "convfuse: pipe.json: is a pipe that nobody reads"
    );
    let mut command = program.command("info --json pipe.json");
    let mut running = command.stdout(Stdio::null()).spawn().expect("the program");
    // The program waits for a reader that comes shortly after.
    let record = parsed(&program.read("pipe.json"));
    assert_eq!(record["kind"], "info");
    assert_eq!(running.wait().expect("the program").code(), Some(0));
}

#[test]
fn links_that_lead_to_each_other_are_no_file() {
    let program = Program::new();
    symlink("b.json", program.path("a.json")).expect("a link");
    symlink("a.json", program.path("b.json")).expect("a link");
    for option in ["--json", "--compare"] {
        let ran = program.run(&format!("{SMALL} {option} a.json"));
        ran.was_refused(&["a.json: Too many levels of symbolic links"]);
    }
}

/// Runs the program from a shell that has set this limit.
fn limited(program: &Program, limit: &str, arguments: &str) -> Ran {
    let run = format!("ulimit {limit}; exec \"$0\" {arguments}");
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &run, env!("CARGO_BIN_EXE_convfuse")]);
    command
        .current_dir(program.path(""))
        .env("CONVFUSE_CACHE", "off");
    command.output().expect("a shell").into()
}

#[test]
fn a_file_that_may_not_be_so_long_is_one_line_and_status_3() {
    let program = Program::new();
    program.file("a.json", "before");
    let ran = limited(&program, "-f 0", &format!("{SMALL} --json a.json"));
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert_eq!(
        ran.complaint(),
        "convfuse: a.json: File too large (os error 27)"
    );
    assert_eq!(program.read("a.json"), "before");
    assert_eq!(program.names(), ["a.json"]);
}

#[test]
fn a_small_stack_is_enough() {
    let program = Program::new();
    for arguments in [SMALL, "verify --emulator --shapes smoke --only max/plain"] {
        limited(&program, "-s 64", arguments).right();
    }
}

#[test]
fn what_is_no_file_is_written_to() {
    let program = Program::new();
    program.right(&format!("{SMALL} --json /dev/null"));
    assert!(!Path::new("/dev/null").is_file());
    let ran = program.run(&format!("{SMALL} --json /dev/full"));
    assert_eq!(ran.code, Some(3), "{ran:?}");
    ran.complains("/dev/full: No space left");
    assert!(ran.out.contains("largest error"), "{ran:?}");
}
