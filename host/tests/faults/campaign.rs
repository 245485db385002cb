//! Every call of the driver that a program makes, from opening the device to dropping the last handle, fails
//! once.
//!
//! A program is run, which counts the calls of each function. Then, for each function and each of its calls,
//! it is run with that one call failing. It must end without a panic, with an error that names the function
//! or with none where nothing is lost by the failure, and leave nothing alive but what a process keeps; and
//! the same program must then do on that device what it did before. Loading happens once a device, so the
//! part of the program that loads is run on a fresh one for each fault, and the whole on one that has loaded
//! all.

mod presets;
mod wider;

use std::panic::{AssertUnwindSafe, catch_unwind};

use convfuse::Error;
use ndarray::ArrayD;

use crate::driver::{Script, Work};

const OUT_OF_MEMORY: u32 = 2;
const OPERATING_SYSTEM: u32 = 304;
const ILLEGAL_ADDRESS: u32 = 700;

/// What a program computes.
type Results = convfuse::Result<Vec<ArrayD<f32>>>;

/// What is run, and on which kind of device.
struct Program {
    name: &'static str,
    /// The ordinal modulo 4: `crates/scripted-driver/src/context.rs` says what it means.
    kind: u32,
    /// Whether it uses the device's [`peer`] as well.
    has_peer: bool,
    /// Which calls fail.
    calls: Calls,
    run: Box<dyn Fn(Part, u32) -> Results>,
}

/// Which of a program's calls fail: where that takes long it is the work of two tests, which run at the same
/// time.
#[derive(Clone, Copy)]
enum Calls {
    All,
    /// Every other one, from the first.
    First,
    /// Those between.
    Second,
}

impl Calls {
    /// Those of `counts`: names and numbers.
    fn of(self, counts: &[(String, u32)]) -> Vec<(&str, u32)> {
        let all = counts
            .iter()
            .flat_map(|(name, count)| (1..=*count).map(move |number| (name.as_str(), number)));
        match self {
            Calls::All => all.collect(),
            Calls::First => all.step_by(2).collect(),
            Calls::Second => all.skip(1).step_by(2).collect(),
        }
    }
}

/// Another device of the same kind, which no program but one for this device uses.
fn peer(ordinal: u32) -> u32 {
    ordinal + (1 << 15)
}

impl Program {
    /// Launches and copies, but for those whose parameters have gaps, in which there may be anything.
    fn log(&self, script: &Script, ordinal: u32) -> String {
        let log = self.report(ordinal, |ordinal| script.log(ordinal));
        let has_gaps = |line: &str| {
            ["copy_strided", "scale_"]
                .iter()
                .any(|name| line.starts_with(name))
        };
        let whole = log.lines().filter(|line| !has_gaps(line));
        whole.map(|line| format!("{line}\n")).collect()
    }

    /// What the driver reports of its devices.
    fn report(&self, ordinal: u32, of: impl Fn(u32) -> String) -> String {
        let peer = self.has_peer.then(|| of(peer(ordinal)));
        of(ordinal) + &peer.unwrap_or_default()
    }
}

/// How much of a program is run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Until all is loaded that the rest needs, on a device that is fresh.
    Loading,
    /// All of it, on a device that has loaded everything.
    Whole,
}

/// The same where a call may fail: a panic is a failure of the test.
fn attempt(program: &Program, part: Part, ordinal: u32, what: &str) -> Results {
    let attempt = catch_unwind(AssertUnwindSafe(|| (program.run)(part, ordinal)));
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
        // Called when something is given back, and then once more; elsewhere too, where the error is
        // returned.
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
        let results = (program.run)(part, ordinal).expect("nothing fails");
        script.expect_no_violations();
        Clean {
            counts: script.counts(),
            log: program.log(script, ordinal),
            alive: program.report(ordinal, |ordinal| script.alive(ordinal)),
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
    let alive = program.report(ordinal, |ordinal| script.alive(ordinal));
    let leak = |line: &&str| !kept.iter().any(|kept| line.starts_with(kept));
    if let Some(leak) = alive.lines().find(leak) {
        return Err(format!("{what}: left behind are {leak}"));
    }
    script.begin(Work::AtOnce);
    let again = attempt(program, part, ordinal, &what);
    let again = again.map_err(|error| format!("{what}: the next run says {error}"))?;
    if again != clean.results || program.log(script, ordinal) != clean.log {
        return Err(format!("{what}: the next run does something else"));
    }
    let alive = program.report(ordinal, |ordinal| script.alive(ordinal));
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
    let alive = program.report(ordinal, |ordinal| script.alive(ordinal));
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
    let calls = program.calls.of(&clean.counts);
    for &(name, number) in &calls {
        let mut codes = vec![OPERATING_SYSTEM];
        codes.extend(may_run_out(name).then_some(OUT_OF_MEMORY));
        for code in codes {
            let fault = (name, number, code);
            let failed = fails_once(script, program, part, &clean, device(), fault);
            complaints.extend(failed.err());
            faults += 1;
        }
    }
    for (name, number) in calls {
        let lost = is_fatal_once(script, program, part, device(), name, number);
        complaints.extend(lost.err());
        faults += 1;
    }
    println!("{}: {faults} faults", program.name);
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    // What was lost elsewhere is nobody else's loss.
    let last = Clean::of(script, program, part, device());
    assert_eq!(last.log, clean.log);
    // Pinned memory and streams of one device that a lost one used are left to the driver.
    assert!(
        program.has_peer || last.alive == clean.alive,
        "{}",
        last.alive
    );
}

/// The same in the child that has the driver, on a device that is warm for the whole.
fn every_call_in(script: &Script, program: &Program) {
    // Panics are told by what they lead to.
    std::panic::set_hook(Box::new(|info| println!("{info}")));
    every_call_of(script, program, Part::Loading);
    Clean::of(script, program, Part::Whole, program.kind);
    every_call_of(script, program, Part::Whole);
}
