//! Memory from PyTorch's allocator for a run.

use std::ffi::c_void;
use std::ptr;

use convfuse::spec::Layout;

use super::shim::{RawAllocator, Torch, done};
use super::tensor::{Place, TorchTensor};

/// Memory of a GPU for work on its current stream, given back on drop.
pub(crate) enum Workspace {
    /// There is nothing to keep.
    Empty,
    /// From the allocator itself, at a fraction of what a tensor costs the host.
    Raw(&'static RawAllocator, *mut c_void),
    /// Of a device that is not the current one, or a PyTorch that has no other way.
    Tensor(TorchTensor),
}

impl Workspace {
    /// # Errors
    /// In words: there is no memory left.
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

    /// Its first byte, on a multiple of 512.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn address(&self) -> Result<*mut c_void, String> {
        match self {
            Workspace::Empty => Ok(ptr::null_mut()),
            Workspace::Raw(_, data) => Ok(*data),
            Workspace::Tensor(bytes) => bytes.data_mut(),
        }
    }
}

impl RawAllocator {
    /// The GPU that it gives memory of.
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
            // SAFETY: it is the allocator's, and ours alone.
            unsafe { (allocator.delete)(*data) };
        }
    }
}
