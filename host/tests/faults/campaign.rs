//! Every driver call of a program fails once, from opening the device to dropping the last handle.
//!
//! First a program runs, and the calls of each function are counted. Then, for each function and each of its
//! calls, the program runs with only that call failing. It must end without a panic. It must return an error
//! that names the function, or none if the failure loses nothing. It must leave nothing alive except what a
//! process keeps. The same program must then run on that device as before. Loading happens once per device,
//! so the loading part of the program runs on a fresh device for each fault. The whole program runs on a
//! device that has loaded everything.

mod presets;
mod wider;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use convfuse::Error;
use ndarray::ArrayD;

use crate::driver::{Driver, Mode};

const OUT_OF_MEMORY: u32 = 2;
const OPERATING_SYSTEM: u32 = 304;
const ILLEGAL_ADDRESS: u32 = 700;

/// The results of a program.
type Results = convfuse::Result<Vec<ArrayD<f32>>>;

/// A program, and the kind of device that it runs on.
struct Program {
    name: &'static str,
    /// The ordinal modulo 4, whose meaning is in `crates/scripted-driver/src/kind.rs`.
    kind: u32,
    /// Whether the program also uses the device's [`peer`].
    has_peer: bool,
    /// The share of the calls that fail, as an index and a count. A long campaign is split into several
    /// tests, which run concurrently.
    calls: (usize, usize),
    run: Box<dyn Fn(Part, u32) -> Results>,
}

/// Every call fails.
const ALL: (usize, usize) = (0, 1);

/// Another device of the same kind, used only by programs for this device.
fn peer(ordinal: u32) -> u32 {
    ordinal + (1 << 15)
}

/// The part of a program that runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Until everything is loaded that the rest needs, on a fresh device.
    Loading,
    /// The whole program, on a device that has loaded everything.
    Whole,
}

/// Whether a single failure of this function loses nothing that a program needs.
fn is_harmless(name: &str, code: u32) -> bool {
    // Releases in a destructor cannot report errors.
    let gives_back = ["Destroy", "Free", "PopCurrent", "Unload", "Release"];
    if gives_back.iter().any(|verb| name.contains(verb)) {
        return true;
    }
    match name {
        // Without an event, the host waits.
        "cuEventCreate" | "cuEventRecord" | "cuStreamWaitEvent" => true,
        // On release these are called, and then retried. Elsewhere, too, their error is returned.
        "cuCtxGetCurrent" | "cuCtxPushCurrent_v2" | "cuStreamIsCapturing" => true,
        "cuStreamSynchronize" | "cuEventSynchronize" => true,
        // A failed allocation is retried once.
        "cuMemAllocFromPoolAsync" | "cuMemAlloc_v2" => code == OUT_OF_MEMORY,
        _ => false,
    }
}

/// Whether an error tells which call failed.
fn names(error: &Error, name: &str, code: u32) -> bool {
    let short = name.trim_end_matches("_v2");
    match error {
        Error::OutOfMemory { .. } => code == OUT_OF_MEMORY,
        Error::NoDriver { reason } => code == ILLEGAL_ADDRESS || reason.contains(short),
        error if code == ILLEGAL_ADDRESS => error.is_fatal(),
        Error::Driver(error) | Error::Jit { cause: error, .. } => {
            error.code == code && error.call.starts_with(short)
        }
        _ => false,
    }
}

/// The codes with which a call of this function may fail while the context stays usable.
fn passing(name: &str) -> &'static [u32] {
    let verbs = ["Alloc", "Create", "Load", "Retain", "Instantiate"];
    match verbs.iter().any(|verb| name.contains(verb)) {
        true => &[OPERATING_SYSTEM, OUT_OF_MEMORY],
        false => &[OPERATING_SYSTEM],
    }
}

/// A program's part, in the child that has the driver.
#[derive(Clone, Copy)]
struct Runs<'a> {
    script: Driver,
    program: &'a Program,
    part: Part,
}

/// The behaviour of a program without failures.
struct Clean {
    counts: BTreeMap<&'static str, u32>,
    log: String,
    alive: String,
    results: Vec<ArrayD<f32>>,
}

impl Runs<'_> {
    fn run(self, ordinal: u32) -> Results {
        (self.program.run)(self.part, ordinal)
    }

    fn clean(self, ordinal: u32) -> Clean {
        self.script.begin(Mode::AtOnce);
        let results = self.run(ordinal).expect("nothing fails");
        self.script.expect_no_violations();
        Clean {
            counts: self.script.counts(),
            log: self.log(ordinal),
            alive: self.alive(ordinal),
            results,
        }
    }

    /// The log of launches and copies, without launches whose parameters have gaps, which may contain
    /// anything.
    fn log(self, ordinal: u32) -> String {
        let log = self.report(ordinal, |ordinal| self.script.log(ordinal));
        let has_gaps = |line: &str| line.starts_with("copy_strided") || line.starts_with("scale_");
        let whole = log.lines().filter(|line| !has_gaps(line));
        whole.map(|line| format!("{line}\n")).collect()
    }

    fn alive(self, ordinal: u32) -> String {
        self.report(ordinal, |ordinal| self.script.alive(ordinal))
    }

    /// The driver's report about the program's devices.
    fn report(self, ordinal: u32, of: impl Fn(u32) -> String) -> String {
        let peer = self.program.has_peer.then(|| of(peer(ordinal)));
        of(ordinal) + &peer.unwrap_or_default()
    }

    /// Runs the program with one failing call.
    fn fails_once(
        self,
        clean: &Clean,
        ordinal: u32,
        (name, number, code): (&str, u32, u32),
    ) -> Result<(), String> {
        self.script.begin(Mode::AtOnce);
        self.script.fail(name, number, code);
        let is_lost = code == ILLEGAL_ADDRESS;
        match self.run(ordinal) {
            Err(error) if names(&error, name, code) => {}
            Err(error) => return Err(format!("the error is {error}")),
            Ok(results) if !is_lost && results != clean.results => {
                return Err("other results".to_owned());
            }
            Ok(_) if is_harmless(name, code) => {}
            Ok(_) => return Err("no error".to_owned()),
        }
        let violations = self.script.violations();
        let alive = self.alive(ordinal);
        // The process keeps the context, the pool, and loaded modules.
        let kept = ["contexts: ", "pools: ", "modules: "];
        let mut left = alive.lines();
        let leak = match is_lost {
            // Everything in a lost context is gone with it.
            true => left.find(|line| line.contains("stacks")),
            false => left.find(|line| !kept.iter().any(|kept| line.starts_with(kept))),
        };
        if let Some(leak) = leak {
            return Err(format!("left behind are {leak}"));
        }
        if is_lost {
            return Ok(());
        }
        if !violations.is_empty() {
            return Err(violations);
        }
        self.script.begin(Mode::AtOnce);
        let again = self.run(ordinal);
        let again = again.map_err(|error| format!("the next run says {error}"))?;
        if again != clean.results || self.log(ordinal) != clean.log {
            return Err("the next run does something else".to_owned());
        }
        match self.alive(ordinal) {
            alive if alive == clean.alive => Ok(()),
            alive => Err(format!("after the next run are alive\n{alive}")),
        }
    }

    /// Lets each call fail, one run at a time.
    fn all_fail(self) {
        let Program { name, kind, .. } = self.program;
        let mut fresh = 0;
        let mut device = || {
            fresh += u32::from(self.part == Part::Loading);
            4 * fresh + kind
        };
        let clean = self.clean(device());
        let (first, step) = self.program.calls;
        let calls = clean.counts.iter();
        let calls = calls.flat_map(|(&name, &count)| (1..=count).map(move |number| (name, number)));
        let calls: Vec<_> = calls.skip(first).step_by(step).collect();
        let each = |call: &(&'static str, u32), code: u32| (call.0, call.1, code);
        let passing = calls
            .iter()
            .flat_map(|call| passing(call.0).iter().map(|&code| each(call, code)));
        // Failures that end the context come last.
        let fatal = calls.iter().map(|call| each(call, ILLEGAL_ADDRESS));
        let faults: Vec<_> = passing.chain(fatal).collect();
        let complaints = faults.iter().filter_map(|&fault| {
            let (call, number, code) = fault;
            let ordinal = device();
            let failed = catch_unwind(AssertUnwindSafe(|| self.fails_once(&clean, ordinal, fault)));
            let failed = failed.unwrap_or_else(|_| Err("a panic".to_owned())).err()?;
            Some(format!(
                "{name}: call {number} of {call} returns {code}: {failed}"
            ))
        });
        let complaints: Vec<String> = complaints.collect();
        println!("{name}: {} faults", faults.len());
        assert!(complaints.is_empty(), "{}", complaints.join("\n"));
        // A device that was lost does not affect others.
        let last = self.clean(device());
        assert_eq!(last.log, clean.log);
        // Pinned memory and streams of one device that were used by a lost device are left to the driver.
        let has_peer = self.program.has_peer;
        assert!(has_peer || last.alive == clean.alive, "{}", last.alive);
    }
}

/// Runs the campaign in the child that has the driver. The whole program uses a warm device, on which a run
/// does the same as the first.
fn every_call_in(script: Driver, program: &Program) {
    // Panics are reported by their consequences.
    std::panic::set_hook(Box::new(|info| println!("{info}")));
    let runs = |part| Runs {
        script,
        program,
        part,
    };
    runs(Part::Loading).all_fail();
    let whole = runs(Part::Whole);
    let [first, second] = [(); 2].map(|()| whole.clean(program.kind));
    assert!(first.log.lines().count() > 5, "{}", first.log);
    assert_eq!((first.log, first.alive), (second.log, second.alive));
    assert_eq!(first.results, second.results);
    whole.all_fail();
}
