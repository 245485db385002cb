//! Device memory from PyTorch's allocator, so that its statistics count it.

use std::collections::HashMap;
use std::error::Error;
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use convfuse::raw::{DeviceAllocator, RawPointer, RawStream};

use super::shim::{Torch, done};
use super::tensor::{Place, TorchTensor};

/// The legacy default stream by the driver's name; PyTorch knows it as null.
const LEGACY: usize = 1;

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
        let cuda = self.torch.cuda.as_ref();
        let cuda = cuda.ok_or("convfuse: this PyTorch was built without CUDA")?;
        let stream = match stream.addr() {
            LEGACY => std::ptr::null_mut(),
            _ => stream,
        };
        let mut guard: *mut c_void = std::ptr::null_mut();
        // SAFETY: the stream is one of the device; `guard` is a place for one handle.
        let code = unsafe { (cuda.stream_guard)(stream, self.index, &mut guard) };
        done(code, "aoti_torch_create_cuda_stream_guard")?;
        let outcome = work();
        // SAFETY: the guard is ours, and is given back on the thread that it was made on.
        unsafe { (cuda.delete_stream_guard)(guard) };
        outcome
    }
}

// SAFETY: PyTorch's memory is in the primary context, from multiples of 512 bytes on, and nobody else's while a tensor holds it.
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
