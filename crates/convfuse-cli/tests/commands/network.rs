//! Commands that run networks.

use std::fs;

use convfuse::data;

use crate::program::{Program, npy};

/// A residual block whose shortcut has a convolution, with a further input.
const NETWORK: &str = r#"{"version": 1, "input": {"name": "x", "channels": 2}, "inputs": ["skip"], "layers": [
    {"name": "a", "input": "x", "layer": {"conv2d": {"name": "conv", "out_channels": 4, "kernel_size": 3, "padding": 1}}},
    {"name": "b", "input": "a", "layer": {"batch_norm": {"name": "bn"}}},
    {"name": "shortcut", "input": "x", "layer": {"conv2d": {"name": "down", "out_channels": 4, "kernel_size": 1}}},
    {"name": "sum", "input": "b", "layer": {"add": {"input": "shortcut"}}},
    {"name": "active", "input": "sum", "layer": {"relu": {}}},
    {"name": "y", "input": "active", "layer": {"add": {"input": "skip"}}}], "output": "y"}"#;

#[test]
fn a_network_runs_as_it_is_measured_and_verified() {
    let program = Program::new();
    // Without the further input, which `bench` would fill itself.
    let network = NETWORK
        .replace(r#""inputs": ["skip"], "#, "")
        .replace(r#"{"input": "skip"}"#, r#"{"input": "shortcut"}"#);
    program.file("net.json", network);
    let bench = "bench --device cpu --network net.json --shape 5,2,6,7 --save . --json";
    let record = program.right(bench).json();
    let problem = &record["problems"][0];
    assert_eq!(problem["attributes"]["version"], 1);
    let x = data::fill(
        problem["input_seed"].as_u64().expect("a seed"),
        (5, 2, 6, 7),
    );
    program.file("x.npy", npy("5, 2, 6, 7", x));
    let run = "run --device cpu --network net.json --parameters 0-network-parameters.safetensors --input x.npy";
    program.right(&format!(
        "{run} --output y.safetensors --chunk 2 --json run.json"
    ));
    let same = program.right("compare y.safetensors 0-network-cpu-accurate.safetensors");
    assert!(same.out.contains("equal"), "{same:?}");
    assert!(program.read("run.json").contains("\"network\": {"));
    let verified =
        program.right("verify --device cpu --network net.json --shape 2,2,5,5 --shape 1,2,9,8");
    assert!(verified.out.contains("  net  "), "{verified:?}");
    program.right("verify --emulator --network net.json --shape 1,2,5,5");
    let explained =
        program.right("explain --network net.json --shape 5,2,64,64 --device h200 --json");
    let regions = &explained.json()["explanations"][0];
    assert!(regions.to_string().contains("implicit-gemm"), "{regions}");
}

#[test]
fn what_is_no_network_is_refused() {
    let program = Program::new();
    program.file("net.json", NETWORK);
    program.file("x.npy", npy("1, 2, 6, 7", data::fill(1, (1, 2, 6, 7))));
    let run = "run --device cpu --output y.npy --input";
    let chain = r#"{"in_channels": 2, "layers": [{"relu": {}}]}"#;
    program.file("chain.json", chain);
    program
        .run(&format!("{run} x.npy --network chain.json"))
        .was_refused(&["chain.json: is a chain: use --chain"]);
    program
        .run(&format!("{run} x.npy --chain net.json"))
        .was_refused(&["net.json: is a network: use --network"]);
    program
        .run(&format!("{run} x.npy --network net.json"))
        .was_refused(&["x.npy: input skip is missing"]);
    program
        .run("explain --network net.json --shape 1,3,6,7")
        .was_refused(&["layer 0: a: conv2d: input[1] is 3, expected 2"]);
    let wrong = NETWORK.replace("batch_norm\": {", "batch_norm\": {\"epsilon\": 1, ");
    program.file("wrong.json", wrong);
    program
        .run("verify --network wrong.json --shape 1,2,6,7")
        .was_refused(&["wrong.json: layer 1: b: batch_norm: unknown field `epsilon`"]);
    program
        .run("bench --network net.json --shape 1,2,6,7 --json net.json")
        .was_refused(&["--json and --network are one file"]);
}

#[test]
fn every_output_has_a_file() {
    let program = Program::new();
    let network = NETWORK
        .replace(r#""inputs": ["skip"], "#, "")
        .replace(r#"{"input": "skip"}"#, r#"{"input": "shortcut"}"#)
        .replace(
            r#""output": "y""#,
            r#""output": "sum", "outputs": ["y", "shortcut"]"#,
        );
    program.file("net.json", network);
    let shape = "--shape 3,2,6,7";
    let record = program
        .right(&format!(
            "bench --device cpu --network net.json {shape} --save . --json"
        ))
        .json();
    let seed = record["problems"][0]["input_seed"].as_u64();
    let x = data::fill(seed.expect("a seed"), (3, 2, 6, 7));
    program.file("x.npy", npy("3, 2, 6, 7", x));
    let run = "run --device cpu --network net.json --parameters 0-network-parameters.safetensors --input x.npy";
    program.right(&format!(
        "{run} --output a.npy --output b.safetensors --output c.npy --chunk 2"
    ));
    program.right(&format!(
        "{run} --output 1.safetensors --output 2.safetensors --output 3.safetensors"
    ));
    for (one, other) in [
        ("a.npy", "1.safetensors"),
        ("b.safetensors", "2.safetensors"),
        ("c.npy", "3.safetensors"),
    ] {
        let same = program.right(&format!("compare {one} {other}"));
        assert!(same.out.contains("equal"), "{same:?}");
    }
    // The measured outputs are saved in a single file.
    let parts = |name: &str| {
        let bytes = fs::read(program.path(name)).expect("a file");
        let (len, rest) = bytes.split_first_chunk().expect("the length of the head");
        let (head, data) = rest.split_at(u64::from_le_bytes(*len) as usize);
        (String::from_utf8_lossy(head).into_owned(), data.to_vec())
    };
    let (head, saved) = parts("0-network-cpu-accurate.safetensors");
    for name in ["sum", "y", "shortcut"] {
        assert!(head.contains(&format!("\"{name}\"")), "{head}");
    }
    let outputs = ["1", "2", "3"].map(|name| parts(&format!("{name}.safetensors")).1);
    assert!(saved == outputs.concat());
    for (files, words) in [
        (
            "--output d.npy",
            "--output is given 1 times, must be once for each of 3 outputs: sum, y, shortcut",
        ),
        (
            "--output d.npy --output d.npy --output e.npy",
            "one --output and another are one file",
        ),
    ] {
        program.run(&format!("{run} {files}")).was_refused(&[words]);
    }
    assert!(!program.names().contains(&"d.npy".to_owned()));
    program.right(&format!("verify --device cpu --network net.json {shape}"));
}

#[test]
fn a_profile_tells_the_time_of_every_region() {
    let program = Program::new();
    // Names with special characters for SVG and terminals.
    let network = NETWORK.replace(r#""y""#, r#""<y\u001b>&""#);
    program.file("net.json", network);
    let profile = "profile --device emulator --network net.json --shape 2,2,6,7 --repeats 3";
    let ran = program.right(&format!("{profile} --svg net.svg --json profile.json"));
    let record: serde_json::Value =
        serde_json::from_str(&program.read("profile.json")).expect("JSON");
    let profile_of = &record["profiles"][0];
    let (regions, launches) = (&profile_of["regions"], &profile_of["launches"]);
    let times = profile_of["launch_times"].as_array().expect("times");
    assert_eq!(launches.as_array().map(Vec::len), Some(times.len()));
    let all: f64 = times
        .iter()
        .filter_map(|time| time["median"].as_f64())
        .sum();
    assert!(
        all > 0.0 && times.iter().all(|time| time["repeats"] == 3),
        "{record}"
    );
    let picture = program.read("net.svg");
    for region in regions.as_array().expect("regions") {
        let name = region["value"].as_str().expect("a name");
        let name = name.replace('\u{1b}', "\\u{1b}");
        assert!(ran.out.contains(&format!("\n  {name} ")), "{name}: {ran:?}");
        let name = name
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        assert!(picture.contains(&name), "{name}: {picture}");
    }
    assert!(picture.starts_with("<svg"), "{picture}");
    let on_stdout = program.right(&format!("{profile} --svg -"));
    assert!(on_stdout.out.starts_with("<svg"), "{on_stdout:?}");
    let emulated = "--device emulator --shape 2,2,6,7";
    for (options, words) in [
        (
            "--device cpu --shape 2,2,6,7",
            "--device: the cpu runs no kernels",
        ),
        (
            &format!("{emulated} --strategy all --svg net.svg"),
            "--svg draws one strategy",
        ),
        (
            &format!("{emulated} --svg net.json"),
            "--svg and --network are one file",
        ),
        (
            &format!("{emulated} --svg a.svg --json a.svg"),
            "--json and --svg are one file",
        ),
        (
            "--device emulator --shape 64,2,1000,1000",
            "give a smaller --shape",
        ),
    ] {
        let ran = program.run(&format!("profile --network net.json {options}"));
        ran.was_refused(&[words]);
    }
}
