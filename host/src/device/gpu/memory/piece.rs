//! GPU memory with its source, which takes it back.

use std::sync::Arc;

use cust::sys;

use super::reads::{Read, settle};
use crate::device::counters::Counters;
use crate::device::gpu::driver::Current;
use crate::device::gpu::stream::{GiveBack, GpuStream};
use crate::device::raw::{DeviceAllocator, Owner};
use crate::error::{Error, Result};

/// The alignment of allocations that kernels rely on.
const ALIGNMENT: usize = 256;

/// An allocation with its source.
pub(super) struct Piece {
    pub(super) pointer: sys::CUdeviceptr,
    pub(super) bytes: usize,
    pub(super) source: Source,
    /// Reads to wait for before the memory is returned.
    pub(super) reads: Vec<Read>,
}

/// The source of memory.
pub(super) enum Source {
    Pool(Arc<Counters>),
    Allocator(Arc<Counters>, Arc<dyn DeviceAllocator>),
    Lender(#[expect(dead_code, reason = "held to be dropped")] Owner),
}

/// Allocates from a caller's allocator, and checks the alignment.
///
/// # Errors
/// [`Error::OutOfMemory`] with the allocator's message; [`Error::Misaligned`].
pub(super) fn from_allocator(
    home: &GpuStream,
    allocator: &dyn DeviceAllocator,
    bytes: usize,
) -> Result<sys::CUdeviceptr> {
    let stream = home.raw()?.cast();
    let refused = |available| Error::OutOfMemory {
        device: home.gpu.to_name(),
        requested: bytes as u64,
        available,
    };
    let pointer = allocator
        .allocate(bytes, stream)
        .map_err(|error| refused(format!("the allocator in use says: {error}")))?;
    if pointer.is_null() {
        return Err(refused("the allocator in use returned null".to_owned()));
    }
    if !pointer.addr().is_multiple_of(ALIGNMENT) {
        allocator.free(pointer, bytes, stream);
        return Err(Error::Misaligned {
            operator: "the allocator in use",
            address: pointer.addr(),
            alignment: ALIGNMENT,
        });
    }
    Ok(pointer.expose_provenance() as u64)
}

impl GiveBack for Piece {
    fn give_back(mut self: Box<Self>, home: &GpuStream, _current: &Current) {
        if settle(home, &mut self.reads).is_err() {
            // If streams cannot be ordered, the context is lost, and the memory with it.
            std::mem::forget(self);
            return;
        }
        let stream = home.raw().unwrap_or_else(|_| {
            // Another thread's default stream has no handle here: wait for all work instead.
            // SAFETY: the context is current.
            unsafe { sys::cuCtxSynchronize() };
            std::ptr::null_mut()
        });
        match &self.source {
            // SAFETY: the memory belongs to this GPU's pool, the reads of other streams come before, and the
            // caller ensures that the stream is not in capture.
            Source::Pool(_) => unsafe { home.gpu.pool.free(stream, self.pointer, self.bytes) },
            Source::Allocator(_, allocator) => {
                let pointer = std::ptr::with_exposed_provenance_mut(self.pointer as usize);
                allocator.free(pointer, self.bytes, stream.cast());
            }
            Source::Lender(_) => {}
        }
    }
}
