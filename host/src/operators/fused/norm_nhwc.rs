//! Group and instance norm of channels-last tensors, and batch norm with the batch's statistics, followed by
//! pointwise functions and residuals.

use kernels_gpu::norm_nhwc::{NORM_NHWC, NORM_NHWC_MOMENTS};
use launch_config::Refusal;
use launch_config::implicit_gemm::combining;
use launch_config::norm::NormGeometry;
use launch_config::norm_nhwc::NormNhwcGeometry;
use op_spec::Layout;

use super::convolved::{Convolved, RowMoments};
use crate::device::{DType, Order};
use crate::error::Result;
use crate::operators::batch_norm::{self, OfBatch};
use crate::operators::launching::{Affine, compute};
use crate::operators::pointwise::{self, ListStep};
use crate::program::{LaunchPlan, ProgramBuilder, Value};

/// The launches of a norm.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NormNhwc {
    statistics: NormNhwcGeometry,
    moments: RowMoments,
    /// Whether the statistics are the batch's. Its samples are then one sample of the norm.
    over_batch: bool,
}

impl NormNhwc {
    /// Makes the launches of `norm`.
    ///
    /// # Errors
    /// The error of [`NormNhwcGeometry::statistics`].
    pub(crate) fn new(norm: &NormGeometry) -> Result<Self, Refusal> {
        let statistics = NormNhwcGeometry::statistics(norm)?;
        let count = statistics.moments_of_row();
        let combining = combining(count, 1);
        let moments = RowMoments { count, combining };
        Ok(Self {
            statistics,
            moments,
            over_batch: false,
        })
    }

    /// Makes the launches of a batch norm with the batch's statistics. `norm` is the instance norm of one
    /// sample with the pixels of all samples. The kernel that renews running statistics also combines the
    /// moments.
    ///
    /// # Errors
    /// The error of [`NormNhwcGeometry::statistics`].
    pub(crate) fn over_batch(norm: &NormGeometry) -> Result<Self, Refusal> {
        let statistics = NormNhwcGeometry::statistics(norm)?;
        let moments = RowMoments {
            count: statistics.moments_of_row(),
            combining: [None; 2],
        };
        Ok(Self {
            statistics,
            moments,
            over_batch: true,
        })
    }

    /// Plans the launches of the norm, and the steps of a list.
    pub(crate) fn plan<R: Copy>(
        &self,
        plan: &mut LaunchPlan,
        dtype: DType,
        list: &[ListStep<R>],
    ) -> Result<()> {
        let label = [dtype.label()];
        let norm = &self.statistics.norm;
        plan.launch(&NORM_NHWC_MOMENTS, &label, self.statistics.shape())?;
        self.moments.plan(plan, norm)?;
        if self.over_batch {
            batch_norm::plan_of_batch(plan, self.moments.combined(*norm))?;
        }
        plan.launch(&NORM_NHWC, &label, self.statistics.apply().shape())?;
        let (_, _, rest) = pointwise::first_list(list);
        pointwise::plan(plan, dtype, norm.elements(), rest)
    }

    /// Appends the launches. `x`, residuals and the result are channels-last. With the batch's statistics,
    /// `of_batch` is the batch norm.
    pub(crate) fn append(
        &self,
        program: &mut ProgramBuilder,
        x: Value,
        (affine, of_batch): (Affine, Option<OfBatch<'_>>),
        list: &[ListStep<Value>],
    ) -> Result<Value> {
        let (kernel, shape) = program.next(&NORM_NHWC_MOMENTS);
        let elements = self.statistics.moment_elements() as usize;
        let moments = program.tensor(&[elements], DType::F32)?;
        // SAFETY: `x` is channels-last and has the norm's elements; `moments` has room for the statistics.
        unsafe { program.launch(kernel, shape, (x, moments, self.statistics)) }
        let norm = self.statistics.norm;
        let convolved = Convolved { y: x, moments };
        let mut input = convolved.statistics(program, affine, norm, self.moments)?;
        if let Some(of_batch) = of_batch {
            input = batch_norm::of_batch(program, input, of_batch)?;
        }
        let apply = NormNhwcGeometry {
            norm: input.norm,
            ..self.statistics.apply()
        };
        let (operands, residual, rest) = pointwise::first_list(list);
        let shape = program.shape(x).to_vec();
        let order = Order::of_layout(&shape, Layout::Nhwc)?;
        let y = program.tensor_as(&shape, program.dtype(x), order)?;
        let Affine { weight, bias } = affine;
        let arguments = (
            x,
            input.partials,
            weight,
            bias,
            residual,
            y,
            apply,
            operands,
        );
        // SAFETY: `x`, `y` and a residual are channels-last and have the norm's elements. The statistics are
        // those of its rows. Weight and bias have a value per channel if the norm says that they are present.
        let y = unsafe { compute(program, &NORM_NHWC, y, arguments) };
        pointwise::append(program, y, rest)
    }
}
