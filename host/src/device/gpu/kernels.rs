//! The kernels on one device, loaded at their first use and looked up by name.
//!
//! A kernel comes from the first of these sources that has it and that the driver accepts:
//! 1. machine code that this build carries for the device's architecture,
//! 2. machine code from the user's cache, which the driver made from the same PTX in an earlier process,
//! 3. PTX that this build carries, compiled by the driver; the machine code goes into the cache.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{LazyLock, PoisonError};
use std::time::Instant;

use cust::sys;
use foldhash::fast::RandomState;

use super::carried;
use super::driver::{Handle, cu};
use super::image::{self, Module};
use crate::device::info::{KernelLoad, KernelOrigin};
use crate::device::kernel_cache::{self, Key};
use crate::error::{Error, Result};
use crate::sync::{Mutex, OnceLock, RwLock, lock};

/// The kernels of one device.
pub(crate) struct Kernels {
    carried: carried::Kernels,
    /// The CUDA version that the driver supports, in the driver's encoding.
    driver: u32,
    /// The map is read at every launch, so its hash is fast; it need not resist chosen names.
    slots: RwLock<HashMap<&'static str, &'static Slot, RandomState>>,
    loads: Mutex<Vec<KernelLoad>>,
}

/// The entry of one kernel. Entries are leaked, one per kernel and device, since the GPU lives to the end of
/// the process.
#[derive(Default)]
struct Slot {
    function: OnceLock<Function>,
    /// Held by the thread that loads the kernel; other threads that need it wait.
    loading: Mutex<()>,
}

/// A loaded kernel.
pub(super) struct Function {
    pub(super) handle: Handle<sys::CUfunc_st>,
    pub(super) static_shared_bytes: u32,
    /// Set once more than 48 KiB of dynamic shared memory were granted.
    pub(super) opt_in: OnceLock<()>,
}

impl Kernels {
    /// The kernels of a device, none of them loaded.
    pub(crate) fn new(carried: carried::Kernels, driver: u32) -> Kernels {
        Kernels {
            carried,
            driver,
            slots: RwLock::default(),
            loads: Mutex::default(),
        }
    }

    /// The kernels loaded so far, in order.
    pub(crate) fn loads(&self) -> Vec<KernelLoad> {
        lock(&self.loads).clone()
    }

    /// Returns the kernel called `name`, and loads it at its first use. The device's context must be current.
    pub(super) fn function(&self, name: &'static str) -> Result<&'static Function> {
        let slot = self.slot(name);
        if let Some(function) = slot.function.get() {
            return Ok(function);
        }
        let _loading = lock(&slot.loading);
        if let Some(function) = slot.function.get() {
            return Ok(function);
        }
        let function = self.load(name)?;
        Ok(slot.function.get_or_init(|| function))
    }

    fn slot(&self, name: &'static str) -> &'static Slot {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(&slot) = slots.get(name) {
            return slot;
        }
        drop(slots);
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        slots
            .entry(name)
            .or_insert_with(|| Box::leak(Box::default()))
    }

    fn load(&self, name: &'static str) -> Result<Function> {
        let start = Instant::now();
        let kernel = self.carried.find(name).ok_or(Error::MissingKernel {
            kernel: name,
            module: self.carried.arch(),
        })?;
        let (module, origin) = self.module(name, &kernel)?;
        // After a failure the next attempt loads the kernel again.
        let function = function(module, name).inspect_err(|_| image::unload(module))?;
        let load = KernelLoad {
            kernel: name,
            origin,
            time: start.elapsed(),
        };
        tracing::debug!(target: "convfuse::load", kernel = name, origin = %load.origin, time = ?load.time, "a kernel is loaded");
        lock(&self.loads).push(load);
        Ok(function)
    }

    /// The kernel's module and its origin.
    fn module(
        &self,
        name: &'static str,
        kernel: &carried::Kernel,
    ) -> Result<(Module, KernelOrigin)> {
        if let Some((arch, code)) = kernel.machine_code()
            && let Some(module) = image::load(&code)?
        {
            return Ok((module, KernelOrigin::Carried { arch }));
        }
        let cache = kernel_cache::store();
        let driver = (self.driver, driver_release());
        let key = Key::new(kernel.source(), driver, self.carried.capability());
        let kept = cache.as_ref().and_then(|cache| cache.read(&key));
        if let Some(code) = kept
            && let Some(module) = image::load(&code)?
        {
            return Ok((module, KernelOrigin::Cached));
        }
        let (module, code) = image::compile(name, self.carried.arch(), &kernel.ptx())?;
        if let (Some(cache), Some(code)) = (cache, code)
            && let Err(error) = cache.write(&key, &code)
        {
            // A failure to keep the machine code only costs the next process time.
            tracing::debug!(target: "convfuse::load", kernel = name, %error, "a kernel could not be kept");
        }
        Ok((module, KernelOrigin::Compiled))
    }
}

/// The release of the driver, if the system reports it. The driver itself reports only the CUDA version that
/// it supports.
fn driver_release() -> &'static str {
    static RELEASE: LazyLock<String> = LazyLock::new(|| {
        let report = std::fs::read_to_string("/proc/driver/nvidia/version");
        let report = report.unwrap_or_default();
        report.lines().next().unwrap_or_default().to_owned()
    });
    &RELEASE
}

/// The function of this name in a module of the current context.
fn function(module: Module, name: &'static str) -> Result<Function> {
    let symbol = CString::new(name).expect("kernel names are Rust identifiers");
    let mut handle = std::ptr::null_mut();
    // SAFETY: `handle` is a valid place for one handle, `symbol` is NUL-terminated, the module is loaded.
    unsafe { cu!(cuModuleGetFunction(&mut handle, module.0, symbol.as_ptr()))? };
    let mut shared = 0;
    let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
    // SAFETY: `shared` is a valid place for one integer, `handle` a function of the current context.
    unsafe { cu!(cuFuncGetAttribute(&mut shared, attribute, handle))? };
    Ok(Function {
        handle: Handle(handle),
        static_shared_bytes: shared.max(0) as u32,
        opt_in: OnceLock::new(),
    })
}
