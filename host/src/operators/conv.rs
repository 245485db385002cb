//! Convolution in one to three dimensions, by kernels on FMA units.

mod mean;
mod nhwc;
mod pad;

use cuda_std::Label;
use kernels_gpu::conv::CONV_DIRECT;
use launch_config::KernelGeometry;
use launch_config::conv::ConvGeometry;

pub(crate) use mean::ConvMean;
pub(crate) use nhwc::{append as append_nhwc, plan as plan_nhwc};
pub(crate) use pad::{append as append_pad, plan as plan_pad};

use crate::device::DType;
use crate::error::Result;
use crate::program::{LaunchPlan, ProgramBuilder, Value};
use crate::spec::ConvProblem;

/// The parameters of a convolution.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filters {
    pub(crate) weight: Value,
    pub(crate) bias: Option<Value>,
}

impl Filters {
    /// The bytes of weight and bias.
    pub(super) fn bytes(self, program: &ProgramBuilder) -> u64 {
        let bias = self.bias.map_or(0, |bias| program.bytes(&[bias]));
        program.bytes(&[self.weight]) + bias
    }
}

/// Plans the launches of a convolution of any kind.
pub(crate) fn plan<const D: usize>(
    plan: &mut LaunchPlan,
    dtype: DType,
    problem: &ConvProblem<D>,
) -> Result<()> {
    if is_empty(problem) {
        return Ok(());
    }
    plan_pad(plan, dtype, problem)?;
    // Sequences are images of one row.
    plan_direct(plan, dtype, &problem.geometry()?, (D as u32).max(2))
}

/// Plans the launch of a convolution of volumes, or of images as volumes of depth 1. It has outputs and no
/// separate padding.
pub(super) fn plan_volumes(
    plan: &mut LaunchPlan,
    dtype: DType,
    problem: &ConvProblem<3>,
) -> Result<()> {
    let geometry = problem.geometry()?;
    let are_images = [geometry.d, geometry.t, geometry.z] == [1; 3] && geometry.pad_d == 0;
    let dimensions = if are_images { 2 } else { 3 };
    plan_direct(plan, dtype, &geometry, dimensions)
}

fn plan_direct(
    plan: &mut LaunchPlan,
    dtype: DType,
    geometry: &ConvGeometry,
    dimensions: u32,
) -> Result<()> {
    let tile = geometry.direct_tile();
    let labels = [Label::Number(dimensions), tile.name().into(), dtype.label()];
    plan.launch(&CONV_DIRECT, &labels, geometry.direct_shape(tile))
}

/// Whether there are no outputs.
fn is_empty<const D: usize>(problem: &ConvProblem<D>) -> bool {
    problem.output_shape().contains(&0)
}

/// Appends a convolution of any kind to a program; absent dimensions have extents of 1.
pub(crate) fn append<const D: usize>(
    program: &mut ProgramBuilder,
    x: Value,
    Filters { weight, bias }: Filters,
    problem: &ConvProblem<D>,
) -> Result<Value> {
    let y = program.tensor(&problem.output_shape(), program.dtype(x))?;
    if is_empty(problem) {
        return Ok(y);
    }
    let x = append_pad(program, x, problem)?;
    let geometry = problem.geometry()?;
    let (kernel, shape) = program.next(&CONV_DIRECT);
    let arguments = (x, weight, bias, y, geometry);
    // SAFETY: the values have the shapes that the geometry was made from; the bias is present if the geometry
    // says so; `geometry()` refused planes of 2^31 elements.
    unsafe { program.launch(kernel, shape, arguments) }
    Ok(y)
}
