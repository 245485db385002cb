//! Group, instance and batch norm of channels-last tensors, followed by pointwise functions and residuals.

use kernels_gpu::norm_nhwc::{NORM_NHWC, NORM_NHWC_MOMENTS};
use launch_config::Refusal;
use launch_config::implicit_gemm::combining;
use launch_config::norm::NormGeometry;
use launch_config::norm_nhwc::NormNhwcGeometry;
use op_spec::Layout;

use super::convolved::{Convolved, RowMoments};
use crate::device::{DType, Order};
use crate::error::Result;
use crate::operators::batch_norm_parameters::{self, FoldedInKernel, OfBatch, Statistics};
use crate::operators::launching::{Affine, compute};
use crate::operators::norm_statistics::NormInput;
use crate::operators::pointwise::{self, ListStep};
use crate::program::{ProgramBuilder, Value};
use crate::spec::BatchNormProblem;

/// The parameters of a norm.
pub(crate) enum Parameters<'a> {
    /// Weight and bias and, with the batch's statistics, the batch norm.
    Affine(Affine, Option<OfBatch<'a>>),
    /// Those of a batch norm with running statistics.
    Running(Statistics, BatchNormProblem),
}

/// The launches of a norm. With the batch's statistics or running ones, it is the instance norm of one sample
/// with the pixels of all samples.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NormNhwc {
    norm: NormGeometry,
}

impl NormNhwc {
    /// Makes the launches of `norm`.
    ///
    /// # Errors
    /// The error of [`NormNhwcGeometry::statistics`].
    pub(crate) fn new(norm: &NormGeometry) -> Result<Self, Refusal> {
        NormNhwcGeometry::statistics(norm, DType::F32.size())?;
        Ok(Self { norm: *norm })
    }

    /// Appends the launches for the statistics of `x`.
    fn statistics(
        geometry: &NormNhwcGeometry,
        program: &mut ProgramBuilder,
        x: Value,
        affine: Affine,
        of_batch: Option<OfBatch<'_>>,
    ) -> Result<NormInput> {
        let count = geometry.moments_of_row();
        let combining = match of_batch {
            // The kernel that renews running statistics also combines the moments.
            Some(_) => [None; 2],
            None => combining(count, 1),
        };
        let of_rows = RowMoments { count, combining };
        let (label, shape) = (program.label(x), geometry.shape());
        let elements = geometry.moment_elements() as usize;
        let moments = program.tensor(&[elements], DType::F32)?;
        let arguments = (x, moments, *geometry);
        // SAFETY: `x` is channels-last and has the norm's elements; `moments` has room for the statistics.
        unsafe { program.launch(&NORM_NHWC_MOMENTS, &label, shape, arguments)? }
        let convolved = Convolved { y: x, moments };
        let input = convolved.statistics(program, affine, geometry.norm, of_rows)?;
        match of_batch {
            Some(of_batch) => batch_norm_parameters::of_batch(program, input, of_batch),
            None => Ok(input),
        }
    }

    /// Appends the launches. `x`, residuals and the result are channels-last.
    pub(crate) fn append(
        &self,
        program: &mut ProgramBuilder,
        x: Value,
        parameters: Parameters<'_>,
        list: &[ListStep<Value>],
    ) -> Result<Value> {
        let geometry = NormNhwcGeometry::statistics(&self.norm, program.dtype(x).size());
        let geometry = geometry.expect("a norm that `new` has accepted");
        let mut apply = geometry.apply();
        let (partials, running) = match parameters {
            Parameters::Affine(affine, of_batch) => {
                let input = Self::statistics(&geometry, program, x, affine, of_batch)?;
                apply.norm = input.norm;
                let mut running = FoldedInKernel::of(program, None)?;
                running.values = [None, None, affine.weight, affine.bias];
                (Some(input.partials), running)
            }
            Parameters::Running(statistics, problem) => {
                let norm = Some((statistics, problem));
                (None, FoldedInKernel::of(program, norm)?)
            }
        };
        let [running_mean, running_var, weight, bias] = running.values;
        let (operands, residual, rest) = pointwise::first_list(list);
        let shape = program.shape(x).to_vec();
        let order = Order::of_layout(&shape, Layout::Nhwc)?;
        let y = program.tensor_as(&shape, program.dtype(x), order)?;
        let label = program.label(x);
        let arguments = (
            x,
            partials,
            running_mean,
            running_var,
            weight,
            bias,
            residual,
            y,
            apply,
            running.geometry,
            running.ty,
            running.presence,
            operands,
        );
        // SAFETY: `x`, `y` and a residual are channels-last and have the norm's elements. The statistics are
        // those of its rows, or the running ones of its channels. Weight and bias have a value per channel if
        // the norm says that they are present.
        let y = unsafe { compute(program, &NORM_NHWC, &label, apply.shape(), y, arguments)? };
        pointwise::append(program, y, rest)
    }
}
