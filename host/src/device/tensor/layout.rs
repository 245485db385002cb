//! The layout of a tensor's elements in memory.

use std::ops::Range;

use crate::error::{Error, Result};

/// Extents and strides of an array in memory. Element `i` is at index `offset + sum(i[k] * strides[k])` of
/// the memory, which is never negative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    shape: Box<[usize]>,
    /// `None` if the elements are dense and row-major.
    strides: Option<Box<[isize]>>,
    offset: usize,
}

impl Layout {
    /// A dense, row-major layout.
    pub(crate) fn contiguous(shape: &[usize]) -> Layout {
        Layout {
            shape: shape.into(),
            strides: None,
            offset: 0,
        }
    }

    /// Makes a layout with these strides, in elements. Also returns the number of elements in memory before
    /// its first element, and the number of elements that it spans. `None` for more bytes than an address
    /// space has.
    pub(crate) fn strided(shape: &[usize], strides: &[isize]) -> Option<(Layout, usize, usize)> {
        let mut layout = Layout::contiguous(shape);
        let (mut before, mut after) = (0usize, 0usize);
        if shape.contains(&0) {
            return Some((layout, 0, 0));
        }
        for (&extent, &stride) in shape.iter().zip(strides) {
            let reach = (extent - 1).checked_mul(stride.unsigned_abs())?;
            let side = if stride < 0 { &mut before } else { &mut after };
            *side = side.checked_add(reach)?;
        }
        layout.offset = before;
        layout.strides = unless_dense(shape, strides);
        let all = before.checked_add(after)?.checked_add(1)?;
        isize::try_from(all)
            .is_ok()
            .then_some((layout, before, all))
    }

    pub(crate) fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The distance in elements between neighbouring indices, per axis.
    pub(crate) fn strides(&self) -> Vec<isize> {
        match &self.strides {
            Some(strides) => strides.to_vec(),
            None => row_major(&self.shape).collect(),
        }
    }

    pub(crate) fn is_contiguous(&self) -> bool {
        self.strides.is_none()
    }

    /// The index in memory of the element with all indices 0.
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    /// The number of elements.
    pub(crate) fn len(&self) -> usize {
        // An extent of 0 is checked first, since the product of the others may overflow.
        match self.shape.contains(&0) {
            true => 0,
            false => self.shape.iter().product(),
        }
    }

    /// Returns the first used index in memory, and the number of elements from there to the last.
    pub(crate) fn span(&self) -> (usize, usize) {
        if self.is_contiguous() || self.len() == 0 {
            return (self.offset, self.len());
        }
        let (mut before, mut after) = (0, 0);
        for (&extent, stride) in self.shape.iter().zip(self.strides()) {
            let reach = (extent - 1) * stride.unsigned_abs();
            *(if stride < 0 { &mut before } else { &mut after }) += reach;
        }
        (self.offset - before, before + after + 1)
    }

    /// Moves the layout by `places` elements.
    #[cfg(any(test, feature = "lab"))]
    pub(crate) fn from(self, places: usize) -> Layout {
        Layout {
            offset: self.offset + places,
            ..self
        }
    }

    /// Selects every `step`-th index of a range of an axis.
    ///
    /// # Errors
    /// [`Error::NoSuchAxis`], [`Error::BadSlice`]
    pub(crate) fn slice(&self, axis: usize, range: Range<usize>, step: usize) -> Result<Layout> {
        must_be_axis("slice", axis, self.shape.len())?;
        let (Range { start, end }, extent) = (range, self.shape[axis]);
        if start > end || end > extent || step == 0 {
            return Err(Error::BadSlice {
                axis,
                start,
                end,
                step,
                extent,
            });
        }
        let mut layout = self.clone();
        layout.shape[axis] = (end - start).div_ceil(step);
        let mut strides = self.strides();
        let stride = strides[axis];
        if layout.shape[axis] > 1 {
            // Two indices of the axis have this distance, so their distance in memory does not overflow.
            strides[axis] = stride * step as isize;
        }
        // The stride of an axis of extent 1 does not matter.
        layout.strides = unless_dense(&layout.shape, &strides);
        if layout.len() != 0 {
            // Element `start` of the axis exists, so the sum is an index in the memory.
            layout.offset = layout.offset.wrapping_add_signed(stride * start as isize);
        }
        Ok(layout)
    }

    /// Permutes the axes.
    ///
    /// # Errors
    /// [`Error::NoPermutation`]
    pub(crate) fn permute(&self, axes: &[usize]) -> Result<Layout> {
        let rank = self.shape.len();
        if axes.len() != rank || !(0..rank).all(|axis| axes.contains(&axis)) {
            return Err(Error::NoPermutation {
                axes: axes.to_vec(),
                rank,
            });
        }
        let strides = self.strides();
        let strides: Vec<isize> = axes.iter().map(|&axis| strides[axis]).collect();
        let shape: Box<[usize]> = axes.iter().map(|&axis| self.shape[axis]).collect();
        Ok(Layout {
            strides: unless_dense(&shape, &strides),
            shape,
            offset: self.offset,
        })
    }

    /// Adds a leading axis of extent 1.
    pub(crate) fn as_batch(&self) -> Layout {
        let behind_one = |of: &[isize]| [&[0], of].concat().into_boxed_slice();
        Layout {
            shape: [&[1], &*self.shape].concat().into(),
            strides: self.strides.as_deref().map(behind_one),
            offset: self.offset,
        }
    }

    /// Returns the same elements in row-major order under another shape; `None` if they are not dense.
    ///
    /// # Errors
    /// [`Error::BadReshape`].
    pub(crate) fn reshape(&self, shape: &[usize]) -> Result<Option<Layout>> {
        // The product of the non-zero extents must not overflow, even if another extent is 0.
        let product = |product: usize, &extent: &usize| product.checked_mul(extent.max(1));
        let len = shape.iter().try_fold(1, product);
        let len = len.filter(|&len| len <= op_spec::MAX_ELEMENTS);
        let len = len.map(|len| if shape.contains(&0) { 0 } else { len });
        if len != Some(self.len()) {
            return Err(Error::BadReshape {
                actual: self.shape.to_vec(),
                wanted: shape.to_vec(),
            });
        }
        Ok(self.is_contiguous().then(|| Layout {
            shape: shape.into(),
            ..self.clone()
        }))
    }
}

/// Returns these strides, or `None` if they are dense and row-major. The stride of an axis of extent 1 does
/// not matter.
fn unless_dense(shape: &[usize], strides: &[isize]) -> Option<Box<[isize]>> {
    let mut axes = row_major(shape).zip(strides).zip(shape);
    let has_gaps = axes.any(|((dense, &stride), &extent)| extent > 1 && dense != stride);
    (has_gaps && !shape.contains(&0)).then(|| strides.into())
}

/// Returns the strides of a dense array in row-major order. The strides of an empty array are unused and may
/// wrap.
fn row_major(shape: &[usize]) -> impl Iterator<Item = isize> {
    (0..shape.len()).map(|axis| {
        let behind = shape[axis + 1..].iter();
        behind.fold(1isize, |product, &extent| {
            product.wrapping_mul(extent.max(1) as isize)
        })
    })
}

/// Refuses an axis that a tensor of this rank does not have.
pub(crate) fn must_be_axis(operator: &'static str, axis: usize, rank: usize) -> Result<()> {
    match axis < rank {
        true => Ok(()),
        false => Err(Error::NoSuchAxis {
            operator,
            axis,
            rank,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_last_spans_what_row_major_does() {
        let (layout, before, all) = Layout::strided(&[2, 3, 4, 5], &[60, 1, 15, 3]).unwrap();
        assert_eq!((before, all), (0, 120));
        assert!(!layout.is_contiguous());
        assert_eq!(layout.span(), (0, 120));
        assert_eq!(layout.slice(0, 1..2, 1).unwrap().span(), (60, 60));
    }

    #[test]
    fn strides_of_extents_of_one_do_not_matter() {
        let (layout, _, all) = Layout::strided(&[1, 3, 1, 5], &[7, 5, 9, 1]).unwrap();
        assert!(layout.is_contiguous());
        assert_eq!(all, 15);
    }

    #[test]
    fn no_elements_span_nothing_whatever_the_other_extents() {
        let (layout, _, all) = Layout::strided(&[0, 1 << 62, 1 << 62], &[1, 1, 1]).unwrap();
        assert_eq!((layout.len(), all), (0, 0));
        assert_eq!(Layout::contiguous(&[1 << 62, 0, 1 << 62]).len(), 0);
    }

    #[test]
    fn one_sample_of_a_batch_with_gaps_is_contiguous() {
        let (batch, _, _) = Layout::strided(&[3, 2, 4], &[100, 4, 1]).unwrap();
        assert!(!batch.is_contiguous());
        assert!(!batch.slice(0, 0..2, 1).unwrap().is_contiguous());
        let sample = batch.slice(0, 1..2, 1).unwrap();
        assert!(sample.is_contiguous());
        assert_eq!((sample.offset(), sample.span()), (100, (100, 8)));
        let flat = sample.reshape(&[8]).unwrap().unwrap();
        assert_eq!((flat.offset(), flat.strides()), (100, vec![1]));
        assert!(batch.slice(0, 3..3, 1).unwrap().is_contiguous());
        let (last, _, _) = Layout::strided(&[2, 2, 3], &[6, 1, 2]).unwrap();
        assert!(!last.slice(0, 0..1, 1).unwrap().is_contiguous());
    }

    #[test]
    fn slices_beyond_the_end_and_scalars_are_refused() {
        let layout = Layout::contiguous(&[4, 2]);
        for (start, end) in [(0, 5), (3, 2), (5, 5)] {
            assert!(layout.slice(0, start..end, 1).is_err());
        }
        assert!(Layout::contiguous(&[]).slice(0, 0..0, 1).is_err());
        assert_eq!(layout.slice(0, 4..4, 1).unwrap().len(), 0);
        // A slice from an index on, with a step.
        let odd = Layout::contiguous(&[2, 7]).slice(1, 3..7, 2).unwrap();
        assert_eq!((odd.offset(), odd.span()), (3, (3, 10)));
        assert_eq!(odd.strides(), [7, 2]);
        let rounded = Layout::contiguous(&[7]).slice(0, 0..7, 3).unwrap();
        assert_eq!((rounded.shape(), rounded.span()), (&[3][..], (0, 7)));
    }

    #[test]
    fn permutations_have_each_axis_once() {
        let layout = Layout::contiguous(&[4, 2]);
        for axes in [&[0][..], &[0, 0], &[0, 2], &[0, 1, 1], &[1, 0, 0]] {
            assert!(layout.permute(axes).is_err(), "{axes:?}");
        }
        assert!(layout.permute(&[1, 0]).is_ok());
    }

    #[test]
    fn reshape_keeps_the_elements() {
        let layout = Layout::contiguous(&[4, 6]).slice(0, 1..3, 1).unwrap();
        let reshaped = layout.reshape(&[3, 4]).unwrap().unwrap();
        assert_eq!((reshaped.offset(), reshaped.len()), (6, 12));
        assert!(layout.reshape(&[5]).is_err());
        assert!(layout.reshape(&[usize::MAX, 2]).is_err());
        let empty = layout.slice(0, 0..0, 1).unwrap();
        assert!(empty.reshape(&[3, 0]).is_ok());
        assert!(empty.reshape(&[0, 1 << 62, 1 << 62]).is_err());
        let (last, _, _) = Layout::strided(&[2, 3], &[1, 2]).unwrap();
        assert_eq!(last.reshape(&[6]).unwrap(), None);
    }
}
