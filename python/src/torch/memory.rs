//! Memory from PyTorch's allocator for a run.

use std::ffi::c_void;
use std::ptr;

use convfuse::spec::Layout;

use super::shim::{RawAllocator, Torch, done};
use super::tensor::{Place, TorchTensor};

/// GPU memory for work on the device's current stream, freed on drop.
pub(crate) enum Workspace {
    /// No memory.
    Empty,
    /// Directly from the allocator, which costs the host less than a tensor.
    Raw(&'static RawAllocator, *mut c_void),
    /// A tensor, for a device other than the current one, or for a PyTorch version without the raw
    /// allocator.
    Tensor(TorchTensor),
}

impl Workspace {
    /// Allocates a workspace of this size.
    ///
    /// # Errors
    /// A message: memory is exhausted.
    pub(crate) fn new(
        torch: &'static Torch,
        bytes: i64,
        place: Place,
    ) -> Result<Workspace, String> {
        if bytes == 0 {
            return Ok(Workspace::Empty);
        }
        if let Some(allocator) = torch.cuda.as_ref().and_then(|cuda| cuda.raw.as_ref())
            && allocator.current_device()? == place.index
        {
            let mut data = ptr::null_mut();
            // SAFETY: `data` is a place for one address.
            let code = unsafe { (allocator.alloc)(bytes.cast_unsigned(), &mut data) };
            done(code, "allocator")
                .map_err(|words| format!("{words}; it is most likely out of memory"))?;
            return Ok(Workspace::Raw(allocator, data));
        }
        let bytes = TorchTensor::empty(torch, &[bytes], Layout::Nchw, torch.names.u8, place)?;
        Ok(Workspace::Tensor(bytes))
    }

    /// Returns the address of the first byte, aligned to 512 bytes.
    ///
    /// # Errors
    /// The error message.
    pub(crate) fn address(&self) -> Result<*mut c_void, String> {
        match self {
            Workspace::Empty => Ok(ptr::null_mut()),
            Workspace::Raw(_, data) => Ok(*data),
            Workspace::Tensor(bytes) => bytes.data_mut(),
        }
    }
}

impl RawAllocator {
    /// Returns the GPU of its memory.
    fn current_device(&self) -> Result<i32, String> {
        let mut index = 0;
        // SAFETY: `index` is a place for one number.
        let code = unsafe { (self.current_device)(&mut index) };
        done(code, "aoti_torch_get_current_device_index")?;
        Ok(index)
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if let Workspace::Raw(allocator, data) = self {
            // SAFETY: the memory is from this allocator, and exclusively ours.
            unsafe { (allocator.delete)(*data) };
        }
    }
}
