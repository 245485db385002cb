//! `run`: input and output files of tensors.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use convfuse::data;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use crate::program::{Program, npy, system};

const CHAIN: &str = r#"{"in_channels": 2, "layers": [
    {"conv2d": {"name": "conv", "out_channels": 4, "kernel_size": 3}},
    {"group_norm": {"name": "norm", "num_groups": 2}}, {"relu": {}}]}"#;

/// A folder with a chain, its parameters, an input of seven samples, and the output that `bench` verified.
fn prepared() -> Program {
    let program = Program::new();
    program.file("chain.json", CHAIN);
    let ran =
        program.right("bench --device cpu --chain chain.json --shape 7,2,6,5 --save . --json");
    let seed = ran.json()["problems"][0]["input_seed"]
        .as_u64()
        .expect("a seed");
    let x = data::fill(seed, (7, 2, 6, 5));
    program.file("x.npy", npy("7, 2, 6, 5", x));
    program
}

const RUN: &str =
    "run --device cpu --chain chain.json --parameters 0-chain-parameters.safetensors --input x.npy";
const WANTED: &str = "0-chain-cpu-accurate.safetensors";

#[test]
fn a_run_gives_what_bench_gives_in_chunks_of_any_size() {
    let program = prepared();
    for (chunk, output) in [
        ("", "y.safetensors"),
        ("--chunk 3", "z.safetensors"),
        ("--chunk 1", "y.npy"),
    ] {
        program.right(&format!("{RUN} {chunk} --output {output}"));
        let same = program.right(&format!("compare {output} {WANTED}"));
        assert!(same.out.contains("equal"), "{same:?}");
    }
    assert_eq!(
        fs::read(program.path("y.safetensors")).expect("a file"),
        fs::read(program.path("z.safetensors")).expect("a file")
    );
    let mut command = program.command(&format!("{RUN} --output -"));
    let output = command.output().expect("the program");
    assert_eq!(
        output.stdout,
        fs::read(program.path("y.safetensors")).expect("a file")
    );
    program.right(&format!(
        "{RUN} --dtype f16 --output half.npy --json run.json"
    ));
    assert!(program.read("run.json").contains("\"kind\": \"run\""));
    program.right(&format!("compare half.npy {WANTED} --atol 0.02"));
    let far = program.run(&format!("compare half.npy {WANTED} --json"));
    assert_eq!((far.code, &far.json()["status"]), (Some(1), &1.into()));
    assert!(far.json()["tensors"][0]["beyond"].as_u64() > Some(0));
}

/// Both file formats contain the same values, for every element type.
#[test]
fn a_run_writes_the_same_values_in_every_format() {
    let program = prepared();
    for dtype in ["f32", "f16", "bf16"] {
        for output in ["y.safetensors", "y.npy"] {
            program.right(&format!("{RUN} --dtype {dtype} --output {output}"));
        }
        let same = program.run("compare y.safetensors y.npy");
        assert_eq!(same.code, Some(0), "{dtype}: {same:?}");
    }
}

#[test]
fn a_run_takes_a_block_of_a_checkpoint() {
    let program = prepared();
    let parameters = "0-chain-parameters.safetensors";
    let bytes = fs::read(program.path(parameters)).expect("a file");
    let block = SafeTensors::deserialize(&bytes).expect("a file of tensors");
    let named = |(name, view)| (format!("down.{name}"), view);
    let mut network: Vec<_> = block.iter().map(named).collect();
    let steps = TensorView::new(Dtype::I64, vec![1], &[0; 8]);
    network.push(("down.steps".to_owned(), steps.expect("a number")));
    let file = safetensors::serialize(network, None).expect("a file of tensors");
    program.file("network.safetensors", file);
    let run = RUN.replace(parameters, "network.safetensors") + " --output y.npy";
    program.run(&run).was_refused(&[
        "network.safetensors: missing: conv.weight of shape [4, 2, 3, 3], conv.bias",
        "with the prefix down. all are there",
        "given: down.conv.bias, down.conv.weight, ",
    ]);
    program
        .run(&format!("{run} --prefix down."))
        .was_refused(&["down.steps: given, but the model has no use for it"]);
    for names in [
        "--prefix down.",
        "--rename down=",
        "--rename down.conv=conv --rename down.norm=norm",
    ] {
        program.right(&format!("{run} {names} --not-strict"));
        let same = program.run(&format!("compare y.npy {WANTED}"));
        assert!(same.out.contains("equal"), "{same:?}");
    }
    let ran = program.run(&format!("{run} --rename down"));
    assert_eq!(ran.code, Some(2));
    assert!(
        ran.err.contains("rename is down, must be FROM=TO"),
        "{ran:?}"
    );
    program.file(
        "bare.json",
        CHAIN.replace("\"kernel_size\"", "\"bias\": false, \"kernel_size\""),
    );
    let bare = run.replace("chain.json", "bare.json");
    program
        .run(&format!("{bare} --prefix down. --not-strict"))
        .was_refused(&["down.conv.bias: layer 0, conv2d, takes it only with \"bias\": true"]);
}

#[test]
fn a_chain_without_parameters_needs_no_file_of_them() {
    let program = prepared();
    program.file(
        "pool.json",
        r#"{"in_channels": 2, "layers": [{"max_pool2d": {"kernel_size": 2}}]}"#,
    );
    let run = "run --device cpu --input x.npy --output y.npy --chain";
    let ran = program.right(&format!("{run} pool.json"));
    assert!(ran.out.contains("[7, 2, 6, 5] to [7, 2, 3, 2]"), "{ran:?}");
    program
        .run(&format!("{run} chain.json"))
        .was_refused(&["--parameters is not given: missing: conv.weight of shape [4, 2, 3, 3], "]);
    let ran = program.run(&format!("{run} pool.json --not-strict"));
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("--parameters"), "{ran:?}");
}

#[test]
fn what_does_not_fit_is_refused_before_it_runs() {
    let program = prepared();
    program.file("narrow.npy", npy("1, 3, 6, 5", [0.0; 90]));
    program.file("short.npy", &npy("1, 2, 6, 5", [0.0; 60])[..300]);
    program.file("huge.npy", npy("18446744073709551615, 2, 6, 5", []));
    program.pipe("pipe.npy");
    let with = |option: &str, value: &str| {
        let arguments = RUN.replace(
            &format!(
                "--{option} {}",
                match option {
                    "input" => "x.npy",
                    _ => "0-chain-parameters.safetensors",
                }
            ),
            &format!("--{option} {value}"),
        );
        program.run(&format!("{arguments} --output y.npy"))
    };
    with("input", "narrow.npy").was_refused(&["narrow.npy: layer 0: conv2d: "]);
    with("input", "short.npy").was_refused(&["short.npy: is no whole safetensors or .npy file"]);
    with("input", "huge.npy").was_refused(&["huge.npy: is no whole"]);
    with("input", "pipe.npy").was_refused(&["pipe.npy: is a pipe, must be a file"]);
    with("input", WANTED).was_refused(&[WANTED, "layer 0: conv2d: "]);
    with("parameters", WANTED).was_refused(&["missing: conv.weight of shape"]);
    program.file("many.npz", "PK\x03\x04, and so on");
    with("input", "many.npz").was_refused(&["many.npz: ", "is an archive, as .npz is"]);
    with("parameters", "many.npz")
        .was_refused(&["many.npz: is a zip archive, as torch.save and numpy.savez write"]);
    with("parameters", "x.npy").was_refused(&["x.npy: is one array of NumPy, .npy, must be"]);
    with("parameters", "chain.json").was_refused(&["chain.json: is no index of safetensors files"]);
    let name = program.run(&format!("{RUN} --output y.txt"));
    name.was_refused(&["y.txt: must end with .safetensors or .npy"]);
    assert!(!program.names().iter().any(|name| name.starts_with('y')));
    let weights = "0-chain-parameters.safetensors";
    let own = program.run(&format!("{RUN} --output {weights}"));
    own.was_refused(&["--output and --parameters are one file"]);
    for (output, record) in [("y.npy", "./y.npy"), ("-", "/dev/stdout")] {
        let one = program.run(&format!("{RUN} --output {output} --json {record}"));
        one.was_refused(&["--json and --output are one file"]);
    }
    std::os::unix::fs::symlink("chain.json", program.path("link.json")).expect("a link");
    let own = program.run("bench --device cpu --chain chain.json --shape 1,2,6,6 --json link.json");
    own.was_refused(&["--json and --chain are one file"]);
}

#[test]
fn heads_of_arrays_say_each_thing_once() {
    let program = prepared();
    let whole = fs::read(program.path("x.npy")).expect("a file");
    // Replaces blanks after the dictionary, to keep all lengths.
    let with = |from: &str, to: &str| {
        let mut head = whole[10..128].to_vec();
        let at = head
            .windows(from.len())
            .position(|found| found == from.as_bytes());
        let at = at.expect("a part of the head");
        head.splice(at..at + from.len(), to.bytes());
        head.truncate(head.trim_ascii_end().len());
        head.resize(117, b' ');
        head.push(b'\n');
        program.file("x.npy", [&whole[..10], &head, &whole[128..]].concat());
        program.run(&format!("{RUN} --output y.npy"))
    };
    for (from, to) in [
        ("'<f4'", "\"<f4\""),
        (", }", "}"),
        ("{", "  {"),
        (": ", ":"),
    ] {
        let ran = with(from, to);
        assert_eq!(ran.code, Some(0), "{from}: {ran:?}");
    }
    for (from, to, words) in [
        (", }", "", "no dictionary"),
        (", }", ", 'shape': (7, 2, 6, 5)}", "duplicate field `shape`"),
        (", }", ", 'more': 1}", "unknown field `more`"),
        (
            "'fortran_order': False, ",
            "",
            "missing field `fortran_order`",
        ),
        (", }", ", }}", "no dictionary"),
        (", 'shape'", " 'shape'", "no dictionary"),
        ("'<f4'", "[('x', '<f4')]", "must be f8, f4 or f2"),
        ("'<f4'", "'|O'", "its elements are |O, must be f8, f4 or f2"),
        (
            "'<f4'",
            "'>i4'",
            "its elements are >i4, must be f8, f4 or f2",
        ),
        ("'<f4'", "''", "its elements are , must be f8, f4 or f2"),
        ("(7, 2, 6, 5)", "[7, 2, 6, 5]", "shape a tuple"),
    ] {
        with(from, to).was_refused(&["x.npy: ", words]);
    }
    for version in [[4, 0], [0, 0], [1, 1]] {
        program.file("x.npy", [&whole[..6], &version, &whole[8..]].concat());
        let ran = program.run(&format!("{RUN} --output y.npy"));
        ran.was_refused(&["x.npy: ", "must be 1.0 to 3.0"]);
    }
}

/// The byte order and memory order of a NumPy file do not change the result.
#[test]
fn arrays_may_be_in_fortran_order_and_big_endian() {
    let program = prepared();
    program.right(&format!("{RUN} --output y.npy"));
    let whole = fs::read(program.path("x.npy")).expect("a file");
    let (head, data) = whole.split_at(128);
    let head = String::from_utf8_lossy(&head[10..]).into_owned();
    let values: Vec<f32> = data
        .chunks_exact(4)
        .map(|bytes| f32::from_le_bytes(bytes.try_into().expect("four bytes")))
        .collect();
    let array = ndarray::Array4::from_shape_vec((7, 2, 6, 5), values).expect("as many");
    // Fortran order is the row-major order of the reversed axes.
    let turned: Vec<f32> = array.t().iter().copied().collect();
    for (descr, order) in [
        ("<f4", "True "),
        (">f4", "True "),
        (">f4", "False"),
        (">f8", "True "),
    ] {
        let values = if order == "False" {
            array.iter().copied().collect()
        } else {
            turned.clone()
        };
        let bytes = values.iter().flat_map(|&value| match descr {
            "<f4" => value.to_le_bytes().to_vec(),
            ">f4" => value.to_be_bytes().to_vec(),
            _ => f64::from(value).to_be_bytes().to_vec(),
        });
        let head = head.replace("<f4", descr).replace("False", order);
        let file = [&whole[..10], head.as_bytes()].concat();
        program.file("x.npy", file.into_iter().chain(bytes).collect::<Vec<u8>>());
        program.right(&format!("{RUN} --chunk 3 --output z.npy"));
        let same = program.right("compare z.npy y.npy");
        assert!(same.out.contains("equal"), "{descr} {order}: {same:?}");
    }
}

#[test]
fn an_ended_run_leaves_the_output_of_before() {
    let program = prepared();
    // Enough samples for minutes, one at a time. The input file is sparse.
    let samples = 2_000_000;
    program.file("x.npy", npy(&format!("{samples}, 2, 6, 5"), []));
    let file = fs::File::options()
        .write(true)
        .open(program.path("x.npy"))
        .expect("a file");
    file.set_len(128 + samples * 240).expect("holes");
    program.file("y.npy", "before");
    let is_half = || program.names().iter().any(|name| name.ends_with(".tmp"));
    // A signal that is ignored in the tests, for example by `nohup`, is also ignored in the program.
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = u64::from_str_radix(ignored.expect("a mask").trim(), 16).expect("a number");
    let is_ignored = |number: i32| number != 2 && ignored >> (number - 1) & 1 == 1;
    let signals = [
        ("INT", 2),
        ("HUP", 1),
        ("QUIT", 3),
        ("XCPU", 24),
        ("USR1", 10),
    ];
    let signals = signals
        .into_iter()
        .filter(|(_, number)| !is_ignored(*number));
    for (signal, number) in signals {
        let mut command = program.command(&format!("{RUN} --output y.npy --chunk 1"));
        let mut running = command.stdout(Stdio::null()).spawn().expect("the program");
        while !is_half() {
            std::thread::yield_now();
        }
        let id = running.id().to_string();
        system("kill", &["-s".as_ref(), signal.as_ref(), id.as_ref()]);
        let status = running.wait().expect("the program");
        assert_eq!(status.signal(), Some(number), "{signal}: {status:?}");
        assert_eq!(program.read("y.npy"), "before");
        assert!(!is_half(), "{signal}: {:?}", program.names());
    }
}

#[test]
fn a_signal_that_is_turned_off_ends_nothing() {
    let program = prepared();
    // As with `nohup`. The signals are sent to a process that then becomes the program.
    let send = "(for i in 1 2 3 4 5 6 7 8 9; do kill -HUP $$; sleep 0.01; done) &";
    let run = format!("trap '' HUP; {send} exec \"$0\" {RUN} --output y.npy");
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &run, env!("CARGO_BIN_EXE_convfuse")]);
    command.current_dir(program.path("")).stdout(Stdio::null());
    let status = command.status().expect("a shell");
    assert_eq!(status.code(), Some(0), "{status:?}");
}
