//! Views: tensors over the same memory, with other axes or fewer elements.

use std::ops::Range;

use super::layout::must_be_axis;
use super::{Layout, Tensor};
use crate::error::Result;

impl Tensor {
    /// Returns a range of the first axis, such as the batch. Nothing is copied.
    ///
    /// # Errors
    /// As [`slice_axis`](Self::slice_axis).
    pub fn slice(&self, range: Range<usize>) -> Result<Tensor> {
        self.slice_axis(0, range, 1)
    }

    /// Returns every `step`-th index of a range of an axis, beginning with the first. For axis 1 this is
    /// PyTorch's `x[:, start:end:step]`. Nothing is copied.
    ///
    /// # Errors
    /// [`NoSuchAxis`](crate::Error::NoSuchAxis); [`BadSlice`](crate::Error::BadSlice) for a range beyond the
    /// axis or with its end before its start, and for a step of 0.
    ///
    /// # Examples
    /// ```
    /// use convfuse::{Device, Tensor};
    /// use ndarray::array;
    ///
    /// let stream = Device::best().stream()?;
    /// let x = Tensor::from_array(&stream, &array![[0.0f32, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]])?;
    /// let odd = x.slice_axis(1, 1..4, 2)?;
    /// assert_eq!(odd.to_array::<f32>()?, array![[1.0, 3.0], [5.0, 7.0]].into_dyn());
    /// assert_eq!(x.narrow(1, 2, 2)?.transpose(0, 1)?.to_array::<f32>()?[[1, 0]], 3.0);
    /// # Ok::<(), convfuse::Error>(())
    /// ```
    pub fn slice_axis(&self, axis: usize, range: Range<usize>, step: usize) -> Result<Tensor> {
        Ok(self.viewed(self.layout.slice(axis, range, step)?))
    }

    /// Returns `length` indices of an axis from `start` on, as
    /// [`torch.narrow`](https://docs.pytorch.org/docs/stable/generated/torch.narrow.html) does. Nothing is
    /// copied.
    ///
    /// # Errors
    /// As [`slice_axis`](Self::slice_axis).
    pub fn narrow(&self, axis: usize, start: usize, length: usize) -> Result<Tensor> {
        self.slice_axis(axis, start..start.saturating_add(length), 1)
    }

    /// Permutes the axes: axis `i` of the result is axis `axes[i]`, as in
    /// [`torch.permute`](https://docs.pytorch.org/docs/stable/generated/torch.permute.html). Nothing is
    /// copied.
    ///
    /// # Errors
    /// [`NoPermutation`](crate::Error::NoPermutation) unless `axes` has each axis exactly once.
    ///
    /// # Examples
    /// A channels-last tensor in the NCHW order of axes that models expect.
    /// ```
    /// use convfuse::{Device, Tensor, data};
    ///
    /// let stream = Device::best().stream()?;
    /// let x = Tensor::from_array(&stream, &data::fill(1, (2, 4, 5, 3)))?.permute(&[0, 3, 1, 2])?;
    /// assert_eq!(x.shape(), [2, 3, 4, 5]);
    /// assert_eq!(x.strides(), [60, 1, 15, 3]);
    /// # Ok::<(), convfuse::Error>(())
    /// ```
    pub fn permute(&self, axes: &[usize]) -> Result<Tensor> {
        Ok(self.viewed(self.layout.permute(axes)?))
    }

    /// Returns a view with two axes exchanged, as
    /// [`torch.transpose`](https://docs.pytorch.org/docs/stable/generated/torch.transpose.html) does. Nothing
    /// is copied.
    ///
    /// # Errors
    /// [`NoSuchAxis`](crate::Error::NoSuchAxis)
    pub fn transpose(&self, one: usize, other: usize) -> Result<Tensor> {
        let rank = self.shape().len();
        for axis in [one, other] {
            must_be_axis("transpose", axis, rank)?;
        }
        let mut axes: Vec<usize> = (0..rank).collect();
        axes.swap(one, other);
        self.permute(&axes)
    }

    /// Returns the same elements under another shape; `None` if they are not contiguous.
    ///
    /// # Errors
    /// [`Error::BadReshape`] if the number of elements differs.
    pub(crate) fn reshaped(&self, shape: &[usize]) -> Result<Option<Tensor>> {
        let layout = self.layout.reshape(shape)?;
        Ok(layout.map(|layout| self.viewed(layout)))
    }

    /// A batch with this tensor as its only sample. Nothing is copied.
    pub(crate) fn as_batch(&self) -> Tensor {
        self.viewed(self.layout.as_batch())
    }

    /// Returns a strided view of a contiguous tensor, starting at element `first`; `None` if it exceeds the
    /// tensor.
    #[cfg(any(test, feature = "lab"))]
    pub(crate) fn restrided(
        &self,
        first: usize,
        shape: &[usize],
        strides: &[isize],
    ) -> Option<Tensor> {
        let (layout, before, places) = Layout::strided(shape, strides)?;
        let start = first.checked_sub(before)?;
        let fits = self.is_contiguous() && start.checked_add(places)? <= self.len();
        let start = self.layout.offset() + start;
        fits.then(|| self.viewed(layout.from(start)))
    }

    fn viewed(&self, layout: Layout) -> Tensor {
        Tensor {
            layout,
            ..self.clone()
        }
    }
}
