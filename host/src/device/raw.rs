//! What is shared with another library that uses the same GPU: its streams, its memory, its allocator.
//!
//! Handles and addresses are plain numbers and pointers, so that no crate that binds the driver is part of
//! this library's interface, in whatever version: cast them to the types that yours gives them. What is done
//! with one is not seen by the library.

use std::any::Any;
use std::error::Error;
use std::ffi::c_void;

/// A stream, the driver's `CUstream`. Null and 1 are the legacy default stream, 2 is the default stream of
/// the calling thread.
pub type RawStream = *mut c_void;

/// An address: of a GPU's memory the driver's `CUdeviceptr` as a pointer, of the CPU device's memory any
/// other.
pub type RawPointer = *mut c_void;

/// What keeps borrowed memory alive: dropped when nothing here uses the memory any more.
pub type Owner = Box<dyn Any + Send + Sync>;

/// Device memory from an allocator of the caller's, PyTorch's caching one for example. See
/// [`Stream::with_allocator`](crate::Stream::with_allocator).
///
/// Both functions may be called on any thread, with the primary context of the stream's device current there.
///
/// # Safety
/// Memory that [`allocate`](DeviceAllocator::allocate) returns lies in the primary context of the stream's
/// device, holds as many bytes as were asked for, starts at a multiple of 256, and is nobody else's until
/// [`free`](DeviceAllocator::free) is called for it.
pub unsafe trait DeviceAllocator: Send + Sync {
    /// Memory that work given to `stream` may use from then on; at least one byte is asked for. The stream
    /// may be in capture: then the memory is for work of the graph.
    ///
    /// # Errors
    /// What the caller of the operator is told, as the reason of an
    /// [`OutOfMemory`](crate::Error::OutOfMemory); so is a null address.
    fn allocate(
        &self,
        bytes: usize,
        stream: RawStream,
    ) -> Result<RawPointer, Box<dyn Error + Send + Sync>>;

    /// Takes memory back. Work given to `stream` before may still use it. The stream is not in capture. It is
    /// null for the default stream of another thread, all work of which was waited for.
    fn free(&self, pointer: RawPointer, bytes: usize, stream: RawStream);
}
