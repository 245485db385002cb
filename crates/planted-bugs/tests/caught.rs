//! Do the checks check? The kernels are copied with all the mistakes of `bugs.rs` beside what is right, and
//! the checks of `kernels-gpu` are run on the copy with one mistake at a time: each is noticed, by a detector
//! of the emulator or by a wrong result. With none, the same checks find nothing. `build.rs` makes the copy
//! out of the kernels' source, so that it never falls behind.

use std::cell::Cell;
use std::collections::BTreeMap;

use cuda_std::prelude::*;
use launch_config::LaunchShape;
use libtest_mimic::{Arguments, Failed, Trial};

include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

use checks::convolved::{Bf16x3, F16x2, ScaledF16};
use checks::*;
use cuda_std::f16;

type Check = fn(&Run) -> Outcome;

macro_rules! bugs {
    ($bugs:ident: $($file:literal: $($name:ident, $check:expr, $right:literal => $wrong:literal;)*)*) => {
        /// Of each bug the name, what notices it, and what that is called.
        const $bugs: &[(&str, Check, &str)] =
            &[$($((stringify!($name), $check, stringify!($check)),)*)*];
    };
}

include!("../bugs.rs");
include!("../warp_specialized_bugs.rs");
include!("../channels_last_bugs.rs");
include!("../ping_pong_bugs.rs");
include!("../split_bugs.rs");
include!("../nhwc_bugs.rs");
include!("../written_bugs.rs");
include!("../hardware_bugs.rs");
include!("../gemm_bugs.rs");

/// No bug's number.
const NONE: u32 = u32::MAX;

thread_local! {
    static PLANTED: Cell<u32> = const { Cell::new(NONE) };
}

/// Whether kernels are to do what the bug of this number does. The copy asks this.
fn planted(bug: u32) -> bool {
    PLANTED.get() == bug
}

/// Plants a bug in all kernels that this device runs from now on: it runs them on a thread of its own.
///
/// # Safety
/// None is needed.
#[kernel(max_threads = 1)]
unsafe fn plant(bug: u32) {
    PLANTED.set(bug);
}

/// What `check` comes to with a bug.
fn outcome(check: Check, bug: u32, seed: Option<u64>) -> Outcome {
    let run = Run::new(seed);
    let one = LaunchShape {
        grid: [1; 3],
        block: [1; 3],
        shared_bytes: 0,
        cluster_blocks: 1,
    };
    run.launch(&PLANT, &[], Some(one), (bug,))?;
    check(&run)
}

fn is_noticed(check: Check, bug: u32) -> Result<(), Failed> {
    let mut seeds = [None, Some(1)].into_iter();
    if seeds.all(|seed| outcome(check, bug, seed).is_ok()) {
        return Err("not noticed".into());
    }
    Ok(())
}

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    let mut checks = BTreeMap::new();
    let bugs = [
        BUGS,
        WARP_SPECIALIZED_BUGS,
        CHANNELS_LAST_BUGS,
        PING_PONG_BUGS,
        SPLIT_BUGS,
        NHWC_BUGS,
        WRITTEN_BUGS,
        HARDWARE_BUGS,
        GEMM_BUGS,
    ]
    .into_iter()
    .flatten();
    for (number, &(name, check, called)) in (0..).zip(bugs) {
        trials.push(Trial::test(format!("notices::{name}"), move || {
            is_noticed(check, number)
        }));
        checks.insert(called, check);
    }
    // Continuous integration has run the same checks on the kernels themselves, in the same order.
    let is_done = std::env::var("CONVFUSE_TEST_ORDER").is_ok_and(|order| order == "rest");
    for (called, check) in checks.into_iter().filter(|_| !is_done) {
        let name = format!("finds_nothing_without::{}", called.replace(' ', ""));
        trials.push(Trial::test(name, move || Ok(outcome(check, NONE, None)?)));
    }
    libtest_mimic::run(&arguments, trials).exit();
}
