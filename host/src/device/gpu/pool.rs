//! The memory pool of one GPU, with accounting and a limit.

use std::sync::atomic::Ordering::Relaxed;

use cust::sys;

use super::driver::{Handle, cu};
use crate::error::{DriverError, Error, Result};
use crate::sync::AtomicU64;

/// The memory pool of a GPU's buffers, with allocation in stream order.
///
/// The pool belongs to this library. Its attributes affect no other library, and trimming it does not touch
/// the device's default pool. It lives to the end of the process, as its GPU does.
pub(super) struct Pool {
    /// `None` on devices without pools, where allocation and freeing are synchronous.
    handle: Option<Handle<sys::CUmemPoolHandle_st>>,
    /// Bytes that buffers hold.
    live: AtomicU64,
    /// The most bytes that buffers may hold.
    limit: AtomicU64,
}

impl Pool {
    /// Makes a pool on the device with this ordinal, whose context is current. The pool keeps freed memory
    /// until it is trimmed, so that a second run reuses the memory of the first.
    pub(super) fn new(ordinal: u32, has_pools: bool) -> Result<Pool, DriverError> {
        Ok(Pool {
            handle: match has_pools {
                true => Some(Handle(create(ordinal)?)),
                false => None,
            },
            live: AtomicU64::new(0),
            limit: AtomicU64::new(u64::MAX),
        })
    }

    /// Bytes that buffers hold now.
    pub(super) fn live(&self) -> u64 {
        self.live.load(Relaxed)
    }

    /// Sets the most bytes that buffers may hold together. Existing buffers stay.
    pub(super) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Relaxed);
    }

    /// Returns memory that no buffer holds to the driver.
    pub(super) fn trim(&self) -> Result<(), DriverError> {
        match &self.handle {
            // SAFETY: the pool is ours and lives to the end of the process.
            Some(pool) => unsafe { cu!(cuMemPoolTrimTo(pool.0, 0)) },
            None => Ok(()),
        }
    }

    /// Allocates memory for later work of `stream`. The GPU's context is current; `device` returns its name.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] beyond the limit, or if the device has no more memory even after waiting for
    /// all work and trimming the pool.
    ///
    /// # Safety
    /// `stream` is a live stream of the current context, and not in capture.
    pub(super) unsafe fn allocate(
        &self,
        stream: sys::CUstream,
        bytes: usize,
        device: impl Fn() -> String,
    ) -> Result<sys::CUdeviceptr> {
        let requested = bytes as u64;
        let refused = |available| Error::OutOfMemory {
            device: device(),
            requested,
            available,
        };
        let limit = self.limit.load(Relaxed);
        let within = |held: u64| held.checked_add(requested).filter(|&sum| sum <= limit);
        // A refused request never adds to the count, not even for a moment, because another thread's request
        // might then be refused.
        self.live
            .fetch_update(Relaxed, Relaxed, within)
            .map_err(|held| refused(format!("{held} of a limit of {limit} in use")))?;
        // SAFETY: the caller's promise.
        let allocated = unsafe { self.attempt_twice(stream, bytes) };
        allocated.map_err(|error| {
            self.live.fetch_sub(requested, Relaxed);
            match is_out_of_memory(&error) {
                true => refused(free_memory()),
                false => error.into(),
            }
        })
    }

    /// # Safety
    /// As for [`allocate`](Pool::allocate).
    unsafe fn attempt_twice(
        &self,
        stream: sys::CUstream,
        bytes: usize,
    ) -> Result<sys::CUdeviceptr, DriverError> {
        let attempt = || {
            let mut pointer = 0;
            // SAFETY: `pointer` is a valid place for one device pointer; the rest is the caller's promise.
            unsafe {
                match &self.handle {
                    Some(pool) => cu!(cuMemAllocFromPoolAsync(&mut pointer, bytes, pool.0, stream)),
                    None => cu!(cuMemAlloc_v2(&mut pointer, bytes)),
                }?
            };
            Ok(pointer)
        };
        match attempt() {
            Err(error) if is_out_of_memory(&error) => {
                // Memory freed in the order of other streams becomes available only when these streams reach
                // that point, and blocks in the pool may have the wrong sizes. This is the one place where a
                // lack of memory makes the host wait. If a stream is in capture, the wait is not allowed, and
                // the second attempt decides. SAFETY: the context is current.
                let _ = unsafe { cu!(cuCtxSynchronize()) };
                self.trim()?;
                attempt()
            }
            first => first,
        }
    }

    /// Frees memory after all work given to `stream`; without a pool the host waits for that work. The GPU's
    /// context is current. A failure is not reported and at worst leaks the memory.
    ///
    /// # Safety
    /// `pointer` came from [`allocate`](Pool::allocate) for as many bytes, and only earlier work of `stream`
    /// uses it. The stream is alive, and not in capture.
    pub(super) unsafe fn free(
        &self,
        stream: sys::CUstream,
        pointer: sys::CUdeviceptr,
        bytes: usize,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            if self.handle.is_some() {
                sys::cuMemFreeAsync(pointer, stream);
            } else {
                let wait = || cu!(cuStreamSynchronize(stream));
                // If waiting fails, work may still use the memory, so it is leaked.
                if wait().or_else(|_| wait()).is_ok() {
                    sys::cuMemFree_v2(pointer);
                }
            }
        }
        self.live.fetch_sub(bytes as u64, Relaxed);
    }
}

fn create(ordinal: u32) -> Result<*mut sys::CUmemPoolHandle_st, DriverError> {
    let properties = sys::CUmemPoolProps {
        allocType: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        handleTypes: sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
        location: sys::CUmemLocation {
            type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            id: ordinal as i32,
        },
        win32SecurityAttributes: std::ptr::null_mut(),
        reserved: [0; 64],
    };
    let mut pool = std::ptr::null_mut();
    let mut keep = u64::MAX;
    let threshold = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    // SAFETY: `pool` is a valid place for one handle, `properties` is complete, and this attribute's value is
    // a u64.
    unsafe {
        cu!(cuMemPoolCreate(&mut pool, &properties))?;
        let value = (&raw mut keep).cast();
        if let Err(error) = cu!(cuMemPoolSetAttribute(pool, threshold, value)) {
            sys::cuMemPoolDestroy(pool);
            return Err(error);
        }
    }
    Ok(pool)
}

fn is_out_of_memory(error: &DriverError) -> bool {
    error.code == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY as u32
}

/// Describes the device's free memory, according to the driver.
fn free_memory() -> String {
    let (mut free, mut total) = (0, 0);
    // SAFETY: two valid places for the two sizes.
    match unsafe { cu!(cuMemGetInfo_v2(&mut free, &mut total)) } {
        Ok(()) => format!("{free} of {total} free"),
        Err(_) => "free memory unknown".to_owned(),
    }
}
