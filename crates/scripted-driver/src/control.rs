//! Implements the interface of a test's script.

use std::collections::BTreeMap;

use crate::call::with;
use crate::interface::{Mode, Scheduler, Script};
use crate::script::Fault;
use crate::thread;

/// The driver, as seen by a test in the same process.
struct Control;

// SAFETY: no other library of the process has this name.
#[unsafe(no_mangle)]
fn scripted_driver() -> &'static dyn Script {
    &Control
}

impl Script for Control {
    fn begin(&self, mode: Mode) {
        with(|state| {
            state.finish(None, false);
            state.faults.begin(mode);
            state.log.clear();
            state.violations.clear();
            state.stacks.clear();
            state.revive();
        });
    }

    fn fail(&self, name: &str, number: u32, code: u32) {
        let name = name.to_owned();
        with(|state| state.faults.next = Some(Fault { name, number, code }));
    }

    fn schedule(&self, scheduler: Scheduler) {
        thread::schedule(scheduler);
    }

    fn room(&self, ordinal: u32, bytes: usize) {
        with(|state| state.contexts.entry(ordinal).or_default().room = Some(bytes));
    }

    fn version(&self, version: i32) {
        with(|state| state.version = Some(version));
    }

    fn finish(&self) {
        with(|state| state.finish(None, true));
    }

    fn counts(&self) -> BTreeMap<&'static str, u32> {
        with(|state| state.faults.counts.clone())
    }

    fn log(&self, ordinal: u32) -> String {
        with(|state| {
            let log = state.log.iter().filter(|(context, _)| *context == ordinal);
            log.map(|(_, line)| format!("{line}\n")).collect()
        })
    }

    fn alive(&self, ordinal: u32) -> String {
        with(|state| state.alive(ordinal))
    }

    fn violations(&self) -> String {
        with(|state| state.violations.join("\n"))
    }
}
