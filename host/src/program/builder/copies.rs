//! Copies of values that are not dense, or of another element type.

use kernels_gpu::copy_strided::COPY_STRIDED;
use launch_config::copy_strided::{Collapsed, CopyGeometry};

use super::super::planned::LaunchPlan;
use super::super::{Value, ValueFacts};
use super::ProgramBuilder;
use crate::device::{DType, Order};
use crate::error::Result;

impl ProgramBuilder {
    /// `x`, or where it is not dense a copy that is, by the next launch of the configuration. A value is
    /// copied once.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub(crate) fn in_order(&mut self, x: Value) -> Result<Value> {
        let ValueFacts { order, dense, .. } = &self.values[x.0];
        match (order, dense) {
            (Order::Dense, _) => Ok(x),
            (_, Some(dense)) => Ok(*dense),
            (_, None) => {
                let dense = self.copied(x, self.dtype(x))?;
                self.values[x.0].dense = Some(dense);
                Ok(dense)
            }
        }
    }

    /// `x`, which is dense, as `dtype`: a copy, in front of the next launch of the configuration, where it
    /// has another type.
    ///
    /// # Errors
    /// [`Error::TooManyBlocks`]
    pub(crate) fn converted(&mut self, x: Value, dtype: DType) -> Result<Value> {
        match self.dtype(x) == dtype {
            true => Ok(x),
            false => {
                let ValueFacts { shape, order, .. } = &self.values[x.0];
                let mut copy = LaunchPlan::default();
                let types = [self.dtype(x), dtype];
                plan_copy(&mut copy, order, shape.iter().product(), types)?;
                for launch in copy.launches {
                    self.plan_next(launch);
                }
                self.copied(x, dtype)
            }
        }
    }

    /// Appends the launch that makes a dense copy of `x` as `dtype`.
    pub(super) fn copied(&mut self, x: Value, dtype: DType) -> Result<Value> {
        let ValueFacts { shape, order, .. } = &self.values[x.0];
        let (geometry, shape) = (copy_geometry(order, shape.iter().product())?, shape.clone());
        let y = self.tensor(&shape, dtype)?;
        let (kernel, shape) = self.next(&COPY_STRIDED);
        // SAFETY: `x` has its order, whose memory thus has what the geometry says; `y` has as many elements.
        unsafe { self.launch(kernel, shape, (x, y, geometry)) };
        Ok(y)
    }
}

/// Plans the launch that makes a dense tensor of one of layout `order`, which is not dense.
///
/// # Errors
/// [`TooManyBlocks`](crate::Error::TooManyBlocks)
pub(crate) fn plan_reformat(plan: &mut LaunchPlan, order: &Order, dtype: DType) -> Result<()> {
    // The length is that of dense tensors alone.
    plan_copy(plan, order, 0, [dtype; 2])
}

/// Plans the launch that copies a tensor of layout `order`, and of `len` elements if it is dense, from the
/// first of two element types to the second.
pub(super) fn plan_copy(
    plan: &mut LaunchPlan,
    order: &Order,
    len: usize,
    dtypes: [DType; 2],
) -> Result<()> {
    let labels = dtypes.map(DType::label);
    plan.launch(&COPY_STRIDED, &labels, copy_geometry(order, len)?.shape())
}

/// The copy of a tensor of layout `order`, and of `len` elements if it is dense.
fn copy_geometry(order: &Order, len: usize) -> Result<CopyGeometry> {
    Ok(match order {
        Order::Dense => CopyGeometry::new(&Collapsed::new(&[len], &[1])?, true),
        Order::Strided { axes, is_aligned } => CopyGeometry::new(axes, *is_aligned),
    })
}
