//! A gate that blocks streams.
//!
//! A gate is a word of pinned memory. A blocked stream waits for it (`cuStreamWaitValue32`) before all later
//! work. The test opens the gate, and a time limit opens it otherwise, so that every test ends. Without the
//! limit, another test of the process might wait for the device in a call that also blocks the thread which
//! would open the gate.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use convfuse::Stream;
use cust::sys::{self, CUresult};
use libtest_mimic::Failed;

use crate::backend::Outcome;

/// The most time that an unblocked stream needs for the work of these tests.
pub(crate) const LONG_ENOUGH: Duration = Duration::from_millis(200);
/// The time limit of a gate.
const LIMIT: Duration = Duration::from_secs(10);

pub(crate) fn check(call: &str, result: CUresult) -> Outcome {
    match result {
        CUresult::CUDA_SUCCESS => Ok(()),
        error => Err(format!("{call}: {error:?}").into()),
    }
}

/// The device's primary context, current in this thread during its lifetime.
pub(crate) struct Current;

impl Current {
    pub(crate) fn new() -> Result<Current, Failed> {
        let device = cust::device::Device::get_device(0)?;
        let mut context = null_mut();
        // SAFETY: a place for one handle; a context that is retained stays.
        unsafe {
            let retained = sys::cuDevicePrimaryCtxRetain(&mut context, device.as_raw());
            check("cuDevicePrimaryCtxRetain", retained)?;
            check("cuCtxPushCurrent", sys::cuCtxPushCurrent_v2(context))?;
        }
        Ok(Current)
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        // SAFETY: `new` pushed a context, and retained it.
        unsafe {
            sys::cuCtxPopCurrent_v2(&mut null_mut());
            sys::cuDevicePrimaryCtxRelease_v2(0);
        }
    }
}

/// The word that streams wait for.
pub(crate) struct Gate {
    /// 0 while the gate is closed. The memory is never freed, since a stream may read it late.
    word: &'static AtomicU32,
    address: sys::CUdeviceptr,
    /// 0: closed; 1: opened by the test; 2: opened by the time limit.
    state: Arc<AtomicU32>,
}

type WaitValue = unsafe extern "C" fn(sys::CUstream, sys::CUdeviceptr, u32, u32) -> CUresult;

/// The version of the call that needs no driver module option, if available.
fn wait_value() -> WaitValue {
    match cuda_loader::symbol(c"cuStreamWaitValue32_v2") {
        // SAFETY: this is the function's type.
        Ok(address) => unsafe { std::mem::transmute::<*mut c_void, WaitValue>(address.as_ptr()) },
        Err(_) => sys::cuStreamWaitValue32,
    }
}

impl Gate {
    pub(crate) fn new() -> Result<Gate, Failed> {
        let _current = Current::new()?;
        let (mut start, mut address) = (null_mut(), 0);
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: places for a pointer and an address.
        unsafe {
            check("cuMemHostAlloc", sys::cuMemHostAlloc(&mut start, 4, flags))?;
            let mapped = sys::cuMemHostGetDevicePointer_v2(&mut address, start, 0);
            check("cuMemHostGetDevicePointer", mapped)?;
        }
        // SAFETY: four bytes at the start of a page, which are never freed, and which the device only reads.
        let word = unsafe { AtomicU32::from_ptr(start.cast()) };
        word.store(0, Ordering::SeqCst);
        let state = Arc::new(AtomicU32::new(0));
        let (watched, start) = (Arc::clone(&state), Instant::now());
        thread::spawn(move || {
            while watched.load(Ordering::SeqCst) == 0 {
                if start.elapsed() > LIMIT {
                    let _ = watched.compare_exchange(0, 2, Ordering::SeqCst, Ordering::SeqCst);
                }
                thread::sleep(Duration::from_millis(5));
            }
            word.store(1, Ordering::SeqCst);
        });
        Ok(Gate {
            word,
            address,
            state,
        })
    }

    /// Blocks all later work of a stream.
    pub(crate) fn hold(&self, stream: &Stream) -> Outcome {
        let _current = Current::new()?;
        let at_least = 0;
        // SAFETY: stream and word are alive.
        let held = unsafe { wait_value()(stream.as_raw()?.cast(), self.address, 1, at_least) };
        check("cuStreamWaitValue32", held)
    }

    /// Opens the gate. Returns false if it timed out before.
    pub(crate) fn open(&self) -> bool {
        let opened = self
            .state
            .compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst);
        self.word.store(1, Ordering::SeqCst);
        opened != Err(2)
    }

    /// Fails if a stream has completed its work although it should be blocked.
    pub(crate) fn must_hold_up(&self, stream: &Stream, what: &str) -> Outcome {
        let _current = Current::new()?;
        let raw = stream.as_raw()?.cast();
        let start = Instant::now();
        while start.elapsed() < LONG_ENOUGH {
            // SAFETY: the stream is alive.
            match unsafe { sys::cuStreamQuery(raw) } {
                CUresult::CUDA_ERROR_NOT_READY => thread::sleep(Duration::from_millis(5)),
                CUresult::CUDA_SUCCESS => return Err(format!("{what} did not wait").into()),
                error => check("cuStreamQuery", error)?,
            }
        }
        Ok(())
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}
