//! Conversion of PyTorch's GPUs and streams to the library's, and the stream of the CPU.

use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::{LazyLock, Mutex, OnceLock, PoisonError};

use convfuse::{Device, Stream};

use super::call::said;
use crate::torch::shim::{Torch, done};

/// The number of streams cached per thread. PyTorch has 32 per priority and device, and a default one.
const REMEMBERED: usize = 72;

thread_local! {
    /// Streams by ordinal and handle, most recently used first.
    static STREAMS: RefCell<Vec<(i32, usize, Stream)>> = const { RefCell::new(Vec::new()) };
}

/// Opens the GPU of this number.
fn device(index: i32) -> Result<Device, String> {
    static OPEN: Mutex<Vec<(i32, Device)>> = Mutex::new(Vec::new());
    // A panic under the lock leaves the list valid.
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, device)) = open.iter().find(|(known, _)| *known == index) {
        return Ok(device.clone());
    }
    let device = Device::gpu(index as u32).map_err(said)?;
    open.push((index, device.clone()));
    Ok(device)
}

/// Returns PyTorch's current stream on a GPU.
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
    // SAFETY: the stream belongs to the device, and PyTorch never destroys its own streams. An external
    // stream must outlive the modules that run on it, as README.md says.
    let stream = unsafe { Stream::from_raw(&device(index)?, raw) }.map_err(said)?;
    STREAMS.with_borrow_mut(|streams| {
        streams.truncate(REMEMBERED - 1);
        streams.insert(0, (index, raw.addr(), stream.clone()));
    });
    Ok(stream)
}

/// Refuses a forked child of a process that has used the CPU backend: the child has the state of threads
/// that do not exist.
///
/// # Errors
/// The error message.
pub(crate) fn must_not_be_forked() -> Result<(), String> {
    static FIRST: OnceLock<u32> = OnceLock::new();
    let this = std::process::id();
    match *FIRST.get_or_init(|| this) == this {
        true => Ok(()),
        false => Err("convfuse: cpu: this process is a fork of one that had used the CPU backend, whose threads it has not; start \
             processes before the first use, or by spawn"
            .into()),
    }
}

/// Returns the single stream of the CPU.
pub(super) fn cpu() -> Result<Stream, String> {
    static STREAM: LazyLock<Result<Stream, String>> =
        LazyLock::new(|| Device::cpu().stream().map_err(said));
    must_not_be_forked()?;
    STREAM.clone()
}
