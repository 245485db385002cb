//! Linux on x86-64.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Once, OnceLock};
use std::time::Duration;

use corosensei::Coroutine;
use corosensei::stack::Stack;
use corosensei::trap::CoroutineTrapHandler;

use super::super::exec;
use super::super::fault::FaultKind;
use super::super::fiber::STACK_BYTES;

/// The signals of processor exceptions.
const TRAPS: [libc::c_int; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];
/// The watchdog's signal. It is ignored by default, so a stray one is harmless.
const INTERRUPT: libc::c_int = libc::SIGURG;
/// Bytes of the signal handlers' stack.
const HANDLER_STACK_BYTES: usize = 64 * 1024;

thread_local! {
    /// The trap handler of the running coroutine.
    static RUNNING: Cell<Option<CoroutineTrapHandler<()>>> = const { Cell::new(None) };
}

/// The progress limit of the interrupted launch in seconds, for the message only.
static INTERRUPT_SECONDS: AtomicU64 = AtomicU64::new(0);

/// Routes signals of this thread to the coroutine while the guard exists.
pub(crate) struct Guard(());

impl Guard {
    pub(crate) fn enter<S: Stack>(coroutine: &Coroutine<(), (), (), S>) -> Self {
        RUNNING.set(Some(coroutine.trap_handler()));
        Self(())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        RUNNING.set(None);
    }
}

/// The calling thread's stack for signal handlers. Dropping it takes the stack out of use.
pub(crate) struct HandlerStack(#[expect(dead_code, reason = "keeps the memory")] Box<[u8]>);

/// Installs the handlers, once, and gives the calling thread a stack for them, because a stack overflow
/// leaves no room on its own stack.
pub(crate) fn prepare_thread() -> HandlerStack {
    install();
    let mut stack = vec![0_u8; HANDLER_STACK_BYTES].into_boxed_slice();
    let description = libc::stack_t {
        ss_sp: stack.as_mut_ptr().cast(),
        ss_flags: 0,
        ss_size: HANDLER_STACK_BYTES,
    };
    // SAFETY: the memory lives until `HandlerStack` is dropped, which disables it first.
    unsafe { libc::sigaltstack(&raw const description, std::ptr::null_mut()) };
    HandlerStack(stack)
}

impl Drop for HandlerStack {
    fn drop(&mut self) {
        let off = libc::stack_t {
            ss_sp: std::ptr::null_mut(),
            ss_flags: libc::SS_DISABLE,
            ss_size: 0,
        };
        // SAFETY: disables the calling thread's handler stack, which is this one.
        unsafe { libc::sigaltstack(&raw const off, std::ptr::null_mut()) };
    }
}

/// The previous actions of these signals. They are stored before the first handler is installed.
static PREVIOUS: OnceLock<[(libc::c_int, libc::sigaction); TRAPS.len() + 1]> = OnceLock::new();

fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let [a, b, c, d] = TRAPS;
        let signals = [a, b, c, d, INTERRUPT];
        let previous = PREVIOUS.get_or_init(|| {
            signals.map(|signal| {
                let mut old = MaybeUninit::zeroed();
                // SAFETY: only queries. All-zero is a valid `sigaction`, in case the query fails.
                unsafe {
                    libc::sigaction(signal, std::ptr::null(), old.as_mut_ptr());
                    (signal, old.assume_init())
                }
            })
        });
        for (signal, old) in previous {
            let mut action = *old;
            action.sa_sigaction = handle as *const () as libc::sighandler_t;
            // The mask is the previous handler's, which may be called while this one runs.
            action.sa_flags = old.sa_flags & libc::SA_NODEFER
                | libc::SA_SIGINFO
                | libc::SA_ONSTACK
                | libc::SA_RESTART;
            // SAFETY: the handler has the signature that SA_SIGINFO asks for.
            unsafe { libc::sigaction(*signal, &raw const action, std::ptr::null_mut()) };
        }
    });
}

/// # Safety
/// Only the operating system calls it.
unsafe extern "C" fn handle(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: with SA_SIGINFO the system passes these.
    unsafe {
        let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let stack_pointer = registers[libc::REG_RSP as usize] as usize;
        let running = RUNNING
            .get()
            .filter(|running| running.stack_ptr_in_bounds(stack_pointer));
        let Some(running) = running else {
            pass_on(signal, info, context);
            return;
        };
        let address = (*info).si_addr() as usize;
        let kind = match signal {
            INTERRUPT => FaultKind::NoProgress {
                seconds: INTERRUPT_SECONDS.load(Ordering::Relaxed),
            },
            libc::SIGSEGV if running.stack_ptr_in_bounds(address) => {
                FaultKind::StackOverflow { bytes: STACK_BYTES }
            }
            _ => FaultKind::Signal { signal },
        };
        // After the handler, the coroutine does not continue. It runs this closure on an empty stack, and
        // ends.
        let target = running.setup_trap_handler(move || exec::with().record(None, kind));
        registers[libc::REG_RIP as usize] = target.rip as i64;
        registers[libc::REG_RSP as usize] = target.rsp as i64;
        registers[libc::REG_RBP as usize] = target.rbp as i64;
        registers[libc::REG_RDI as usize] = target.rdi as i64;
        registers[libc::REG_RSI as usize] = target.rsi as i64;
    }
}

/// Performs the previous action of the signal.
unsafe fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let old = PREVIOUS
        .get()
        .and_then(|all| all.iter().find(|(number, _)| *number == signal));
    let Some((_, old)) = old else { return };
    // SAFETY: the previous handler is called as the system would call it; restoring the default
    // action makes the instruction that trapped trap again.
    unsafe {
        match old.sa_sigaction {
            // The default action ignores this signal.
            libc::SIG_DFL | libc::SIG_IGN if signal == INTERRUPT => {}
            libc::SIG_DFL | libc::SIG_IGN => {
                libc::sigaction(signal, &raw const *old, std::ptr::null_mut());
            }
            handler if old.sa_flags & libc::SA_SIGINFO != 0 => {
                let handler: unsafe extern "C" fn(
                    libc::c_int,
                    *mut libc::siginfo_t,
                    *mut libc::c_void,
                ) = std::mem::transmute(handler);
                handler(signal, info, context);
            }
            handler => {
                let handler: unsafe extern "C" fn(libc::c_int) = std::mem::transmute(handler);
                handler(signal);
            }
        }
    }
}

/// A thread that the watchdog watches and can interrupt.
#[derive(Debug)]
pub(crate) struct Target {
    thread: libc::pthread_t,
    clock: libc::clockid_t,
}

impl Target {
    pub(crate) fn this_thread() -> Self {
        let mut clock = 0;
        // SAFETY: the calling thread exists.
        unsafe {
            let thread = libc::pthread_self();
            libc::pthread_getcpuclockid(thread, &raw mut clock);
            Self { thread, clock }
        }
    }

    /// Returns the processor time of the thread. Waiting for a busy processor does not count.
    pub(crate) fn processor_time(&self) -> Duration {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: fails if the thread has ended, which leaves the zeros.
        unsafe { libc::clock_gettime(self.clock, &raw mut time) };
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    /// Interrupts the thread's coroutine. A thread that has not ticked for seconds is in the kernel's own
    /// code, so no operation of this crate is cut off.
    pub(crate) fn interrupt(&self, limit: Duration) -> bool {
        INTERRUPT_SECONDS.store(limit.as_secs(), Ordering::Relaxed);
        // SAFETY: the thread lives, because the worker holds its channels and has not answered.
        unsafe { libc::pthread_kill(self.thread, INTERRUPT) == 0 }
    }
}
