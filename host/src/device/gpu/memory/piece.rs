//! Bytes of a GPU: where they are from, and how they go back.

use std::sync::Arc;

use cust::sys;

use super::reads::{Read, settle};
use crate::device::counters::Counters;
use crate::device::gpu::driver::Current;
use crate::device::gpu::stream::{GiveBack, GpuStream};
use crate::device::raw::{DeviceAllocator, Owner};
use crate::error::{Error, Result};

/// Bytes whose multiples kernels take allocations to start at.
const ALIGNMENT: usize = 256;

/// Bytes from somewhere.
pub(super) struct Piece {
    pub(super) pointer: sys::CUdeviceptr,
    pub(super) bytes: usize,
    pub(super) source: Source,
    /// Reads to wait for before the bytes are given back.
    pub(super) reads: Vec<Read>,
}

/// Where memory comes from and goes back to.
pub(super) enum Source {
    Pool(Arc<Counters>),
    Allocator(Arc<Counters>, Arc<dyn DeviceAllocator>),
    Lender(#[expect(dead_code, reason = "held to be dropped")] Owner),
}

/// Memory from a caller's allocator, which is seen to be what kernels can use.
///
/// # Errors
/// [`Error::OutOfMemory`] in the allocator's words; [`Error::Misaligned`].
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
            // A context that cannot even order streams is lost, and its memory with it.
            std::mem::forget(self);
            return;
        }
        let stream = home.raw().unwrap_or_else(|_| {
            // Another thread's default stream cannot be named here: all work is waited for instead.
            // SAFETY: the context is current.
            unsafe { sys::cuCtxSynchronize() };
            std::ptr::null_mut()
        });
        match &self.source {
            // SAFETY: the memory is of this GPU's pool, the reads of other streams come before, and the
            // caller says that the stream is not in capture.
            Source::Pool(_) => unsafe { home.gpu.pool.free(stream, self.pointer, self.bytes) },
            Source::Allocator(_, allocator) => {
                let pointer = std::ptr::with_exposed_provenance_mut(self.pointer as usize);
                allocator.free(pointer, self.bytes, stream.cast());
            }
            Source::Lender(_) => {}
        }
    }
}
