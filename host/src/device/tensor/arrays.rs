//! Copies between tensors and arrays of the host.

use ndarray::{
    ArrayBase, ArrayD, ArrayView, ArrayViewD, CowArray, Data, Dimension, IxDyn, ShapeBuilder,
};

use op_spec::Layout as MemoryFormat;

use super::{Layout, Tensor, in_memory};
use crate::device::storage::{HostBuffer, Storage, reserve};
use crate::device::stream::Stream;
use crate::dtype::{DType, Element, as_bytes, as_bytes_mut, bf16, f16};
use crate::error::Result;

impl Tensor {
    /// Copies an array to the stream's device. Returns once the array has been read: on a GPU the host waits
    /// for the copy, and for earlier work of the stream.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory); [`Error::InCapture`](crate::Error::InCapture) on a
    /// stream in capture; errors of earlier work on the stream.
    pub fn from_array<T: Element, S: Data<Elem = T>, D: Dimension>(
        stream: &Stream,
        array: &ArrayBase<S, D>,
    ) -> Result<Tensor> {
        with_bytes(array, |bytes| {
            Tensor::from_bytes(stream, array.shape(), T::DTYPE, bytes)
        })
    }

    /// Copies f32 values to the stream's device, stored as `dtype` and rounded to nearest.
    ///
    /// # Errors
    /// As [`from_array`](Self::from_array).
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
        storage.write(0, bytes)?;
        Ok(Tensor::with(stream, shape, dtype, storage))
    }

    /// Makes a tensor of a result of the CPU backend, in this layout. An f32 array's memory is moved, not
    /// copied, to an NCHW tensor.
    ///
    /// # Errors
    /// As [`from_array`](Self::from_array).
    pub(crate) fn from_cpu(
        stream: &Stream,
        array: ArrayD<f32>,
        dtype: DType,
        layout: MemoryFormat,
    ) -> Result<Tensor> {
        if layout == MemoryFormat::Nhwc {
            let axes: Vec<usize> = (0..array.ndim()).collect();
            let array = array.permuted_axes(in_memory(&axes, layout));
            return Tensor::from_f32_array(stream, &array, dtype)?.laid_out(layout);
        }
        if dtype != DType::F32 || !array.is_standard_layout() {
            return Tensor::from_f32_array(stream, &array, dtype);
        }
        let shape = array.shape().to_vec();
        // In standard layout, the elements are a contiguous part of the vector, usually all of it.
        let (mut values, offset) = array.into_raw_vec_and_offset();
        values.drain(..offset.unwrap_or(0));
        values.truncate(Layout::contiguous(&shape).len());
        let storage = Storage::Host(HostBuffer::F32(values));
        Ok(Tensor::with(stream, &shape, dtype, storage))
    }

    /// Copies the elements to a new array of the tensor's own element type, after all earlier work on the
    /// tensor's stream. The host waits.
    ///
    /// # Errors
    /// [`Error::DTypeMismatch`](crate::Error::DTypeMismatch) if the tensor's element type is not `T`;
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory); errors of earlier work on the stream.
    pub fn to_array<T: Element>(&self) -> Result<ArrayD<T>> {
        self.must_hold(T::DTYPE, ("to_array", "the tensor"))?;
        let (first, places) = self.layout.span();
        let mut values = reserve::<T>(places)?;
        values.resize(places, T::default());
        let start = first * size_of::<T>();
        let target = as_bytes_mut(&mut values);
        self.storage.read(self.stream.gpu(), start, target)?;
        if !self.is_contiguous() {
            let mut dense = reserve(self.len())?;
            dense.extend(self.array_of(&values, first).iter().copied());
            values = dense;
        }
        let shape = IxDyn(self.shape());
        Ok(ArrayD::from_shape_vec(shape, values).expect("len() is the product of the shape"))
    }

    /// Copies the elements of any type to a new array, widened to f32.
    ///
    /// # Errors
    /// As [`to_array`](Self::to_array).
    pub fn to_f32_array(&self) -> Result<ArrayD<f32>> {
        match self.dtype {
            DType::F32 => self.to_array::<f32>(),
            DType::F16 => widened(self.to_array::<f16>()?.view()),
            DType::BF16 => widened(self.to_array::<bf16>()?.view()),
        }
    }

    /// Copies a tensor of the CPU device to a contiguous one, stored as `dtype`.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory)
    pub(crate) fn copied_on_cpu(&self, dtype: DType) -> Result<Tensor> {
        match (self.dtype == dtype, dtype) {
            (true, DType::F32) => Tensor::from_array(&self.stream, &self.to_array::<f32>()?),
            (true, DType::F16) => Tensor::from_array(&self.stream, &self.to_array::<f16>()?),
            (true, DType::BF16) => Tensor::from_array(&self.stream, &self.to_array::<bf16>()?),
            (false, _) => Tensor::from_f32_array(&self.stream, &self.host_f32()?, dtype),
        }
    }

    /// Copies a contiguous tensor to another device.
    ///
    /// # Errors
    /// As [`to_array`](Self::to_array).
    pub(crate) fn across(&self, stream: &Stream) -> Result<Tensor> {
        Tensor::joined(stream, self.shape(), self.dtype, std::slice::from_ref(self))
    }

    /// Joins the elements of all parts, one part after the other, in a contiguous tensor of this shape. The
    /// parts are contiguous, and may be on any devices.
    ///
    /// # Errors
    /// As [`to_array`](Self::to_array).
    pub(crate) fn joined(
        stream: &Stream,
        shape: &[usize],
        dtype: DType,
        parts: &[Tensor],
    ) -> Result<Tensor> {
        let mut storage = stream.allocate(shape, dtype)?;
        let mut offset = 0;
        for part in parts {
            let (start, bytes) = (part.start(), part.bytes() as usize);
            match (&mut storage, &*part.storage) {
                (Storage::Gpu(all), Storage::Gpu(buffer)) => {
                    all.copy_from(offset, buffer, start, bytes)?;
                }
                _ => {
                    let mut values = reserve(bytes)?;
                    values.resize(bytes, 0u8);
                    part.storage.read(part.stream.gpu(), start, &mut values)?;
                    storage.write(offset, &values)?;
                }
            }
            offset += bytes;
        }
        Ok(Tensor::with(stream, shape, dtype, storage))
    }

    /// Returns the elements as f32 for the CPU backend: borrowed if they are f32, else widened.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory)
    pub(crate) fn host_f32(&self) -> Result<CowArray<'_, f32, IxDyn>> {
        let Storage::Host(buffer) = &*self.storage else {
            unreachable!("the CPU backend works on tensors of the CPU device")
        };
        Ok(match self.dtype {
            DType::F32 => CowArray::from(self.array_of(buffer.elements::<f32>(), 0)),
            DType::F16 => CowArray::from(widened(self.array_of(buffer.elements::<f16>(), 0))?),
            DType::BF16 => CowArray::from(widened(self.array_of(buffer.elements::<bf16>(), 0))?),
        })
    }

    /// Returns a view of the tensor's elements in `values`, whose first element is at index `first` of the
    /// memory.
    fn array_of<'a, T: Element>(&self, values: &'a [T], first: usize) -> ArrayViewD<'a, T> {
        let shape = IxDyn(self.shape());
        let (start, places) = self.layout.span();
        let values = &values[start - first..][..places];
        if self.is_contiguous() || places == 0 {
            return ArrayView::from_shape(shape, values).expect("len() elements");
        }
        // ndarray starts at the lowest address; axes with negative strides are inverted afterwards.
        let strides = self.strides();
        let lengths: Vec<usize> = strides.iter().map(|stride| stride.unsigned_abs()).collect();
        let strided = shape.strides(IxDyn(&lengths));
        let mut array = ArrayView::from_shape(strided, values).expect("span() places");
        for (axis, _) in strides
            .iter()
            .enumerate()
            .filter(|(_, stride)| **stride < 0)
        {
            array.invert_axis(ndarray::Axis(axis));
        }
        array
    }
}

fn widened<T: Element>(array: ArrayViewD<'_, T>) -> Result<ArrayD<f32>> {
    let mut values = reserve(array.len())?;
    values.extend(array.iter().map(|value| value.to_f32()));
    Ok(ArrayD::from_shape_vec(array.raw_dim(), values).expect("as many elements"))
}

/// Calls `take` with the bytes of an array's elements in row-major order.
fn with_bytes<T: Element, S: Data<Elem = T>, D: Dimension, R>(
    array: &ArrayBase<S, D>,
    take: impl FnOnce(&[u8]) -> Result<R>,
) -> Result<R> {
    if let Some(values) = array.as_slice() {
        return take(as_bytes(values));
    }
    let mut values = reserve(array.len())?;
    values.extend(array.iter().copied());
    take(as_bytes(&values))
}

/// Calls `take` with the bytes of an array's elements, rounded to `dtype`.
pub(super) fn with_rounded<S: Data<Elem = f32>, D: Dimension, R>(
    array: &ArrayBase<S, D>,
    dtype: DType,
    take: impl FnOnce(&[u8]) -> Result<R>,
) -> Result<R> {
    fn rounded<T: Element, S: Data<Elem = f32>, D: Dimension>(
        array: &ArrayBase<S, D>,
    ) -> Result<Vec<T>> {
        let mut values = reserve(array.len())?;
        values.extend(array.iter().map(|&value| T::from_f32(value)));
        Ok(values)
    }
    match dtype {
        DType::F32 => with_bytes(array, take),
        DType::F16 => take(as_bytes(&rounded::<f16, _, _>(array)?)),
        DType::BF16 => take(as_bytes(&rounded::<bf16, _, _>(array)?)),
    }
}
