//! The entry of the driver's calls.

use std::sync::{Mutex, PoisonError};

use crate::outcome::{INVALID_HANDLE, Outcome, is_fatal};
use crate::script;
use crate::state::State;
use crate::thread;

/// Runs `body` with exclusive access to the only state.
pub(crate) fn with<T>(body: impl FnOnce(&mut State) -> T) -> T {
    static STATE: Mutex<Option<State>> = Mutex::new(None);
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    body(state.get_or_insert_default())
}

/// Processes a call of the driver: counts it, fails it if the script says so, refuses it if its context is
/// lost, and else executes it. A scripted failure has no other effect. Only calls that release something
/// are executed nevertheless, because the caller cannot release it again.
pub(crate) fn enter(name: &'static str, body: impl FnOnce(&mut State) -> Outcome) -> u32 {
    if let Some(scheduler) = thread::scheduler()
        && !script::concerns_its_thread_alone(name)
    {
        (scheduler.before_call)();
    }
    with(|state| {
        let fault = state.faults.of(name);
        let refused = fault.or_else(|| state.lost(name));
        let done = match refused {
            Some(_) if fault.is_none() || !script::gives_back(name) => Ok(()),
            _ => body(state),
        };
        if done == Err(INVALID_HANDLE) {
            let what = format!("{name}: a handle that is none, or not any more");
            state.violations.push(what);
        }
        if let Some(code) = fault.filter(|&code| is_fatal(code)) {
            state.lose(name, code);
        }
        refused.or(done.err()).unwrap_or(0)
    })
}

/// Exports functions of the driver, each given as `fn name(state; argument: type, ..) { .. }` with an
/// [`Outcome`] as the body's value.
macro_rules! driver {
    ($(fn $name:ident($state:ident $(; $($argument:ident: $type:ty),+ $(,)?)?) $body:block)*) => {$(
        // SAFETY: programs load this library for the driver's names.
        #[allow(non_snake_case, clippy::too_many_arguments)]
        #[unsafe(no_mangle)]
        extern "C" fn $name($($($argument: $type),+)?) -> u32 {
            $crate::call::enter(stringify!($name), |$state| $body)
        }
    )*};
}
