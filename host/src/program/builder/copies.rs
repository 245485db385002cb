//! Copies of values that are not dense, or of another element type.

use kernels_gpu::copy_strided::COPY_STRIDED;
use launch_config::copy_strided::{Collapsed, CopyGeometry};
use op_spec::Layout;

use super::super::{Value, ValueFacts};
use super::ProgramBuilder;
use crate::device::{DType, Order};
use crate::error::Result;

impl ProgramBuilder {
    /// Returns `x` if it is dense, else a dense copy, for which it appends a launch. A value is copied only
    /// once.
    ///
    /// # Errors
    /// As [`copied_as`](Self::copied_as).
    pub(crate) fn in_order(&mut self, x: Value) -> Result<Value> {
        let ValueFacts { order, nchw, .. } = &self.values[x.0];
        match (order, nchw) {
            (Order::Dense, _) => Ok(x),
            (_, Some(dense)) => Ok(*dense),
            (_, None) => {
                let dense = self.copied(x, self.dtype(x))?;
                self.values[x.0].nchw = Some(dense);
                Ok(dense)
            }
        }
    }

    /// Returns `x` if it is dense in this layout, else a copy that is, for which it appends launches. A value
    /// is copied only once.
    ///
    /// # Errors
    /// As [`copied_as`](Self::copied_as).
    pub(crate) fn in_layout(&mut self, x: Value, layout: Layout) -> Result<Value> {
        let ValueFacts {
            order, nhwc, shape, ..
        } = &self.values[x.0];
        let wanted = Order::of_layout(shape, layout)?;
        match (&wanted, nhwc) {
            _ if *order == wanted => return Ok(x),
            // NHWC with one channel or one position is also NCHW.
            (Order::Dense, _) => return self.in_order(x),
            (_, Some(copy)) => return Ok(*copy),
            (_, None) => {}
        }
        let dense = self.in_order(x)?;
        let (shape, dtype) = (self.shape(x).to_vec(), self.dtype(x));
        let seen = with_channels_last(&shape)?;
        let y = self.copied_as(dense, &seen, dtype, &shape, wanted)?;
        self.values[x.0].nhwc = Some(y);
        Ok(y)
    }

    /// Returns `x`, which is dense, as `dtype`. If the type differs, a launch makes a copy.
    ///
    /// # Errors
    /// As [`copied_as`](Self::copied_as).
    pub(crate) fn converted(&mut self, x: Value, dtype: DType) -> Result<Value> {
        match self.dtype(x) == dtype {
            true => Ok(x),
            false => self.copied(x, dtype),
        }
    }

    /// Appends the launch that makes a dense copy of `x` as `dtype`.
    pub(crate) fn copied(&mut self, x: Value, dtype: DType) -> Result<Value> {
        let ValueFacts { shape, order, .. } = &self.values[x.0];
        let (shape, order) = (shape.clone(), *order);
        self.copied_as(x, &order, dtype, &shape, Order::Dense)
    }

    /// Appends a launch that copies `x`. The source is the memory of `x`, read in the order `seen`; the
    /// target is the memory of a new tensor with this type, shape and order, written row by row.
    ///
    /// # Errors
    /// [`TooManyBlocks`](crate::Error::TooManyBlocks); as [`tensor`](Self::tensor).
    pub(crate) fn copied_as(
        &mut self,
        x: Value,
        seen: &Order,
        dtype: DType,
        shape: &[usize],
        order: Order,
    ) -> Result<Value> {
        let geometry = copy_geometry(seen, shape.iter().product())?;
        let y = self.tensor_as(shape, dtype, order)?;
        let labels = [self.dtype(x), dtype].map(DType::label);
        // SAFETY: `seen` is an order of the memory of `x`, which therefore has the geometry's elements; `y`
        // has as many elements.
        unsafe { self.launch(&COPY_STRIDED, &labels, geometry.shape(), (x, y, geometry))? };
        Ok(y)
    }
}

/// Returns the order of a dense NCHW tensor whose channels are listed as the last axis.
fn with_channels_last(shape: &[usize]) -> Result<Order> {
    let last = shape.len() - 1;
    let mut seen = shape.to_vec();
    seen[1..].rotate_left(1);
    let axes: Vec<usize> = [0, last].into_iter().chain(1..last).collect();
    Order::of_axes(&seen, &axes)
}

/// Returns the copy of a dense tensor with these samples, channels and pixels to channels-last.
pub(crate) fn channels_last(extents: [usize; 3]) -> Result<CopyGeometry> {
    copy_geometry(&with_channels_last(&extents)?, 0)
}

/// Returns the copy of a tensor of layout `order`. `len` is the number of elements of a dense tensor.
fn copy_geometry(order: &Order, len: usize) -> Result<CopyGeometry> {
    Ok(match order {
        Order::Dense => CopyGeometry::new(&Collapsed::new(&[len], &[1])?, true),
        Order::Strided { axes, is_aligned } => CopyGeometry::new(axes, *is_aligned),
    })
}
