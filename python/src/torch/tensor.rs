//! PyTorch tensors through the C interface.

use std::ffi::{c_int, c_void};
use std::ptr;

use convfuse::DType;
use convfuse::spec::Layout;

use super::shim::{TensorHandle, Torch, Value, done};

/// A reference to a PyTorch tensor, released on drop.
pub(crate) struct TorchTensor {
    torch: &'static Torch,
    handle: TensorHandle,
}

// SAFETY: PyTorch counts references to tensors atomically, and its functions that read a tensor's properties
// may be called on any thread.
unsafe impl Send for TorchTensor {}
// SAFETY: as above.
unsafe impl Sync for TorchTensor {}

/// The device of a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) is_cuda: bool,
    pub(crate) index: i32,
}

impl TorchTensor {
    /// # Safety
    /// The handle is a reference owned by the caller, who passes it on.
    pub(crate) unsafe fn owning(torch: &'static Torch, handle: TensorHandle) -> TorchTensor {
        TorchTensor { torch, handle }
    }

    /// Allocates a dense tensor with this layout and uninitialized contents, from PyTorch's allocator, for
    /// work on the device's current stream.
    pub(crate) fn empty(
        torch: &'static Torch,
        shape: &[i64],
        layout: Layout,
        dtype: i32,
        place: Place,
    ) -> Result<TorchTensor, String> {
        let mut strides = [0i64; MOST_AXES];
        let Some(strides) = strides.get_mut(..shape.len()) else {
            return Err(too_many_axes(shape.len()));
        };
        let mut step = 1;
        let mut place_axis = |axis: usize| {
            strides[axis] = step;
            step *= shape[axis].max(1);
        };
        match layout {
            Layout::Nchw => (0..shape.len()).rev().for_each(&mut place_axis),
            Layout::Nhwc => {
                place_axis(1);
                (2..shape.len()).rev().for_each(&mut place_axis);
                place_axis(0);
            }
        }
        let device = match place.is_cuda {
            true => torch.names.cuda,
            false => torch.names.cpu,
        };
        let mut handle = ptr::null_mut();
        // SAFETY: both arrays have the given number of entries; `handle` is a place for one.
        let made = unsafe {
            (torch.shim.empty_strided)(
                shape.len() as i64,
                shape.as_ptr(),
                strides.as_ptr(),
                dtype,
                device,
                place.index,
                &mut handle,
            )
        };
        match made {
            0 => Ok(TorchTensor { torch, handle }),
            _ => Err(format!(
                "convfuse: PyTorch could not allocate a tensor of shape {shape:?}; it is most likely out of memory"
            )),
        }
    }

    /// Converts the reference to a value of a boxed call, which takes ownership.
    pub(crate) fn into_value(self) -> Value {
        let handle = self.handle;
        std::mem::forget(self);
        handle.addr() as Value
    }

    /// Returns the address of the element with all indices 0, for reading.
    pub(crate) fn data(&self) -> Result<*mut c_void, String> {
        let get = self.torch.shim.data_ptr;
        // SAFETY: the function returns one address.
        let data = unsafe { self.ask(get, "torch_get_const_data_ptr", ptr::null())? };
        Ok(data.cast_mut())
    }

    /// Returns the same address for writing.
    pub(crate) fn data_mut(&self) -> Result<*mut c_void, String> {
        let get = self.torch.shim.data_ptr_mut;
        // SAFETY: the function returns one address.
        unsafe { self.ask(get, "torch_get_mutable_data_ptr", ptr::null_mut()) }
    }

    /// Returns shape and strides.
    pub(crate) fn layout(&self) -> Result<(&[i64], &[i64]), String> {
        let shim = &self.torch.shim;
        // SAFETY: the functions return a number and two addresses.
        let (dim, sizes, strides) = unsafe {
            (
                self.ask(shim.dim, "aoti_torch_get_dim", 0)?,
                self.ask(shim.sizes, "aoti_torch_get_sizes", ptr::null_mut())?,
                self.ask(shim.strides, "aoti_torch_get_strides", ptr::null_mut())?,
            )
        };
        let dim = usize::try_from(dim).map_err(|_| "convfuse: a tensor has no dimensions")?;
        if dim > MOST_AXES {
            return Err(too_many_axes(dim));
        }
        if dim == 0 {
            return Ok((&[], &[]));
        }
        // SAFETY: the tensor has this number of extents and strides. They stay while the tensor is held and
        // its shape does not change; callers of an operator do not change it during the call.
        unsafe {
            Ok((
                std::slice::from_raw_parts(sizes, dim),
                std::slice::from_raw_parts(strides, dim),
            ))
        }
    }

    /// Returns PyTorch's number of the element type.
    pub(crate) fn dtype_number(&self) -> Result<i32, String> {
        // SAFETY: the function returns one number.
        unsafe { self.ask(self.torch.shim.dtype, "aoti_torch_get_dtype", 0) }
    }

    /// Returns the element type, if kernels support it.
    pub(crate) fn dtype(&self, what: &str) -> Result<DType, String> {
        let (number, names) = (self.dtype_number()?, self.torch.names);
        match number {
            _ if number == names.f32 => Ok(DType::F32),
            _ if number == names.f16 => Ok(DType::F16),
            _ if number == names.bf16 => Ok(DType::BF16),
            _ => Err(format!(
                "convfuse: {what} has another element type than torch.float32, torch.float16 and torch.bfloat16, which are those that there are kernels for; convert it, for example by .float()"
            )),
        }
    }

    /// Returns the device of the tensor.
    pub(crate) fn place(&self) -> Result<Place, String> {
        let shim = &self.torch.shim;
        // SAFETY: each function returns one number.
        let (kind, index) = unsafe {
            (
                self.ask(shim.device_type, "aoti_torch_get_device_type", 0)?,
                self.ask(shim.device_index, "aoti_torch_get_device_index", 0)?,
            )
        };
        Ok(Place {
            is_cuda: kind == self.torch.names.cuda,
            index: index.max(0),
        })
    }

    /// Calls a function of PyTorch that reads a property of the tensor. The property is `answer` before the
    /// call.
    ///
    /// # Safety
    /// The function takes a tensor, and a place for one `T`, which it writes unless it fails.
    unsafe fn ask<T>(&self, function: Question<T>, name: &str, mut answer: T) -> Result<T, String> {
        // SAFETY: the handle is alive; `answer` is a place for one `T`.
        done(unsafe { function(self.handle, &mut answer) }, name)?;
        Ok(answer)
    }
}

/// A function of PyTorch that writes a property of a tensor to a place.
type Question<T> = unsafe extern "C-unwind" fn(TensorHandle, *mut T) -> c_int;

impl Drop for TorchTensor {
    fn drop(&mut self) {
        // SAFETY: the reference is ours.
        unsafe { (self.torch.shim.delete_tensor)(self.handle) };
    }
}

/// The largest supported number of axes.
pub(crate) const MOST_AXES: usize = 8;

fn too_many_axes(axes: usize) -> String {
    format!("convfuse: a tensor has {axes} dimensions, at most {MOST_AXES} are possible")
}
