//! GPUs and streams of PyTorch, as the library's.

use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use convfuse::{Device, Stream};

use super::call::said;
use crate::torch::shim::{Torch, done};

/// Streams that a thread remembers. PyTorch has 32 of each priority on a device, and its default one.
const REMEMBERED: usize = 72;

thread_local! {
    /// By ordinal and handle, the last one used first.
    static STREAMS: RefCell<Vec<(i32, usize, Stream)>> = const { RefCell::new(Vec::new()) };
}

/// The GPU of this number.
fn device(index: i32) -> Result<Device, String> {
    static OPEN: Mutex<Vec<(i32, Device)>> = Mutex::new(Vec::new());
    // A panic under the lock leaves the list whole.
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, device)) = open.iter().find(|(known, _)| *known == index) {
        return Ok(device.clone());
    }
    let device = Device::gpu(index as u32).map_err(said)?;
    open.push((index, device.clone()));
    Ok(device)
}

/// PyTorch's current stream on a GPU.
pub(super) fn current(torch: &'static Torch, index: i32) -> Result<Stream, String> {
    let cuda = torch.cuda.as_ref();
    let cuda = cuda.ok_or("convfuse: this PyTorch was built without CUDA")?;
    let mut raw: *mut c_void = std::ptr::null_mut();
    // SAFETY: `raw` is a place for one handle.
    let code = unsafe { (cuda.streams.current_stream)(index, &mut raw) };
    done(code, "aoti_torch_get_current_cuda_stream")?;
    let found = STREAMS.with_borrow_mut(|streams| {
        let is_it = |known: &(i32, usize, Stream)| (known.0, known.1) == (index, raw.addr());
        let position = streams.iter().position(is_it)?;
        streams[..=position].rotate_right(1);
        Some(streams[0].2.clone())
    });
    if let Some(found) = found {
        return Ok(found);
    }
    // SAFETY: the stream is one of the device, and PyTorch's own are never destroyed. One of others that
    // PyTorch was handed must outlive the modules that run on it, as README.md says.
    let stream = unsafe { Stream::from_raw(&device(index)?, raw) }.map_err(said)?;
    STREAMS.with_borrow_mut(|streams| {
        streams.truncate(REMEMBERED - 1);
        streams.insert(0, (index, raw.addr(), stream.clone()));
    });
    Ok(stream)
}
