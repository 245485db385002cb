//! Locks and threads: the standard library's, or a model checker's that tries many interleavings.
//!
//! They guard the state that threads share on a GPU. With the feature `interleavings`, which only this
//! project's tests use (`host/tests/interleavings`), they are the locks and threads of `shuttle`. All threads
//! of an execution then run on one thread, and the scheduler switches at every lock and every driver call.
//! The standard library's locks must not be held there.

use std::sync::PoisonError;

#[cfg(not(feature = "interleavings"))]
mod system {
    pub(crate) use std::sync::atomic::AtomicU64;
    pub(crate) use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock, RwLock};
    pub(crate) use std::thread::{ThreadId, current};

    /// Runs all jobs on rayon's thread pool, and returns when they are complete.
    pub(crate) fn all<J: FnOnce() + Send>(jobs: impl Iterator<Item = J> + Send) {
        rayon::scope(|scope| {
            for job in jobs {
                scope.spawn(move |_| job());
            }
        });
    }
}

#[cfg(feature = "interleavings")]
mod scheduled {
    pub(crate) use shuttle::sync::atomic::AtomicU64;
    pub(crate) use shuttle::sync::{Mutex, MutexGuard, RwLock};
    pub(crate) use shuttle::thread::{ThreadId, current};

    use shuttle::lazy_static::Lazy;
    use shuttle::sync::atomic::{AtomicBool, Ordering::Relaxed};

    /// A value that exists once per process; here, once per execution.
    pub(crate) struct LazyLock<T: Sync>(Lazy<T>);

    impl<T: Sync> LazyLock<T> {
        pub(crate) const fn new(make: fn() -> T) -> LazyLock<T> {
            LazyLock(Lazy::new(make))
        }

        pub(crate) fn force(this: &'static LazyLock<T>) -> &'static T {
            this.0.get()
        }
    }

    /// The standard library's `OnceLock`, for values whose initialisation needs no other thread. The
    /// scheduler may switch threads before each access.
    pub(crate) struct OnceLock<T> {
        value: std::sync::OnceLock<T>,
        accesses: AtomicBool,
    }

    impl<T> Default for OnceLock<T> {
        fn default() -> OnceLock<T> {
            OnceLock::new()
        }
    }

    impl<T> OnceLock<T> {
        pub(crate) fn new() -> OnceLock<T> {
            OnceLock {
                value: std::sync::OnceLock::new(),
                accesses: AtomicBool::new(false),
            }
        }

        pub(crate) fn get(&self) -> Option<&T> {
            self.accesses.load(Relaxed);
            self.value.get()
        }

        pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
            self.accesses.load(Relaxed);
            self.value.get_or_init(make)
        }
    }

    pub(crate) fn all<J: FnOnce() + Send>(jobs: impl Iterator<Item = J> + Send) {
        shuttle::thread::scope(|scope| {
            for job in jobs {
                scope.spawn(job);
            }
        });
    }
}

#[cfg(feature = "interleavings")]
pub(crate) use scheduled::*;
#[cfg(not(feature = "interleavings"))]
pub(crate) use system::*;

/// Locks a mutex and ignores poisoning: a panic under any of the library's locks leaves the value consistent.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the value of a mutex that no other thread can access.
pub(crate) fn unlocked<T>(mutex: &mut Mutex<T>) -> &mut T {
    mutex.get_mut().unwrap_or_else(PoisonError::into_inner)
}
