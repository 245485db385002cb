//! What the test process asks of this driver, by these names.

use std::ffi::{CStr, c_char};
use std::time::Duration;

use crate::call::{self, Scheduler};
use crate::script::Fault;

/// # Safety
/// `name` is a text that ends with a NUL.
unsafe fn text(name: *const c_char) -> String {
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(name) }
        .to_string_lossy()
        .into_owned()
}

/// Forgets counts, faults, gate, launches and violations. Lost contexts are as before, without what was left
/// in them but modules and pools. From now on work is done when it is given, or (`lazy` is not 0) no sooner
/// than it is waited for.
#[unsafe(no_mangle)]
extern "C" fn scripted_begin(lazy: u32) {
    call::open();
    call::with(|state| {
        state.finish(None, false);
        state.script.begin(lazy != 0);
        state.log.clear();
        state.violations.clear();
        state.stacks.clear();
        state.revive();
    });
}

/// Lets call `number` of a function from `scripted_begin` on fail with `code`.
#[unsafe(no_mangle)]
extern "C" fn scripted_fail(name: *const c_char, number: u32, code: u32) {
    // SAFETY: the test passes such a name.
    let name = unsafe { text(name) };
    let fault = Fault { name, number, code };
    call::with(|state| state.script.fail(fault));
}

/// Lets call `number` of a function from now on return only once `scripted_open` was called.
#[unsafe(no_mangle)]
extern "C" fn scripted_gate(name: *const c_char, number: u32) {
    // SAFETY: as above.
    let name = unsafe { text(name) };
    call::with(|state| state.script.gate(name, number));
}

/// Waits until that call is behind the gate; 0 if it is not within so many milliseconds.
#[unsafe(no_mangle)]
extern "C" fn scripted_reached(milliseconds: u32) -> u32 {
    call::reached(Duration::from_millis(milliseconds.into())).into()
}

/// Lets it return.
#[unsafe(no_mangle)]
extern "C" fn scripted_open() {
    call::open();
}

/// From now on threads are not the system's, but those of a test that decides which of them goes on:
/// `before_call` is called before each call that others can tell of, `thread` says which one calls.
#[unsafe(no_mangle)]
extern "C" fn scripted_schedule(before_call: extern "C" fn(), thread: extern "C" fn() -> u64) {
    call::schedule(Scheduler {
        before_call,
        thread,
    });
}

/// From now on a device that was opened has so many bytes for pools of memory.
#[unsafe(no_mangle)]
extern "C" fn scripted_room(ordinal: u32, bytes: usize) {
    call::with(|state| {
        let context = state.contexts.entry(ordinal).or_default();
        context.room = Some(bytes);
    });
}

/// Does all work that is left, the streams made last first if `backwards` is not 0.
#[unsafe(no_mangle)]
extern "C" fn scripted_finish(backwards: u32) {
    call::with(|state| state.finish(None, backwards != 0));
}

/// Writes a report to `buffer`, as much of it as fits, and returns its bytes. 0: calls of each function; 1:
/// launches and copies on a device; 2: what is alive of it; 3: what no program should do.
#[unsafe(no_mangle)]
extern "C" fn scripted_report(what: u32, ordinal: u32, buffer: *mut u8, capacity: usize) -> usize {
    let report = call::with(|state| match what {
        0 => {
            let counts = state.script.counts.iter();
            counts.map(|(name, n)| format!("{name} {n}\n")).collect()
        }
        1 => {
            let log = state.log.iter().filter(|(context, _)| *context == ordinal);
            log.map(|(_, line)| format!("{line}\n")).collect()
        }
        2 => state.alive(ordinal),
        _ => state.violations.join("\n"),
    });
    let bytes = report.len().min(capacity);
    // SAFETY: the test passes a place for `capacity` bytes.
    unsafe { std::ptr::copy_nonoverlapping(report.as_ptr(), buffer, bytes) };
    report.len()
}
