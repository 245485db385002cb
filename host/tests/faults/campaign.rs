//! Every call of the driver that a program makes, from opening the device to dropping the last handle, fails once.
//!
//! A program is run, which counts the calls of each function. Then, for each function and each of its calls, it is run
//! with that one call failing. It must end without a panic, with an error that names the function or with none where
//! nothing is lost by the failure, and leave nothing alive but what a process keeps; and the same program must then do on
//! that device what it did before. Loading happens once a device, so the part of the program that loads is run on a fresh
//! one for each fault, and the whole on one that has loaded all.

use std::panic::{AssertUnwindSafe, catch_unwind};

use convfuse::chain::Chain;
use convfuse::chain::presets::{KernelBench79, KernelBench85};
use convfuse::{Device, Error, Model, Options, PinnedArray, Tensor, data};
use ndarray::{ArrayD, IxDyn};

use crate::driver::{Script, Work, scripted};

const OUT_OF_MEMORY: u32 = 2;
const OPERATING_SYSTEM: u32 = 304;
const ILLEGAL_ADDRESS: u32 = 700;

/// What is run, and on which kind of device.
struct Program {
    name: &'static str,
    chain: Chain,
    shape: &'static [usize],
    /// The ordinal modulo 4: `crates/scripted-driver/src/context.rs` says what it means.
    kind: u32,
}

/// Both presets by their one-launch kernels, one of them without pools of memory and a linker, and by those for any shape.
fn programs() -> [Program; 4] {
    let preset_85 = KernelBench85::default().chain().expect("a chain");
    let preset_79 = KernelBench79::default().chain().expect("a chain");
    [
        Program {
            name: "85 in one launch, from PTX",
            chain: preset_85.clone(),
            shape: &[1, 8, 10, 128],
            kind: 0,
        },
        Program {
            name: "79 in one launch, from machine code",
            chain: preset_79.clone(),
            shape: &[1, 3, 5, 6, 32],
            kind: 3,
        },
        Program {
            name: "85 for any shape, from machine code",
            chain: preset_85,
            shape: &[2, 8, 11, 14],
            kind: 1,
        },
        Program {
            name: "79 for any shape, without pools and linker",
            chain: preset_79,
            shape: &[2, 3, 5, 6, 7],
            kind: 2,
        },
    ]
}

/// How much of a program is run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Until all is loaded that the rest needs, on a device that is fresh.
    Loading,
    /// All of it, on a device that has loaded everything.
    Whole,
}

/// Opens the device, and uses what there is: copies both ways, a plan, a single run, timing, a graph.
fn run(program: &Program, part: Part, ordinal: u32) -> convfuse::Result<Vec<ArrayD<f32>>> {
    let device = Device::gpu(ordinal)?;
    let (home, other) = (device.stream()?, device.stream()?);
    let model = Model::init(&home, &program.chain, 7)?;
    let values: ArrayD<f32> = data::fill(1, IxDyn(program.shape));
    let foreign = Tensor::from_array(&other, &values)?;
    let mut plan = model.plan(&home, program.shape, &Options::default())?;
    if part == Part::Loading {
        return Ok(Vec::new());
    }
    let mut y = plan.output()?;
    let start = home.record()?;
    plan.execute(&foreign, &mut y)?;
    let mut results = vec![y.to_array::<f32>()?];
    let mut pinned = PinnedArray::<f32>::zeros(&device, program.shape)?;
    pinned.view_mut()?.assign(&values);
    let x = Tensor::from_pinned(&home, &pinned)?;
    plan.execute(&x, &mut y)?;
    let mut copied = PinnedArray::<f32>::zeros(&device, y.shape())?;
    y.on(&other)?.copy_to_pinned(&mut copied)?;
    plan.execute(&x, &mut y)?;
    results.push(copied.view()?.to_owned());
    results.push(model.forward(&foreign)?.to_array::<f32>()?);
    results.push(model.forward_array(&values)?);
    home.record()?.since(&start)?;
    let mut captured = plan.capture(x)?;
    captured.write(&values)?;
    captured.replay()?;
    captured.replay()?;
    results.push(captured.output().to_array::<f32>()?);
    drop((captured, y));
    device.trim_memory()?;
    Ok(results)
}

/// The same where a call may fail: a panic is a failure of the test.
fn attempt(
    program: &Program,
    part: Part,
    ordinal: u32,
    what: &str,
) -> convfuse::Result<Vec<ArrayD<f32>>> {
    let attempt = catch_unwind(AssertUnwindSafe(|| run(program, part, ordinal)));
    attempt.unwrap_or_else(|_| panic!("{what}: a panic"))
}

/// Whether nothing that a program wants is lost when this function fails once.
fn is_harmless(name: &str, code: u32) -> bool {
    // What is given back when a handle is dropped has nobody to report to.
    let gives_back = ["Destroy", "Free", "PopCurrent", "Unload", "Release"];
    if gives_back.iter().any(|verb| name.contains(verb)) {
        return true;
    }
    match name {
        // What has no event is waited for on the host.
        "cuEventCreate" | "cuEventRecord" | "cuStreamWaitEvent" => true,
        // Called when something is given back, and then once more; elsewhere too, where the error is returned.
        "cuCtxGetCurrent" | "cuCtxPushCurrent_v2" | "cuStreamIsCapturing" => true,
        "cuStreamSynchronize" | "cuEventSynchronize" => true,
        // Memory that was short is asked for once more.
        "cuMemAllocFromPoolAsync" | "cuMemAlloc_v2" => code == OUT_OF_MEMORY,
        _ => false,
    }
}

/// Whether an error is one that says what failed.
fn names(error: &Error, name: &str, code: u32) -> bool {
    let short = name.trim_end_matches("_v2");
    match error {
        Error::OutOfMemory { .. } => code == OUT_OF_MEMORY,
        Error::NoDriver { reason } => reason.contains(short),
        Error::Driver(error) | Error::Jit { cause: error, .. } => {
            error.code == code && error.call.starts_with(short)
        }
        _ => false,
    }
}

/// What a program does where nothing fails.
struct Clean {
    counts: Vec<(String, u32)>,
    log: String,
    alive: String,
    results: Vec<ArrayD<f32>>,
}

impl Clean {
    fn of(script: &Script, program: &Program, part: Part, ordinal: u32) -> Clean {
        script.begin(Work::AtOnce);
        let results = run(program, part, ordinal).expect("nothing fails");
        script.expect_no_violations();
        Clean {
            counts: script.counts(),
            log: script.log(ordinal),
            alive: script.alive(ordinal),
            results,
        }
    }
}

/// One call fails.
fn fails_once(
    script: &Script,
    program: &Program,
    part: Part,
    clean: &Clean,
    ordinal: u32,
    (name, number, code): (&str, u32, u32),
) -> Result<(), String> {
    let what = format!("{}: call {number} of {name} returns {code}", program.name);
    script.begin(Work::AtOnce);
    script.fail(name, number, code);
    match attempt(program, part, ordinal, &what) {
        Err(error) if names(&error, name, code) => {}
        Err(error) => return Err(format!("{what}: the error is {error}")),
        Ok(results) if results != clean.results => return Err(format!("{what}: other results")),
        Ok(_) if is_harmless(name, code) => {}
        Ok(_) => return Err(format!("{what}: no error")),
    }
    let violations = script.violations();
    if !violations.is_empty() {
        return Err(format!("{what}: {violations}"));
    }
    // Kept by the process are the context, the pool, and modules that were loaded.
    let kept = ["contexts: ", "pools: ", "modules: "];
    let alive = script.alive(ordinal);
    let leak = |line: &&str| !kept.iter().any(|kept| line.starts_with(kept));
    if let Some(leak) = alive.lines().find(leak) {
        return Err(format!("{what}: left behind are {leak}"));
    }
    script.begin(Work::AtOnce);
    let again = attempt(program, part, ordinal, &what);
    let again = again.map_err(|error| format!("{what}: the next run says {error}"))?;
    if again != clean.results || script.log(ordinal) != clean.log {
        return Err(format!("{what}: the next run does something else"));
    }
    let alive = script.alive(ordinal);
    if alive != clean.alive {
        return Err(format!("{what}: after the next run are alive\n{alive}"));
    }
    Ok(())
}

/// One call ends the context.
fn is_fatal_once(
    script: &Script,
    program: &Program,
    part: Part,
    ordinal: u32,
    name: &str,
    number: u32,
) -> Result<(), String> {
    let what = format!(
        "{}: call {number} of {name} finds the device lost",
        program.name
    );
    script.begin(Work::AtOnce);
    script.fail(name, number, ILLEGAL_ADDRESS);
    match attempt(program, part, ordinal, &what) {
        Err(error) if error.is_fatal() || matches!(error, Error::NoDriver { .. }) => {}
        Err(error) => return Err(format!("{what}: the error is {error}")),
        Ok(_) if is_harmless(name, ILLEGAL_ADDRESS) => {}
        Ok(_) => return Err(format!("{what}: no error")),
    }
    let alive = script.alive(ordinal);
    if alive.contains("stacks") {
        return Err(format!("{what}: alive are\n{alive}"));
    }
    Ok(())
}

/// Whether running out of memory is something that a call can do.
fn may_run_out(name: &str) -> bool {
    let verbs = ["Alloc", "Create", "Load", "Retain", "Instantiate"];
    verbs.iter().any(|verb| name.contains(verb))
}

fn every_call_of(script: &Script, program: &Program, part: Part) {
    let mut fresh = 0;
    let mut device = || {
        fresh += u32::from(part == Part::Loading);
        4 * fresh + program.kind
    };
    let clean = Clean::of(script, program, part, device());
    let mut complaints = Vec::new();
    let mut faults = 0;
    for (name, count) in &clean.counts {
        for number in 1..=*count {
            let mut codes = vec![OPERATING_SYSTEM];
            codes.extend(may_run_out(name).then_some(OUT_OF_MEMORY));
            for code in codes {
                let fault = (name.as_str(), number, code);
                let failed = fails_once(script, program, part, &clean, device(), fault);
                complaints.extend(failed.err());
                faults += 1;
            }
            let lost = is_fatal_once(script, program, part, device(), name, number);
            complaints.extend(lost.err());
            faults += 1;
        }
    }
    println!("{}: {faults} faults", program.name);
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    // What was lost elsewhere is nobody else's loss.
    let last = Clean::of(script, program, part, device());
    assert_eq!((last.log, last.alive), (clean.log, clean.alive));
}

fn every_call_of_program(index: usize, test: &str) {
    let Some(script) = scripted(&format!("campaign::{test}")) else {
        return;
    };
    // Panics are told by what they lead to.
    std::panic::set_hook(Box::new(|info| println!("{info}")));
    let program = &programs()[index];
    every_call_of(&script, program, Part::Loading);
    Clean::of(&script, program, Part::Whole, program.kind);
    every_call_of(&script, program, Part::Whole);
}

#[test]
fn every_call_may_fail_in_one_launch_from_ptx() {
    every_call_of_program(0, "every_call_may_fail_in_one_launch_from_ptx");
}

#[test]
fn every_call_may_fail_in_one_launch_from_machine_code() {
    every_call_of_program(1, "every_call_may_fail_in_one_launch_from_machine_code");
}

#[test]
fn every_call_may_fail_for_any_shape() {
    every_call_of_program(2, "every_call_may_fail_for_any_shape");
}

#[test]
fn every_call_may_fail_without_pools() {
    every_call_of_program(3, "every_call_may_fail_without_pools");
}

#[test]
fn a_run_on_a_warm_device_does_what_the_first_did() {
    let Some(script) = scripted("campaign::a_run_on_a_warm_device_does_what_the_first_did") else {
        return;
    };
    for (index, program) in programs().iter().enumerate() {
        let ordinal = 4 * index as u32 + program.kind;
        let first = Clean::of(&script, program, Part::Whole, ordinal);
        println!(
            "{}: {:?}\n{}{}",
            program.name, first.counts, first.log, first.alive
        );
        let second = Clean::of(&script, program, Part::Whole, ordinal);
        assert!(first.log.lines().count() > 5, "{}", first.log);
        assert_eq!((&first.log, &first.alive), (&second.log, &second.alive));
        assert_eq!(first.results, second.results);
    }
}
