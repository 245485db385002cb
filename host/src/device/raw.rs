//! Types shared with another library that uses the same GPU: streams, memory, allocators.
//!
//! Handles and addresses are plain pointers, so that the interface does not depend on a crate that binds the
//! driver. Cast them to the types of yours. The library does not see their use by others.

use std::any::Any;
use std::error::Error;
use std::ffi::c_void;

/// A stream, the driver's `CUstream`. Null and 1 are the legacy default stream, 2 is the default stream of
/// the calling thread.
pub type RawStream = *mut c_void;

/// An address: of a GPU's memory, the driver's `CUdeviceptr` as a pointer; of the CPU device's memory, an
/// ordinary pointer.
pub type RawPointer = *mut c_void;

/// The owner of borrowed memory, which keeps it alive. It is dropped when the library no longer uses the
/// memory.
pub type Owner = Box<dyn Any + Send + Sync>;

/// A caller's allocator of device memory, such as PyTorch's caching allocator. See
/// [`Stream::with_allocator`](crate::Stream::with_allocator).
///
/// Both functions may be called on any thread, with the primary context of the stream's device current there.
///
/// # Safety
/// Memory that [`allocate`](DeviceAllocator::allocate) returns lies in the primary context of the stream's
/// device, holds the requested bytes, starts at a multiple of 256, and is not used by others until
/// [`free`](DeviceAllocator::free) is called for it.
pub unsafe trait DeviceAllocator: Send + Sync {
    /// Allocates memory, at least one byte, for later work of `stream`. The stream may be in capture: then
    /// the memory is for work of the graph.
    ///
    /// # Errors
    /// The message becomes the reason of an [`OutOfMemory`](crate::Error::OutOfMemory) for the operator's
    /// caller. A null address is that error, too.
    fn allocate(
        &self,
        bytes: usize,
        stream: RawStream,
    ) -> Result<RawPointer, Box<dyn Error + Send + Sync>>;

    /// Frees memory. Earlier work of `stream` may still use it. The stream is not in capture. It is null for
    /// the default stream of another thread, whose work is complete.
    fn free(&self, pointer: RawPointer, bytes: usize, stream: RawStream);
}
