//! Tensors: a shape, an element type, and memory on a device.

mod arrays;
mod borrowed;
mod layout;
mod order;
mod reuse;
#[cfg(test)]
mod tests;
mod views;

use std::fmt;
use std::sync::Arc;

pub(crate) use layout::Layout;
pub(crate) use layout::must_be_axis;
pub(crate) use order::{Order, in_memory};
pub(crate) use reuse::WeakTensor;

use super::kind::Device;
use super::storage::Storage;
use super::stream::Stream;
use crate::dtype::DType;
use crate::error::{At, Error, Result};

/// An array on a device. Cloning shares the memory; contents never change once made.
///
/// A tensor belongs to the stream that made it, and operators run on the stream of their first input. Tensors
/// that this library makes are dense and row-major. Tensors over other libraries' memory, and their slices,
/// may have any strides.
///
/// # Examples
/// ```
/// use convfuse::{Device, Tensor};
/// use ndarray::array;
///
/// let stream = Device::best().stream()?;
/// let x = Tensor::from_array(&stream, &array![[1.0f32, 2.0], [3.0, 4.0]])?;
/// assert_eq!(x.shape(), [2, 2]);
/// assert_eq!(x.to_array::<f32>()?[[1, 0]], 3.0);
/// assert_eq!(x.slice(1..2)?.to_array::<f32>()?[[0, 1]], 4.0);
/// # Ok::<(), convfuse::Error>(())
/// ```
#[derive(Clone)]
pub struct Tensor {
    layout: Layout,
    dtype: DType,
    stream: Stream,
    storage: Arc<Storage>,
    /// Whether the owner of lent memory forbids writing.
    is_read_only: bool,
}

impl Tensor {
    /// A tensor of zeros.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; [`Error::InCapture`] if the stream is in capture and the memory is of the
    /// library's pool.
    pub fn zeros(stream: &Stream, shape: &[usize], dtype: DType) -> Result<Tensor> {
        let mut tensor = Tensor::uninit(stream, shape, dtype)?;
        match Arc::get_mut(&mut tensor.storage).expect("nobody else has seen the tensor yet") {
            Storage::Host(_) => {}
            Storage::Emulated(buffer) => buffer.zero()?,
            Storage::Gpu(buffer) => buffer.zero()?,
        }
        Ok(tensor)
    }

    /// An uninitialised tensor, for a kernel to write.
    pub(crate) fn uninit(stream: &Stream, shape: &[usize], dtype: DType) -> Result<Tensor> {
        let storage = stream.allocate(shape, dtype)?;
        Ok(Tensor::with(stream, shape, dtype, storage))
    }

    fn with(stream: &Stream, shape: &[usize], dtype: DType, storage: Storage) -> Tensor {
        Tensor {
            layout: Layout::contiguous(shape),
            dtype,
            stream: stream.clone(),
            storage: Arc::new(storage),
            is_read_only: false,
        }
    }

    /// Extents, outermost first.
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// The distance in elements of memory between neighbouring indices, per axis.
    pub fn strides(&self) -> Vec<isize> {
        self.layout.strides()
    }

    /// Whether the elements are dense and row-major.
    pub fn is_contiguous(&self) -> bool {
        self.layout.is_contiguous()
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.layout.len()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of bytes of the elements.
    pub fn bytes(&self) -> u64 {
        self.len() as u64 * self.dtype.size() as u64
    }

    /// The stream that the tensor belongs to.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The device that the tensor is on.
    pub fn device(&self) -> &Device {
        self.stream.device()
    }

    /// Returns the same elements for use on another stream of the device. Operators on the result run there,
    /// after earlier work of this tensor's stream. Nothing is copied, and the host does not wait.
    ///
    /// # Errors
    /// [`Error::DeviceMismatch`] if the stream is another device's.
    pub fn on(&self, stream: &Stream) -> Result<Tensor> {
        self.same_device(("on", "the tensor"), stream)?;
        Ok(Tensor {
            stream: stream.clone(),
            ..self.clone()
        })
    }

    /// The same tensor, marked as read-only.
    #[cfg(feature = "dlpack")]
    pub(crate) fn read_only(self) -> Tensor {
        Tensor {
            is_read_only: true,
            ..self
        }
    }

    /// Prepares reads by later work of `stream`. Keep the result until that work is queued.
    pub(crate) fn read_on(&self, at: At, stream: &Stream) -> Result<Reading<'_>> {
        self.same_device(at, stream)?;
        if let (Storage::Gpu(buffer), Some(stream)) = (&*self.storage, stream.gpu()) {
            buffer.before_read(stream)?;
        }
        Ok(Reading {
            tensor: self,
            stream: Some(stream.clone()),
        })
    }

    /// Prepares reads by work that is already ordered after the tensor's write. The caller keeps the memory
    /// alive until that work is queued, for example by [`note_read`](Self::note_read).
    pub(crate) fn reading(&self) -> Reading<'_> {
        Reading {
            tensor: self,
            stream: None,
        }
    }

    /// Records that `stream` reads the elements up to this point.
    pub(crate) fn note_read(&self, stream: &Stream) {
        if let (Storage::Gpu(buffer), Some(stream)) = (&*self.storage, stream.gpu()) {
            // `after_read` waits if it cannot record; if that fails too, the context is lost.
            let _ = buffer.after_read(stream);
        }
    }

    /// Records that all work given to `stream` so far reads the elements. If the stream is in capture, the
    /// record is made after the capture.
    pub(crate) fn note_earlier_reads(&self, stream: &Stream) {
        let (Storage::Gpu(buffer), Some(stream)) = (&*self.storage, stream.gpu()) else {
            return;
        };
        match stream.is_capturing() {
            Ok(true) if !stream.is(buffer.home()) => {
                buffer.forget_reads_of(stream);
                let storage = Arc::clone(&self.storage);
                stream.outside_of_captures(move |stream| {
                    if let Storage::Gpu(buffer) = &*storage {
                        buffer.wait_for_reads_of(stream);
                    }
                });
            }
            _ => drop(buffer.after_read(stream)),
        }
    }

    /// Refuses a tensor that is not on the stream's device.
    pub(crate) fn same_device(&self, at: At, stream: &Stream) -> Result<()> {
        self.device().must_be(stream.device(), at)
    }

    /// Refuses a tensor whose element type is not `expected`.
    pub(crate) fn must_hold(&self, expected: DType, at: At) -> Result<()> {
        if self.dtype == expected {
            return Ok(());
        }
        let (operator, argument) = at;
        Err(Error::DTypeMismatch {
            operator,
            argument,
            actual: self.dtype,
            expected,
        })
    }

    /// Refuses a tensor whose shape or element type differs from the expected one.
    pub(crate) fn must_be(&self, shape: &[usize], dtype: DType, at: At) -> Result<()> {
        must_have_shape(shape, self.shape(), at)?;
        self.must_hold(dtype, at)
    }

    /// Refuses a tensor whose elements are not dense and row-major.
    pub(crate) fn must_be_contiguous(&self, at: At) -> Result<()> {
        match self.is_contiguous() {
            true => Ok(()),
            false => Err(Error::NotContiguous {
                operator: at.0,
                argument: at.1,
            }),
        }
    }

    /// The address for a kernel of this tensor's stream to write to. The caller holds the only handle: it
    /// created the tensor, or called `rewrite`.
    pub(crate) fn output<T>(&self) -> *mut T {
        self.address().cast()
    }

    /// The address of the element with all indices 0.
    fn address(&self) -> *mut u8 {
        let start = match &*self.storage {
            Storage::Host(_) => unreachable!("kernels never run on the CPU device"),
            Storage::Emulated(buffer) => buffer.pointer(),
            // An address in the device's memory, which only kernels dereference.
            Storage::Gpu(buffer) => {
                std::ptr::with_exposed_provenance_mut(buffer.pointer() as usize)
            }
        };
        start.wrapping_add(self.start())
    }

    /// The byte offset in the memory of the element with all indices 0.
    pub(crate) fn start(&self) -> usize {
        self.layout.offset() * self.dtype.size()
    }

    pub(crate) fn storage(&self) -> &Storage {
        &self.storage
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Tensor({} {:?} on {})",
            self.dtype,
            self.shape(),
            self.device()
        )
    }
}

/// Refuses a shape that is not `expected`.
pub(crate) fn must_have_shape(expected: &[usize], actual: &[usize], at: At) -> Result<()> {
    if actual == expected {
        return Ok(());
    }
    let (operator, argument) = at;
    Err(Error::ShapeMismatch {
        operator,
        argument,
        actual: actual.to_vec(),
        expected: expected.to_vec(),
    })
}

/// A read of a tensor by work that is being queued. Drop it after that work was queued; this records the
/// read.
pub(crate) struct Reading<'a> {
    tensor: &'a Tensor,
    /// The stream of the read, if the read is to be recorded.
    stream: Option<Stream>,
}

impl Reading<'_> {
    /// The address of the element with all indices 0, for kernels to read.
    pub(crate) fn pointer<T>(&self) -> *const T {
        self.tensor.address().cast_const().cast()
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        if let Some(stream) = &self.stream {
            self.tensor.note_read(stream);
        }
    }
}
