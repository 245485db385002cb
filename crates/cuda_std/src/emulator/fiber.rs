//! The coroutines of threads, and their stacks.

use corosensei::stack::{DefaultStack, Stack};
use corosensei::{Coroutine, Yielder};

use super::fault::{Fault, FaultKind};

/// Bytes of an emulated thread's stack.
pub(crate) const STACK_BYTES: usize = 256 * 1024;
/// Bytes that this crate's own functions may need when a kernel calls them.
const RESERVE_BYTES: usize = 48 * 1024;

pub(crate) type ThreadCoroutine = Coroutine<(), (), (), DefaultStack>;

/// The coroutine of a thread that has started and not ended.
#[derive(Default)]
pub(crate) struct Fiber {
    /// The coroutine, while it does not run.
    pub(crate) coroutine: Option<ThreadCoroutine>,
    /// The handle by which the coroutine suspends itself.
    pub(crate) yielder: Option<*const Yielder<(), ()>>,
}

/// The pool of unused stacks.
#[derive(Default)]
pub(crate) struct Stacks(Vec<DefaultStack>);

impl Stacks {
    /// A stack for a thread, and the lowest address of it that the thread may reach.
    pub(crate) fn take(&mut self) -> Result<(DefaultStack, usize), Fault> {
        let stack = match self.0.pop() {
            Some(stack) => stack,
            None => DefaultStack::new(STACK_BYTES).map_err(|error| {
                let message = format!("no stack for another emulated thread: {error}");
                Fault::on_host(FaultKind::Launch(message))
            })?,
        };
        let limit = stack.base().get() - STACK_BYTES + RESERVE_BYTES;
        Ok((stack, limit))
    }

    /// Takes back the stack of a coroutine, finished or not.
    pub(crate) fn recycle(&mut self, mut coroutine: ThreadCoroutine) {
        // SAFETY: the launch is over, or the coroutine is. Frames that are discarded belong to a
        // kernel, which owns nothing that must be dropped for soundness, and to this crate's functions,
        // which hold nothing across a suspension.
        unsafe { coroutine.force_reset() };
        self.0.push(coroutine.into_stack());
    }
}
