//! Tensors: a shape, an element type, and memory on a device.

mod reuse;

use std::fmt;
use std::sync::Arc;

use ndarray::{ArrayBase, ArrayD, CowArray, Data, Dimension, IxDyn};

pub(crate) use reuse::WeakTensor;

use super::kind::Device;
use super::storage::{HostBuffer, Storage};
use super::stream::Stream;
use crate::dtype::{DType, Element, as_bytes, as_bytes_mut, bf16, f16};
use crate::error::{Error, Result};

/// A dense row-major array on a device. Cloning shares the memory; contents never change once made.
///
/// A tensor belongs to the stream that made it, and operators run on the stream of their first input.
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
/// # Ok::<(), convfuse::Error>(())
/// ```
#[derive(Clone)]
pub struct Tensor {
    shape: Box<[usize]>,
    dtype: DType,
    stream: Stream,
    storage: Arc<Storage>,
}

impl Tensor {
    /// Copies an array to the stream's device. Returns once the array has been read, which on a GPU means
    /// that the host waits for the copy (and for what the stream had to do before it).
    pub fn from_array<T: Element, S: Data<Elem = T>, D: Dimension>(
        stream: &Stream,
        array: &ArrayBase<S, D>,
    ) -> Result<Tensor> {
        with_bytes(array, |bytes| {
            Tensor::from_bytes(stream, array.shape(), T::DTYPE, bytes)
        })
    }

    /// The same for f32 values that are to be stored as `dtype`, rounded to nearest.
    pub fn from_f32_array<S: Data<Elem = f32>, D: Dimension>(
        stream: &Stream,
        array: &ArrayBase<S, D>,
        dtype: DType,
    ) -> Result<Tensor> {
        with_rounded(array, dtype, |bytes| {
            Tensor::from_bytes(stream, array.shape(), dtype, bytes)
        })
    }

    fn from_bytes(stream: &Stream, shape: &[usize], dtype: DType, bytes: &[u8]) -> Result<Tensor> {
        let mut storage = stream.allocate(shape, dtype)?;
        storage.write(bytes)?;
        Ok(Tensor::with(stream, shape, dtype, storage))
    }

    /// A tensor of zeros.
    pub fn zeros(stream: &Stream, shape: &[usize], dtype: DType) -> Result<Tensor> {
        let mut tensor = Tensor::uninit(stream, shape, dtype)?;
        match Arc::get_mut(&mut tensor.storage).expect("nobody else has seen the tensor yet") {
            Storage::Host(_) => {}
            Storage::Emulated(buffer) => buffer.zero()?,
            Storage::Gpu(buffer) => buffer.zero()?,
        }
        Ok(tensor)
    }

    /// A tensor whose elements a kernel is about to write.
    pub(crate) fn uninit(stream: &Stream, shape: &[usize], dtype: DType) -> Result<Tensor> {
        let storage = stream.allocate(shape, dtype)?;
        Ok(Tensor::with(stream, shape, dtype, storage))
    }

    /// What the CPU backend computed, as a tensor of its device. An f32 array's memory is taken over.
    pub(crate) fn from_cpu(stream: &Stream, array: ArrayD<f32>, dtype: DType) -> Result<Tensor> {
        if dtype != DType::F32 || !array.is_standard_layout() {
            return Tensor::from_f32_array(stream, &array, dtype);
        }
        let shape = array.shape().to_vec();
        // A standard layout is a stretch of the vector, most often all of it.
        let (mut values, offset) = array.into_raw_vec_and_offset();
        values.drain(..offset.unwrap_or(0));
        values.truncate(shape.iter().product());
        let storage = Storage::Host(HostBuffer::F32(values));
        Ok(Tensor::with(stream, &shape, dtype, storage))
    }

    fn with(stream: &Stream, shape: &[usize], dtype: DType, storage: Storage) -> Tensor {
        Tensor {
            shape: shape.into(),
            dtype,
            stream: stream.clone(),
            storage: Arc::new(storage),
        }
    }

    /// Copies the elements to a new array of the tensor's own element type, after all earlier work on the
    /// tensor's stream; the host waits for that.
    ///
    /// # Errors
    /// [`Error::DTypeMismatch`] if the tensor holds other elements than `T`; whatever went wrong in earlier
    /// work on the stream.
    pub fn to_array<T: Element>(&self) -> Result<ArrayD<T>> {
        self.must_hold(T::DTYPE, "to_array", "the tensor")?;
        let mut values = Vec::new();
        values
            .try_reserve_exact(self.len())
            .map_err(|_| Error::OutOfMemory {
                device: "host".to_owned(),
                requested: self.bytes(),
                available: "the system refused".to_owned(),
            })?;
        values.resize(self.len(), T::default());
        let target = as_bytes_mut(&mut values);
        match (&*self.storage, self.stream.gpu()) {
            (Storage::Host(host), _) => target.copy_from_slice(host.bytes()),
            (Storage::Emulated(buffer), _) => buffer.read(target)?,
            (Storage::Gpu(buffer), stream) => {
                buffer.read(stream.unwrap_or(buffer.home()), target)?
            }
        }
        let shape = IxDyn(&self.shape);
        Ok(ArrayD::from_shape_vec(shape, values).expect("len() is the product of the shape"))
    }

    /// The same for any element type, widened to f32.
    pub fn to_f32_array(&self) -> Result<ArrayD<f32>> {
        match self.dtype {
            DType::F32 => self.to_array::<f32>(),
            DType::F16 => Ok(self.to_array::<f16>()?.map(|value| value.to_f32())),
            DType::BF16 => Ok(self.to_array::<bf16>()?.map(|value| value.to_f32())),
        }
    }

    /// Extents, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that the elements take.
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

    /// The same elements for use on another stream of the device: operators on the result run there, after
    /// what was to be done on this tensor's stream. Nothing is copied and the host does not wait.
    ///
    /// # Errors
    /// [`Error::DeviceMismatch`] if the stream is another device's.
    pub fn on(&self, stream: &Stream) -> Result<Tensor> {
        self.same_device("on", "the tensor", stream)?;
        Ok(Tensor {
            stream: stream.clone(),
            ..self.clone()
        })
    }

    /// Opens the elements to work that `stream` is about to get. Keep the result until that work is queued.
    pub(crate) fn read_on(
        &self,
        operator: &'static str,
        argument: &'static str,
        stream: &Stream,
    ) -> Result<Reading<'_>> {
        self.same_device(operator, argument, stream)?;
        if let (Storage::Gpu(buffer), Some(stream)) = (&*self.storage, stream.gpu()) {
            buffer.before_read(stream)?;
        }
        Ok(Reading {
            tensor: self,
            stream: stream.clone(),
        })
    }

    /// Refuses a tensor that is not on the stream's device.
    pub(crate) fn same_device(
        &self,
        operator: &'static str,
        argument: &'static str,
        stream: &Stream,
    ) -> Result<()> {
        self.device().must_be(stream.device(), operator, argument)
    }

    /// Refuses a tensor of another element type.
    pub(crate) fn must_hold(
        &self,
        expected: DType,
        operator: &'static str,
        argument: &'static str,
    ) -> Result<()> {
        if self.dtype == expected {
            return Ok(());
        }
        Err(Error::DTypeMismatch {
            operator,
            argument,
            actual: self.dtype,
            expected,
        })
    }

    /// Refuses a tensor of another shape or element type.
    pub(crate) fn must_be(
        &self,
        shape: &[usize],
        dtype: DType,
        operator: &'static str,
        argument: &'static str,
    ) -> Result<()> {
        must_have(shape, &self.shape, operator, argument)?;
        self.must_hold(dtype, operator, argument)
    }

    /// The address for a kernel of this tensor's stream to write to. Only the maker of a fresh tensor calls
    /// this, before anybody else sees it.
    pub(crate) fn output<T>(&self) -> *mut T {
        self.address().cast()
    }

    fn address(&self) -> *mut u8 {
        match &*self.storage {
            Storage::Host(_) => unreachable!("kernels never run on the CPU device"),
            Storage::Emulated(buffer) => buffer.pointer(),
            // The number is an address in the device's memory, which only kernels dereference.
            Storage::Gpu(buffer) => std::ptr::with_exposed_provenance_mut(buffer.pointer as usize),
        }
    }

    /// The elements as f32, for the CPU backend: borrowed if they are f32, else widened.
    pub(crate) fn host_f32(&self) -> CowArray<'_, f32, IxDyn> {
        let Storage::Host(buffer) = &*self.storage else {
            unreachable!("the CPU backend works on tensors of the CPU device")
        };
        let shape = IxDyn(&self.shape);
        let widened = |values: Vec<f32>| {
            CowArray::from(ArrayD::from_shape_vec(shape.clone(), values).expect("len() elements"))
        };
        match buffer {
            HostBuffer::F32(values) => CowArray::from(
                ndarray::ArrayViewD::from_shape(shape, values).expect("len() elements"),
            ),
            HostBuffer::F16(values) => widened(values.iter().map(|value| value.to_f32()).collect()),
            HostBuffer::BF16(values) => {
                widened(values.iter().map(|value| value.to_f32()).collect())
            }
        }
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Tensor({} {:?} on {})",
            self.dtype,
            self.shape,
            self.device()
        )
    }
}

/// Refuses an array of another shape.
fn must_have(
    expected: &[usize],
    actual: &[usize],
    operator: &'static str,
    argument: &'static str,
) -> Result<()> {
    if actual == expected {
        return Ok(());
    }
    Err(Error::ShapeMismatch {
        operator,
        argument,
        actual: actual.to_vec(),
        expected: expected.to_vec(),
    })
}

/// Gives `take` the bytes of an array's elements in row-major order.
fn with_bytes<T: Element, S: Data<Elem = T>, D: Dimension, R>(
    array: &ArrayBase<S, D>,
    take: impl FnOnce(&[u8]) -> R,
) -> R {
    let array = array.as_standard_layout();
    let values = array.as_slice().expect("the standard layout is contiguous");
    take(as_bytes(values))
}

/// The same for elements rounded to `dtype`.
fn with_rounded<S: Data<Elem = f32>, D: Dimension, R>(
    array: &ArrayBase<S, D>,
    dtype: DType,
    take: impl FnOnce(&[u8]) -> R,
) -> R {
    match dtype {
        DType::F32 => with_bytes(array, take),
        DType::F16 => with_bytes(&array.map(|&value| f16::from_f32(value)), take),
        DType::BF16 => with_bytes(&array.map(|&value| bf16::from_f32(value)), take),
    }
}

/// A tensor that queued work reads. Dropping it, after that work was queued, notes the read.
pub(crate) struct Reading<'a> {
    tensor: &'a Tensor,
    stream: Stream,
}

impl Reading<'_> {
    /// The address for kernels to read from.
    pub(crate) fn pointer<T>(&self) -> *const T {
        self.tensor.address().cast_const().cast()
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        if let (Storage::Gpu(buffer), Some(stream)) = (&*self.tensor.storage, self.stream.gpu()) {
            // `after_read` waits where it cannot note; if even that fails the context is lost.
            let _ = buffer.after_read(stream);
        }
    }
}
