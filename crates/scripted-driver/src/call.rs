//! How a call of the driver comes in.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use crate::script::{self, Fault};
use crate::state::State;

/// A driver's error code, where there is one.
pub(crate) type Outcome<T = ()> = Result<T, u32>;

pub(crate) const INVALID_VALUE: u32 = 1;
pub(crate) const OUT_OF_MEMORY: u32 = 2;
pub(crate) const INVALID_DEVICE: u32 = 101;
pub(crate) const INVALID_CONTEXT: u32 = 201;
pub(crate) const NO_BINARY_FOR_GPU: u32 = 209;
pub(crate) const INVALID_HANDLE: u32 = 400;
pub(crate) const NOT_FOUND: u32 = 500;
pub(crate) const NOT_READY: u32 = 600;
pub(crate) const NOT_SUPPORTED: u32 = 801;
pub(crate) const CAPTURE_UNSUPPORTED: u32 = 900;
pub(crate) const CAPTURE_INVALIDATED: u32 = 901;
pub(crate) const CAPTURE_ISOLATION: u32 = 905;
pub(crate) const CAPTURED_EVENT: u32 = 907;

static STATE: Mutex<Option<State>> = Mutex::new(None);
static GATE: Condvar = Condvar::new();

/// Who runs the threads: the system, or a test that decides which of them goes on.
#[derive(Clone, Copy)]
pub(crate) struct Scheduler {
    /// Lets others go on before a call.
    pub(crate) before_call: extern "C" fn(),
    /// The number of the thread that calls.
    pub(crate) thread: extern "C" fn() -> u64,
}

static SCHEDULER: RwLock<Option<Scheduler>> = RwLock::new(None);

pub(crate) fn schedule(scheduler: Scheduler) {
    *SCHEDULER.write().unwrap_or_else(PoisonError::into_inner) = Some(scheduler);
}

fn scheduler() -> Option<Scheduler> {
    *SCHEDULER.read().unwrap_or_else(PoisonError::into_inner)
}

/// The number of the thread that calls.
pub(crate) fn thread() -> u64 {
    static THREADS: AtomicU64 = AtomicU64::new(0);
    thread_local!(static OWN: Cell<u64> = Cell::new(THREADS.fetch_add(1, Relaxed)));
    match scheduler() {
        Some(scheduler) => (scheduler.thread)(),
        None => OWN.get(),
    }
}

/// The one state, which every call has to itself.
fn lock() -> MutexGuard<'static, Option<State>> {
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    state.get_or_insert_with(State::default);
    state
}

/// Does something with the state.
pub(crate) fn with<T>(body: impl FnOnce(&mut State) -> T) -> T {
    body(lock().as_mut().expect("`lock` puts it there"))
}

/// A call of the driver: counted, failed where the script says so, refused where its context is lost, else
/// done. Behind a gate it returns only when the gate is opened.
pub(crate) fn enter(name: &'static str, body: impl FnOnce(&mut State) -> Outcome) -> u32 {
    if let Some(scheduler) = scheduler().filter(|_| !script::concerns_its_thread_alone(name)) {
        (scheduler.before_call)();
    }
    let mut guard = lock();
    let state = guard.as_mut().expect("`lock` puts it there");
    let number = state.script.count(name);
    let code = match (state.script.fault(name, number), state.lost(name)) {
        (Some(fault), _) => fail(state, name, fault, body),
        (None, Some(code)) => code,
        (None, None) => body(state).err().unwrap_or(0),
    };
    if state.script.stops_at(name, number) {
        let closed = |state: &mut Option<State>| state.as_ref().is_some_and(|s| !s.script.opened());
        // A test that forgets the gate fails, but ends.
        let limit = Duration::from_secs(20);
        GATE.notify_all();
        drop(GATE.wait_timeout_while(guard, limit, closed));
    }
    code
}

/// What a scripted failure leaves behind: nothing was done, unless the call gives something back, which is
/// nobody's then.
fn fail(
    state: &mut State,
    name: &'static str,
    fault: Fault,
    body: impl FnOnce(&mut State) -> Outcome,
) -> u32 {
    if script::gives_back(name) {
        let _ = body(state);
    }
    if script::is_fatal(fault.code) {
        state.lose(name, fault.code);
    }
    fault.code
}

/// Opens the gate.
pub(crate) fn open() {
    with(|state| state.script.open());
    GATE.notify_all();
}

/// Waits until some call is behind the gate; whether there is one.
pub(crate) fn reached(limit: Duration) -> bool {
    let away = |state: &mut Option<State>| state.as_ref().is_some_and(|s| !s.script.reached());
    let (guard, _) = GATE
        .wait_timeout_while(lock(), limit, away)
        .unwrap_or_else(PoisonError::into_inner);
    guard.as_ref().is_some_and(|state| state.script.reached())
}

/// Writes where the caller wants it.
pub(crate) fn put<T>(place: *mut T, value: T) -> Outcome {
    if place.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the driver's interface has callers pass a place for one such value.
    unsafe { place.write(value) };
    Ok(())
}

/// Exports functions of the driver: `fn name(state; argument: type, ..) { .. }`, whose body is an
/// [`Outcome`].
macro_rules! driver {
    ($($(#[$doc:meta])* fn $name:ident($state:ident $(; $($argument:ident: $type:ty),+ $(,)?)?) $body:block)*) => {$(
        // SAFETY: whoever loads this library wants it to have the driver's names.
        $(#[$doc])*
        #[allow(non_snake_case, clippy::too_many_arguments)]
        #[unsafe(no_mangle)]
        extern "C" fn $name($($($argument: $type),+)?) -> u32 {
            $crate::call::enter(stringify!($name), |$state| $body)
        }
    )*};
}
