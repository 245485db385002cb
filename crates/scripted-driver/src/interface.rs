//! The interface between a test and this driver. Both compile this file, with the same compiler.

use std::collections::BTreeMap;

/// The name of the only function that a real driver lacks: [`Entry`].
pub(crate) const ENTRY: &std::ffi::CStr = c"scripted_driver";

/// The type of the function [`ENTRY`].
pub(crate) type Entry = fn() -> &'static dyn Script;

/// The time at which queued work is executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Work is executed when it is queued.
    #[default]
    AtOnce,
    /// Work is executed only when the program waits for it.
    Late,
}

/// A test's scheduler, which decides instead of the system which thread runs next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scheduler {
    /// Lets other threads run before a call whose time they can observe.
    pub(crate) before_call: fn(),
    /// Returns the number of the calling thread.
    pub(crate) thread: fn() -> u64,
}

/// The script of a test, and the record of the driver's calls.
pub(crate) trait Script: Sync {
    /// Clears counts, fault, launches and violations. Lost contexts work again, and keep only their modules
    /// and pools.
    fn begin(&self, mode: Mode);

    /// Makes call `number` of a function after [`begin`](Script::begin) fail with `code`.
    fn fail(&self, name: &str, number: u32, code: u32);

    /// Hands the threads to a scheduler from now on.
    fn schedule(&self, scheduler: Scheduler);

    /// Limits the memory pools of an opened device to `bytes` bytes from now on.
    fn room(&self, ordinal: u32, bytes: usize);

    /// Sets the driver's version from now on.
    fn version(&self, version: i32);

    /// Executes all queued work, beginning with the newest streams.
    fn finish(&self);

    /// Returns the number of calls of each function.
    fn counts(&self) -> BTreeMap<&'static str, u32>;

    /// Returns the launches and copies on a device, one line each.
    fn log(&self, ordinal: u32) -> String;

    /// Returns the number of live objects of a device, one line for each kind that has any.
    fn alive(&self, ordinal: u32) -> String;

    /// Returns the violations of the driver's rules: uses of memory that is not allocated, and invalid
    /// handles.
    fn violations(&self) -> String;
}
