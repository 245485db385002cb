//! Calls into the driver: results, and the current context.

use std::marker::PhantomData;

use cust::sys::{self, CUresult};

use super::fork;
use crate::error::{DriverError, Error, Result};

/// A handle of the driver.
#[derive(Clone, Copy)]
pub(crate) struct Handle<T>(pub(crate) *mut T);

// SAFETY: the driver's handles may be used from any thread while their context is current; each use follows
// `make_current` of the owning GPU.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as above; the driver is thread-safe, except for launches of one graph, and `GpuGraph` has one
// owner.
unsafe impl<T> Sync for Handle<T> {}

/// Turns a driver call's return value into a result.
pub(crate) fn check(call: &'static str, result: CUresult) -> Result<(), DriverError> {
    if result == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    Err(noted(DriverError {
        call,
        code: result as u32,
        name: format!("{result:?}"),
    }))
}

/// [`check`] for the results of `cust`'s own wrappers.
pub(crate) fn wrapped<T>(
    call: &'static str,
    result: cust::error::CudaResult<T>,
) -> Result<T, DriverError> {
    result.map_err(|error| {
        noted(DriverError {
            call,
            code: error as u32,
            name: format!("{error:?}"),
        })
    })
}

/// Emits a tracing event for a failure. Many failures are harmless: a failed allocation, for example, is
/// tried again.
fn noted(error: DriverError) -> DriverError {
    match error.is_fatal() {
        true => tracing::error!(target: "convfuse::fault", %error, "the device is lost"),
        false => tracing::debug!(target: "convfuse::fault", %error, "a driver call failed"),
    }
    error
}

/// Makes a driver call by its name in `cust::sys` and checks its result.
macro_rules! cu {
    ($name:ident($($argument:expr),* $(,)?)) => {
        $crate::device::gpu::driver::check(stringify!($name), ::cust::sys::$name($($argument),*))
    };
}
pub(crate) use cu;

/// Declares a function that only newer drivers have: `static NAME: Type = c"symbol"`, where `Type` is its
/// signature. It is `None` for a driver without the function.
macro_rules! late_function {
    ($(#[$doc:meta])* static $name:ident: $type:ty = $symbol:literal) => {
        $(#[$doc])*
        static $name: std::sync::LazyLock<Option<$type>> = std::sync::LazyLock::new(|| {
            let function = cuda_loader::symbol($symbol).ok()?;
            // SAFETY: the driver exports the function of this name with this signature.
            Some(unsafe { std::mem::transmute::<std::ptr::NonNull<std::ffi::c_void>, $type>(function) })
        });
    };
}
pub(crate) use late_function;

/// A guard that makes a context the calling thread's current one, and restores the previous one on drop.
///
/// Another library's context may be current (of another device in PyTorch, say); pushing and popping
/// preserves the caller's state. If the context is current already, which is usual after the first call, this
/// costs one query.
#[must_use]
pub(crate) struct Current {
    pushed: bool,
    /// Each thread has its own stack of contexts, so the guard must stay in its thread.
    not_send: PhantomData<*mut ()>,
}

impl Current {
    /// # Errors
    /// [`Error::Forked`] in a child of the process that used the driver first; errors of the driver.
    pub(crate) fn new(context: sys::CUcontext) -> Result<Current> {
        if fork::has_forked() {
            return Err(Error::Forked);
        }
        let mut current = std::ptr::null_mut();
        // SAFETY: `current` is a valid place for one handle.
        unsafe { cu!(cuCtxGetCurrent(&mut current))? };
        let pushed = current != context;
        if pushed {
            // SAFETY: `context` is a primary context that this process retains for ever (see `Gpu`), so it is
            // alive.
            unsafe { cu!(cuCtxPushCurrent_v2(context))? };
        }
        Ok(Current {
            pushed,
            not_send: PhantomData,
        })
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        if self.pushed {
            let mut popped = std::ptr::null_mut();
            // SAFETY: `new` pushed onto this thread's stack, and the guard cannot leave the thread, so there
            // is one to pop.
            unsafe {
                sys::cuCtxPopCurrent_v2(&mut popped);
            }
        }
    }
}
