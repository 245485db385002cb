//! How a call of the driver comes in.

use std::sync::{Mutex, PoisonError};

use crate::outcome::{INVALID_HANDLE, Outcome, is_fatal};
use crate::script;
use crate::state::State;
use crate::thread;

/// Does something with the one state, which every call has to itself.
pub(crate) fn with<T>(body: impl FnOnce(&mut State) -> T) -> T {
    static STATE: Mutex<Option<State>> = Mutex::new(None);
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    body(state.get_or_insert_default())
}

/// A call of the driver: counted, failed where the script says so, refused where its context is lost, else
/// done. A failure that is scripted leaves nothing done, unless the call gives something back, which is
/// nobody's then.
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

/// Exports functions of the driver: `fn name(state; argument: type, ..) { .. }`, whose body is an
/// [`Outcome`].
macro_rules! driver {
    ($(fn $name:ident($state:ident $(; $($argument:ident: $type:ty),+ $(,)?)?) $body:block)*) => {$(
        // SAFETY: whoever loads this library wants it to have the driver's names.
        #[allow(non_snake_case, clippy::too_many_arguments)]
        #[unsafe(no_mangle)]
        extern "C" fn $name($($($argument: $type),+)?) -> u32 {
            $crate::call::enter(stringify!($name), |$state| $body)
        }
    )*};
}
