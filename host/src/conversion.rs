//! Conversions of tensors: to contiguous order, another shape, element type or device.

use crate::device::{DType, Order, Stream, Tensor, must_be_axis, must_have_shape};
use crate::error::{At, Error, Result};
use crate::program::ProgramBuilder;

impl Tensor {
    /// Returns a dense, row-major tensor, aligned to 16 bytes, with the same elements. A tensor that already
    /// is one is returned as it is; else one kernel on the tensor's stream makes a copy.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory); [`Error::Spec`](crate::Error::Spec) for more than
    /// eight axes, after axes of extent 1 are dropped and contiguous axes merged.
    ///
    /// # Examples
    /// ```
    /// use convfuse::{DType, Device, Tensor};
    ///
    /// let stream = Device::cpu().stream()?;
    /// let values: Box<[f32; 6]> = Box::new([0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    /// let pointer = values.as_ptr().cast_mut().cast();
    /// // SAFETY: three rows of two columns, column by column, are the six values, which the tensor owns.
    /// let x = unsafe {
    ///     Tensor::from_raw_parts(&stream, pointer, &[3, 2], Some(&[1, 3]), DType::F32, Box::new(values))?
    /// };
    /// assert!(!x.is_contiguous());
    /// let y = x.contiguous()?;
    /// assert!(y.is_contiguous());
    /// assert_eq!(x.to_array::<f32>()?, y.to_array::<f32>()?);
    /// # Ok::<(), convfuse::Error>(())
    /// ```
    pub fn contiguous(&self) -> Result<Tensor> {
        self.copied(self.dtype())
    }

    /// Returns the same elements in row-major order under another shape. A contiguous tensor shares its
    /// memory with the result; any other tensor is first made [`contiguous`](Self::contiguous).
    /// # Errors
    /// [`Error::BadReshape`](crate::Error::BadReshape) if the number of elements differs; the errors of
    /// [`contiguous`](Self::contiguous).
    pub fn reshape(&self, shape: &[usize]) -> Result<Tensor> {
        if let Some(view) = self.reshaped(shape)? {
            return Ok(view);
        }
        let dense = self.contiguous()?.reshaped(shape)?;
        Ok(dense.expect("what is contiguous has any shape"))
    }

    /// Converts the elements to `dtype`, rounding to nearest, ties to even. A tensor of that type is returned
    /// as it is; else one kernel on the tensor's stream makes a contiguous copy. *NaN* stays NaN; values
    /// beyond the type's range become infinite.
    ///
    /// # Errors
    /// As [`contiguous`](Self::contiguous).
    pub fn to_dtype(&self, dtype: DType) -> Result<Tensor> {
        match self.dtype() == dtype {
            true => Ok(self.clone()),
            false => self.copied(dtype),
        }
    }

    /// Makes the elements available on `stream`. For a stream of the tensor's device this is
    /// [`on`](Self::on); else the elements are copied to the stream's device. The host waits for the copy,
    /// except from GPU to GPU.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory); the errors of [`contiguous`](Self::contiguous);
    /// errors of earlier work on the tensor's stream.
    pub fn to(&self, stream: &Stream) -> Result<Tensor> {
        match self.device() == stream.device() {
            true => self.on(stream),
            false => self.contiguous()?.across(stream),
        }
    }

    /// Joins tensors along an axis, as
    /// [`torch.cat`](https://docs.pytorch.org/docs/stable/generated/torch.cat.html) does. The result is
    /// contiguous, on the stream of the first tensor. Along the first axis each tensor is copied once. Along
    /// another axis all are copied three times, unless that axis is outermost in memory.
    ///
    /// # Errors
    /// [`Error::NoTensors`], [`Error::NoSuchAxis`]; [`Error::ShapeMismatch`] for tensors that differ in
    /// another axis, [`Error::DTypeMismatch`], [`Error::DeviceMismatch`]; [`Error::InCapture`] for a stream
    /// in capture; the errors of [`contiguous`](Self::contiguous).
    ///
    /// # Examples
    /// ```
    /// use convfuse::{Device, Tensor};
    /// use ndarray::array;
    ///
    /// let stream = Device::best().stream()?;
    /// let x = Tensor::from_array(&stream, &array![[1.0f32, 2.0], [3.0, 4.0]])?;
    /// let y = Tensor::cat(&[&x, &x.narrow(1, 0, 1)?], 1)?;
    /// assert_eq!(y.to_array::<f32>()?, array![[1.0, 2.0, 1.0], [3.0, 4.0, 3.0]].into_dyn());
    /// # Ok::<(), convfuse::Error>(())
    /// ```
    pub fn cat(tensors: &[&Tensor], axis: usize) -> Result<Tensor> {
        const AT: At = ("cat", "a tensor");
        let Some(first) = tensors.first() else {
            return Err(Error::NoTensors { operator: AT.0 });
        };
        let (stream, dtype, rank) = (first.stream(), first.dtype(), first.shape().len());
        must_be_axis(AT.0, axis, rank)?;
        // The order of axes with the joined axis outermost.
        let mut axes: Vec<usize> = (0..rank).collect();
        axes[..=axis].rotate_right(1);
        let mut extent = 0usize;
        let mut parts = Vec::with_capacity(tensors.len());
        for tensor in tensors {
            tensor.must_hold(dtype, AT)?;
            tensor.same_device(AT, stream)?;
            let mut expected = first.shape().to_vec();
            if let Some(&own) = tensor.shape().get(axis) {
                expected[axis] = own;
            }
            must_have_shape(&expected, tensor.shape(), AT)?;
            let longer = extent.checked_add(expected[axis]);
            extent = longer.ok_or_else(|| stream.device().too_large())?;
            parts.push(tensor.on(stream)?.permute(&axes)?);
        }
        let mut shape = parts[0].shape().to_vec();
        shape[0] = extent;
        let parts = parts.iter().map(Tensor::contiguous);
        let parts = parts.collect::<Result<Vec<_>>>()?;
        let all = Tensor::joined(stream, &shape, dtype, &parts)?;
        let mut axes: Vec<usize> = (0..rank).collect();
        axes[..=axis].rotate_left(1);
        all.permute(&axes)?.contiguous()
    }

    /// Makes a contiguous copy as `dtype`, or returns this tensor if it is contiguous and has that type.
    fn copied(&self, dtype: DType) -> Result<Tensor> {
        let order = self.order()?;
        if order == Order::Dense && self.dtype() == dtype {
            return Ok(self.clone());
        }
        if self.device().is_cpu() {
            return self.copied_on_cpu(dtype);
        }
        let mut program = ProgramBuilder::new(self.device());
        let copy = program.input_as(None, self.shape(), self.dtype(), &order, dtype)?;
        let program = program.finish(&[copy]);
        let mut outputs = program.run_once("copy", self.stream(), &[self])?;
        Ok(outputs.remove(0))
    }
}
