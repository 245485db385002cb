//! Device memory from PyTorch's allocator, so that its statistics count it.

use std::collections::HashMap;
use std::error::Error;
use std::ffi::c_void;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};

use convfuse::Stream;
use convfuse::raw::{DeviceAllocator, RawPointer, RawStream};

use super::shim::{Torch, done};
use super::tensor::{Place, TorchTensor};

/// The legacy default stream by the driver's name; PyTorch knows it as null.
const LEGACY: usize = 1;
/// A thread's default stream by the driver's name.
const PER_THREAD: usize = 2;

/// PyTorch's allocator on one GPU.
pub(crate) struct TorchAllocator {
    torch: &'static Torch,
    index: i32,
    /// What was allocated, by address.
    held: Mutex<HashMap<usize, TorchTensor>>,
}

impl TorchAllocator {
    pub(crate) fn new(torch: &'static Torch, index: i32) -> TorchAllocator {
        TorchAllocator {
            torch,
            index,
            held: Mutex::default(),
        }
    }

    /// What `work` does with this stream as PyTorch's current one.
    fn on<T>(
        &self,
        stream: RawStream,
        work: impl FnOnce() -> Result<T, String>,
    ) -> Result<T, String> {
        on(self.torch, self.index, stream, work)
    }
}

/// What `work` does with a stream as PyTorch's current one.
fn on<T>(
    torch: &Torch,
    index: i32,
    stream: RawStream,
    work: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    let cuda = torch.cuda.as_ref();
    let cuda = cuda.ok_or("convfuse: this PyTorch was built without CUDA")?;
    let stream = match stream.addr() {
        LEGACY => std::ptr::null_mut(),
        _ => stream,
    };
    let mut guard: *mut c_void = std::ptr::null_mut();
    // SAFETY: the stream is one of the device; `guard` is a place for one handle.
    let code = unsafe { (cuda.stream_guard)(stream, index, &mut guard) };
    done(code, "aoti_torch_create_cuda_stream_guard")?;
    let outcome = work();
    // SAFETY: the guard is ours, and is given back on the thread that it was made on.
    unsafe { (cuda.delete_stream_guard)(guard) };
    outcome
}

/// What `work` does on a thread of its own, with this stream as PyTorch's current one, and without gradients
/// being recorded.
///
/// Memory that is kept beyond a call must not be of a pool that the calling thread allocates from for the
/// time being: those of compiled graphs are laid out anew for each of them.
pub(crate) fn apart<T: Send>(
    torch: &'static Torch,
    index: i32,
    stream: &Stream,
    work: impl FnOnce() -> Result<T, String> + Send,
) -> Result<T, String> {
    let raw = stream.as_raw();
    let raw = raw.map_err(|error| format!("convfuse: {error}"))?.addr();
    if raw == PER_THREAD {
        // Of another thread it would be another stream.
        return work();
    }
    let there = || {
        // SAFETY: it sets what the thread, which is ours, does.
        unsafe { (torch.shim.record_gradients)(false) };
        on(torch, index, std::ptr::without_provenance_mut(raw), work)
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, there);
        let thread =
            thread.map_err(|error| format!("convfuse: no thread to prepare on: {error}"))?;
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

// SAFETY: PyTorch's memory is in the primary context, from multiples of 512 bytes on, and nobody else's while
// a tensor holds it.
unsafe impl DeviceAllocator for TorchAllocator {
    fn allocate(
        &self,
        bytes: usize,
        stream: RawStream,
    ) -> Result<RawPointer, Box<dyn Error + Send + Sync>> {
        let length = i64::try_from(bytes)?;
        let place = Place {
            is_cuda: true,
            index: self.index,
        };
        let dtype = self.torch.names.u8;
        let tensor = self.on(stream, || {
            TorchTensor::empty(self.torch, &[length], dtype, place)
        })?;
        let pointer = tensor.data_mut()?;
        // A panic under the lock leaves the map whole.
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.insert(pointer.addr(), tensor);
        Ok(pointer)
    }

    fn free(&self, pointer: RawPointer, _bytes: usize, _stream: RawStream) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let tensor = held.remove(&pointer.addr());
        drop(held);
        // PyTorch uses it again in the order of the stream that it was allocated for.
        drop(tensor);
    }
}
