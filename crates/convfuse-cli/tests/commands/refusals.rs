//! Invalid requests are refused early, with the place and the rule. Later failures are recorded.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::program::{Program, golden};

#[test]
fn one_pipeline_is_refused_before_the_other_runs() {
    let ran = Program::new().run("bench --device cpu --num-groups 8");
    ran.was_refused(&["79 [128, 3, 16, 32, 32] f32: pipeline 79 has no num_groups"]);
    assert!(!ran.err.contains("reference"), "{ran:?}");
}

#[test]
fn every_problem_of_a_list_is_checked_first() {
    let program = Program::new();
    let second = |problem: &str| {
        let list = format!(r#"[{{"input": [1, 8, 9, 9]}}, {problem}]"#);
        program.file("list.json", list);
        let ran = program.run("bench --device cpu --problems list.json --dtype f32,f16");
        assert!(!ran.err.contains("reference"), "{ran:?}");
        ran
    };
    second(r#"{"title": "odd", "input": [1, 8, 9, 9], "attributes": {"num_groups": 7}}"#)
        .was_refused(&[
            "list.json: problem 1 (odd) f32: layer 1: group_norm: ",
            "num_groups 7",
        ]);
    second(r#"{"input": [1, 8, 2, 2]}"#)
        .was_refused(&["list.json: problem 1 f32: layer 0: conv2d: "]);
    second(r#"{"input": [1, 8]}"#)
        .was_refused(&["list.json: problem 1 f32: input [1, 8] has 2 extents"]);
    second(r#"{"input": [1, 8, 9, 9], "attributes": {"strides": 2}}"#)
        .was_refused(&["list.json: problem 1: unknown field `strides`"]);
    second(r#"{"input": [1, 2, 9], "chain": {"in_channels": 2, "layers": [{"relu": {}}, {"magic": {}}]}}"#)
        .was_refused(&["list.json: problem 1: layer 1: ", "magic"]);
    second(r#"{"input": [1, 3, 9], "chain": {"in_channels": 2, "layers": [{"relu": {}}]}}"#)
        .was_refused(&["list.json: problem 1 f32: layer 0: relu: "]);
    program.file("list.json", "[]");
    let none = program.run("bench --device cpu --problems list.json");
    none.was_refused(&["list.json: has no problems"]);
}

#[test]
fn strategies_are_checked_for_every_problem_and_device() {
    let program = Program::new();
    let partition = |device: &str, partition: &str| {
        let arguments =
            format!("bench --device {device} --shape 1,8,9,9 --shape 1,8,12,12 --strategy");
        program.run_with(&arguments, partition)
    };
    partition("cpu", "magic").was_refused(&["85 [1, 8, 9, 9] f32: partition: "]);
    partition(
        "emulator",
        "conv2d group_norm scale max_pool2d clamp @direct",
    )
    .was_refused(&["85 [1, 8, 9, 9] f32: ", "no kernels"]);
    let shape = program.run("bench --device cpu --model 85 --shape 1,3,4,5,6");
    shape.was_refused(&["--shape [1, 3, 4, 5, 6] has 5 extents"]);
}

#[test]
fn a_refusal_leaves_the_record_of_before() {
    let program = Program::new();
    program.file("a.json", "before");
    for arguments in [
        "verify --device cpu --only magic",
        "explain --shape 1,8,1,1",
        "arrays --devices cpu --shape 0,8,9,9",
        "bench --device cpu --shape 1,8,1,1",
        "bench --device cpu --shape 1,8,9,9 --save a.json",
        "bench --device gpu:99 --shape 1,8,9,9",
        "compare absent absent",
    ] {
        let ran = program.run(&format!("{arguments} --json a.json"));
        assert!(matches!(ran.code, Some(2 | 3)), "{ran:?}");
        assert_eq!(
            (&*ran.out, &*program.read("a.json")),
            ("", "before"),
            "{ran:?}"
        );
    }
    assert_eq!(program.names(), ["a.json"]);
    for many in ["0", "18446744073709551615"] {
        for command in [
            "bench --repeats",
            "demo --runs",
            "arrays --repeats",
            "profile --repeats",
        ] {
            let ran = program.run(&format!("{command} {many}"));
            assert_eq!((ran.code, &*ran.out), (Some(2), ""), "{ran:?}");
        }
    }
}

#[test]
fn every_command_has_a_record() {
    let program = Program::new();
    for (kind, arguments) in [
        ("info", "info"),
        ("verify", "verify --device cpu --shapes smoke --only clamp"),
        ("arrays", "arrays --devices cpu --shape 2,8,9,9 --repeats 1"),
        ("explain", "explain --shape 1,8,9,9"),
        ("profile", "profile --device emulator --shape 1,8,9,9"),
        ("bench", "demo --device emulator --runs 1"),
    ] {
        let ran = program.right(&format!("{arguments} --json"));
        let record = ran.json();
        assert_eq!(record["kind"], kind);
        assert_eq!(record["status"], 0);
        assert!(
            record["error"].is_null() && record["command"].is_array(),
            "{record}"
        );
    }
}

#[test]
fn paths_are_checked_first() {
    let program = Program::new();
    let folder = program.path("folder");
    fs::create_dir(&folder).expect("a folder");
    program.pipe("pipe");
    program.file("file", "");
    program.file("binary", [0xff, 0xfe]);
    let small = "bench --device cpu --shape 1,8,9,9";
    for (option, words) in [
        ("--json absent/a", "--json: absent/a: No such file"),
        ("--json folder", "--json: folder: is a directory"),
        ("--json file/a", "--json: file/a: Not a directory"),
        ("--save file", "--save: file: "),
        ("--compare absent", "absent: No such file"),
        ("--compare pipe", "pipe: is a pipe, must be a file"),
        ("--compare file", "file: is not a record"),
    ] {
        let ran = program.run(&format!("{small} {option}"));
        ran.was_refused(&[words]);
        assert!(!ran.err.contains("reference"), "{ran:?}");
    }
    for (option, words) in [
        ("--problems binary", "binary: is not UTF-8"),
        ("--problems pipe", "pipe: is a pipe, must be a file"),
        ("--problems folder", "folder: is a folder, must be a file"),
        (
            "--problems /dev/zero",
            "/dev/zero: is a device, must be a file",
        ),
        ("--chain pipe --shape 1,2", "pipe: is a pipe"),
    ] {
        program
            .run(&format!("bench --device cpu {option}"))
            .was_refused(&[words]);
    }
    let golden = program.run("verify --device cpu --shapes smoke --golden absent");
    golden.was_refused(&["absent: cannot be listed: No such file"]);
    let none = program.run("verify --device cpu --shapes smoke --only magic");
    none.was_refused(&["--only"]);
    program.file("deep", "[".repeat(100_000));
    let deep = program.run("bench --device cpu --problems deep");
    deep.was_refused(&["deep: recursion limit"]);
}

#[test]
fn golden_files_that_cannot_be_used_lose_no_others() {
    let program = Program::new();
    let name = "avg_pool2d.safetensors";
    let whole = fs::read(golden().join(name)).expect("a golden file");
    let folder = program.path("golden");
    fs::create_dir(&folder).expect("a folder");
    fs::write(folder.join("a.safetensors"), &whole[..whole.len() / 2]).expect("a file");
    program.pipe("golden/b.safetensors");
    fs::create_dir(folder.join("c.safetensors")).expect("a folder");
    fs::write(folder.join("d.safetensors"), &whole).expect("a file");
    let ran = program.run("verify --device cpu --golden golden --only golden --json v.json");
    assert_eq!(ran.code, Some(2), "{ran:?}");
    for words in [
        "golden/a.safetensors: is not a complete safetensors file",
        "golden/b.safetensors: cannot be read: is no ordinary file",
        "golden/c.safetensors: cannot be read: is no ordinary file",
        "right",
    ] {
        assert!(ran.out.contains(words), "{words}: {ran:?}");
    }
    let record: serde_json::Value = serde_json::from_str(&program.read("v.json")).expect("JSON");
    assert_eq!(record["complaints"].as_array().map(Vec::len), Some(3));
    assert_eq!(record["lines"][0]["runs"], 1);
    assert_eq!(record["status"], 2);
    let ran = program
        .run("verify --device cpu --golden golden --only golden/d")
        .right();
    assert!(!ran.out.contains("golden/a"), "{ran:?}");
}

#[test]
fn devices_and_memory_that_are_not_there_are_the_machines_fault() {
    let program = Program::new();
    let device = program.run("bench --device gpu:99 --shape 1,8,9,9");
    assert_eq!((device.code, &*device.out), (Some(3), ""), "{device:?}");
    device.complains("convfuse: gpu: ");
    let memory = program.run("bench --device cpu --shape 1,8,9,9 --shape 1000000,8,3000,3000");
    assert_eq!((memory.code, &*memory.out), (Some(3), ""), "{memory:?}");
    memory.complains("85 [1000000, 8, 3000, 3000] f32: ");
    memory.complains("out of memory");
}

#[test]
fn shapes_that_cannot_be_counted_together_are_no_panic() {
    let program = Program::new();
    let layers = ["a", "b", "c"]
        .map(|name| format!(r#"{{"add": {{"input": "{name}"}}}}"#))
        .join(", ");
    program.file(
        "chain.json",
        format!(r#"{{"in_channels": 2, "layers": [{layers}]}}"#),
    );
    for command in [
        "bench --device cpu",
        "bench --device emulator",
        "verify --device cpu",
        "explain",
        "profile --device emulator",
    ] {
        let ran = program.run(&format!(
            "{command} --chain chain.json --shape 1000000000000000000,2"
        ));
        assert!(matches!(ran.code, Some(2 | 3)), "{ran:?}");
        assert!(ran.out.is_empty(), "{ran:?}");
    }
}

#[test]
fn explanations_need_no_memory_for_what_they_explain() {
    let program = Program::new();
    // Larger than any machine's memory, but nothing is computed.
    for options in [
        "",
        "--channels-last",
        "--dtype f16 --strategy unfused-direct",
    ] {
        let ran = program.right(&format!(
            "explain --device h200 --shape 100,8,4000,4000 {options}"
        ));
        let copied = ran.out.contains("copy_strided_f32_f32");
        assert_eq!(copied, options == "--channels-last", "{ran:?}");
    }
}

#[test]
fn a_window_of_billions_ends() {
    Program::new().right(
        "bench --device cpu --shape 1,8,9,9 --max-pool 1000000000 --max-pool-padding 500000000",
    );
}

#[test]
fn what_the_emulator_would_not_end_must_be_asked_for() {
    let program = Program::new();
    let long = program.run("bench --device emulator --model 85 --shape 128,8,128,128");
    long.was_refused(&["emulator will take about ", " h", "give --yes to go on"]);
    let long = program.run("demo --device emulator --batch 128");
    long.was_refused(&["give --yes to go on"]);
    let window = "--max-pool 1,100000000 --max-pool-padding 0,50000000";
    let long = program.run(&format!("bench --device emulator --shape 1,8,9,9 {window}"));
    long.was_refused(&["give --yes to go on"]);
    program.right("bench --device emulator --strategy fused --model 79");
}

#[test]
fn verify_says_how_long_it_takes() {
    let program = Program::new();
    let chain = r#"{"in_channels": 2, "layers": [{"conv2d": {"name": "conv", "out_channels": 4, "kernel_size": 3}}, {"relu": {}}]}"#;
    program.file("chain.json", chain);
    let mut command = program.command("verify --emulator --chain chain.json --shape 1,2,600,600");
    let command = command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut running = command.spawn().expect("the program");
    let err = BufReader::new(running.stderr.take().expect("a pipe"));
    let mut lines = err.lines().map_while(Result::ok);
    assert!(lines.any(|line| line.starts_with("emulator will take about ")));
    running.kill().expect("a signal");
    running.wait().expect("the program");
}
