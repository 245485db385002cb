//! Types shared with another library that uses the same GPU: streams, memory, allocators.
//!
//! Handles and addresses are plain pointers, so that the interface does not depend on a crate that binds the
//! driver. Cast them to your crate's types. The library cannot observe how other code uses them.

use std::any::Any;
use std::error::Error;
use std::ffi::c_void;

/// A stream, the driver's `CUstream`. Null and 1 are the legacy default stream, 2 is the default stream of
/// the calling thread.
pub type RawStream = *mut c_void;

/// An address. For GPU memory it is the driver's `CUdeviceptr` as a pointer; for the CPU device's memory an
/// ordinary pointer.
pub type RawPointer = *mut c_void;

/// The owner of borrowed memory, which keeps it alive. It is dropped when the library no longer uses the
/// memory.
pub type Owner = Box<dyn Any + Send + Sync>;

/// A caller's allocator of device memory, such as PyTorch's caching allocator. See
/// [`Stream::with_allocator`](crate::Stream::with_allocator).
///
/// Both functions may be called on any thread, with the primary context of the stream's device current on it.
///
/// # Safety
/// Memory that [`allocate`](DeviceAllocator::allocate) returns lies in the primary context of the stream's
/// device, has the requested bytes, and starts at a multiple of 256. Nobody else uses it until
/// [`free`](DeviceAllocator::free) is called for it.
pub unsafe trait DeviceAllocator: Send + Sync {
    /// Allocates memory, at least one byte, for later work of `stream`. If the stream is in capture, the
    /// memory is for work of the graph.
    ///
    /// # Errors
    /// The message becomes the reason of an [`OutOfMemory`](crate::Error::OutOfMemory) for the operator's
    /// caller. A null address also becomes that error.
    fn allocate(
        &self,
        bytes: usize,
        stream: RawStream,
    ) -> Result<RawPointer, Box<dyn Error + Send + Sync>>;

    /// Frees memory. Earlier work of `stream` may still use it. The stream is not in capture. It is null if
    /// the memory's stream is the default stream of another thread, whose work is then complete.
    fn free(&self, pointer: RawPointer, bytes: usize, stream: RawStream);
}
