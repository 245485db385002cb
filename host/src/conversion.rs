//! A tensor's elements in another order, shape or type, or elsewhere.

use crate::device::{DType, Order, Stream, Tensor};
use crate::error::Result;
use crate::program::ProgramBuilder;

impl Tensor {
    /// The elements dense, row-major and from a multiple of 16 bytes on: this tensor if they are, else a
    /// copy, which one kernel makes on the tensor's stream.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory); [`Error::Spec`](crate::Error::Spec) for more than
    /// eight axes on a GPU, those of extent 1 and those that lie as one not counted.
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

    /// The same elements in row-major order under another shape: over the same memory where they are
    /// contiguous, else over that of [`contiguous`](Self::contiguous).
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`](crate::Error::ShapeMismatch) for another number of elements; those of
    /// [`contiguous`](Self::contiguous).
    pub fn reshape(&self, shape: &[usize]) -> Result<Tensor> {
        if let Some(view) = self.reshaped(shape)? {
            return Ok(view);
        }
        let dense = self.contiguous()?.reshaped(shape)?;
        Ok(dense.expect("what is contiguous has any shape"))
    }

    /// The elements stored as `dtype`, rounded to nearest, ties to even: this tensor if they are, else a
    /// contiguous copy, which one kernel makes on the tensor's stream. *NaN* stays NaN; what is too large
    /// becomes infinite.
    ///
    /// # Errors
    /// As [`contiguous`](Self::contiguous).
    pub fn to_dtype(&self, dtype: DType) -> Result<Tensor> {
        match self.dtype() == dtype {
            true => Ok(self.clone()),
            false => self.copied(dtype),
        }
    }

    /// The elements for use on `stream`: as [`on`](Self::on) gives them if that is a stream of the tensor's
    /// device, else copied to the stream's device. From GPU to GPU nothing waits on the host; any other way
    /// the host waits for the elements.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory); those of [`contiguous`](Self::contiguous), and what
    /// went wrong in earlier work on the tensor's stream.
    pub fn to(&self, stream: &Stream) -> Result<Tensor> {
        match self.device() == stream.device() {
            true => self.on(stream),
            false => self.contiguous()?.across(stream),
        }
    }

    /// A copy in order as `dtype`, or the tensor where it is that.
    fn copied(&self, dtype: DType) -> Result<Tensor> {
        if self.device().is_cpu() {
            return self.copied_on_cpu(dtype);
        }
        let order = self.order()?;
        if order == Order::Dense && self.dtype() == dtype {
            return Ok(self.clone());
        }
        let mut program = ProgramBuilder::new(self.device());
        let copy = program.input_as(self.shape(), self.dtype(), &order, dtype)?;
        let program = program.finish(&[copy]);
        let mut outputs = program.run_once("copy", self.stream(), &[self])?;
        Ok(outputs.remove(0))
    }
}
