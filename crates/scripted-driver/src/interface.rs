//! The interface between a test and this driver. Both compile this file, with the same compiler.

use std::collections::BTreeMap;

/// The one function that is not the driver's: [`Entry`].
pub(crate) const ENTRY: &std::ffi::CStr = c"scripted_driver";

/// Its type.
pub(crate) type Entry = fn() -> &'static dyn Script;

/// When work is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// When it is given.
    #[default]
    AtOnce,
    /// No sooner than it is waited for.
    Late,
}

/// Who runs the threads, if not the system: a test that decides which of them goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scheduler {
    /// Lets others go on before a call that they can tell of.
    pub(crate) before_call: fn(),
    /// The number of the thread that calls.
    pub(crate) thread: fn() -> u64,
}

/// What happens, and what has happened.
pub(crate) trait Script: Sync {
    /// Forgets counts, fault, launches and violations. Lost contexts are as before, without what was left in
    /// them but modules and pools.
    fn begin(&self, mode: Mode);

    /// Lets call `number` of a function from [`begin`](Script::begin) on fail with `code`.
    fn fail(&self, name: &str, number: u32, code: u32);

    /// From now on threads are those of a scheduler.
    fn schedule(&self, scheduler: Scheduler);

    /// From now on a device that was opened has this many bytes for pools of memory.
    fn room(&self, ordinal: u32, bytes: usize);

    /// Does all work that is left, the streams made last first.
    fn finish(&self);

    /// How often each function was called.
    fn counts(&self) -> BTreeMap<&'static str, u32>;

    /// Launches and copies on a device, a line each.
    fn log(&self, ordinal: u32) -> String;

    /// What is alive of a device, a line for each kind of which there is any.
    fn alive(&self, ordinal: u32) -> String;

    /// What no program should do: uses of memory that is not there, and of handles that are none.
    fn violations(&self) -> String;
}
