//! Panics in kernels become faults, without a message on standard error.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, Location};
use std::sync::Once;

use super::exec::{self, Exec};
use super::fault::{FaultKind, Place};

thread_local! {
    static LAST_PLACE: Cell<Option<Place>> = const { Cell::new(None) };
}

/// Silences the process's panic hook on threads that run a launch. Other threads use the previous hook.
pub(crate) fn install_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if exec::current_or_none().is_none() {
                previous(info);
                return;
            }
            LAST_PLACE.set(info.location().map(leaked));
        }));
    });
}

fn leaked(location: &Location<'_>) -> Place {
    // SAFETY: `Location`s come from `#[track_caller]`, which makes statics; a hook gets no others.
    unsafe { &*std::ptr::from_ref(location).cast::<Location<'static>>() }
}

/// Records the panic that ended the current thread.
pub(crate) fn note(exec: &mut Exec, payload: &(dyn Any + Send)) {
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    let kind =
        FaultKind::Panic(text.unwrap_or_else(|| "with a payload that is no text".to_owned()));
    exec.record(LAST_PLACE.take(), kind);
}
