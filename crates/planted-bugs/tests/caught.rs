//! Tests that the kernels' checks detect planted bugs. `build.rs` copies the kernels' current source with
//! all bugs of `bugs.rs`. The checks of `kernels-gpu` run on the copy with one bug at a time: a detector of
//! the emulator or a wrong result must reveal each. Without a bug, the same checks must find nothing.

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

/// A bug's name, the check that detects it, and the check's name.
type Bug = (&'static str, Check, &'static str);

macro_rules! bugs {
    ($bugs:ident: $($file:literal: $($name:ident, $check:expr, $right:literal => $wrong:literal;)*)*) => {
        const $bugs: &[Bug] = &[$($((stringify!($name), $check, stringify!($check)),)*)*];
    };
}

include!("../lists.rs");

/// The number that means no bug.
const NONE: u32 = u32::MAX;

thread_local! {
    static PLANTED: Cell<u32> = const { Cell::new(NONE) };
}

/// Whether the bug of this number is active. The copied kernels call this.
fn planted(bug: u32) -> bool {
    PLANTED.get() == bug
}

/// Activates a bug in all later kernels of this device, which runs them on its own thread.
///
/// # Safety
/// None is needed.
#[kernel(max_threads = 1)]
unsafe fn plant(bug: u32) {
    PLANTED.set(bug);
}

/// The outcome of `check` with an active bug.
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
    let bugs = LISTS.iter().copied().flatten();
    for (number, &(name, check, called)) in (0..).zip(bugs) {
        trials.push(Trial::test(format!("notices::{name}"), move || {
            is_noticed(check, number)
        }));
        checks.insert(called, check);
    }
    // Continuous integration has already run these checks on the original kernels, in the same order.
    let is_done = std::env::var("CONVFUSE_TEST_ORDER").is_ok_and(|order| order == "rest");
    for (called, check) in checks.into_iter().filter(|_| !is_done) {
        let name = format!("finds_nothing_without::{}", called.replace(' ', ""));
        trials.push(Trial::test(name, move || Ok(outcome(check, NONE, None)?)));
    }
    libtest_mimic::run(&arguments, trials).exit();
}
