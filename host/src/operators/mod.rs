//! The launches of operators: functions that append an operator's launches to a program, and public functions
//! that run a program of one operator once ([`ops`](crate::ops)).

pub(crate) mod arithmetic;
pub(crate) mod batch_norm;
pub(crate) mod conv;
pub(crate) mod conv_transpose;
pub(crate) mod fused;
pub(crate) mod gate;
pub(crate) mod group_norm;
pub(crate) mod instance_norm;
pub(crate) mod launching;
pub(crate) mod layer_norm;
pub(crate) mod max_pool2d;
pub(crate) mod norm_statistics;
pub(crate) mod one_launch;
pub(crate) mod pad;
pub(crate) mod pointwise;
pub(crate) mod pointwise_steps;
pub(crate) mod pool;
pub(crate) mod precision;
pub(crate) mod prelu;
pub(crate) mod reduction;
pub(crate) mod rows;
pub(crate) mod scale;
pub(crate) mod shuffle;
pub(crate) mod softmax;
pub(crate) mod upsample;

use launch_config::KernelGeometry;
use launch_config::softmax::SoftmaxGeometry;

use self::pointwise::ListStep;
use crate::device::DType;
use crate::error::Result;
use crate::graph::LayerProblem;
use crate::parameters::MAX_PARAMETERS;
use crate::program::{LaunchPlan, ProgramBuilder, Value, plan_dense_copy};

#[cfg(test)]
pub(crate) use fused::Preparation;
pub(crate) use fused::{ConvolutionParameters, Convolved, Preparations, implicit_gemm};
pub(crate) use launching::Affine;
pub(crate) use precision::{FusedOptions, Precision};

/// Plans the launches of a single operator.
///
/// # Errors
/// Extents that no kernel can index; more blocks than a launch takes.
pub(crate) fn plan(plan: &mut LaunchPlan, dtype: DType, problem: &LayerProblem) -> Result<()> {
    match problem {
        LayerProblem::Conv1d(problem) => conv::plan(plan, dtype, problem),
        LayerProblem::Conv2d(problem) => conv::plan(plan, dtype, problem),
        LayerProblem::Conv3d(problem) => conv::plan(plan, dtype, problem),
        LayerProblem::Linear(problem) => conv::plan(plan, dtype, problem),
        LayerProblem::Flatten(problem) => {
            plan_dense_copy(plan, dtype, problem.n * problem.features)
        }
        LayerProblem::Reshape(problem) => plan_dense_copy(plan, dtype, problem.output.elements()),
        LayerProblem::GroupNorm(problem) => group_norm::plan(plan, dtype, &problem.geometry()?),
        LayerProblem::InstanceNorm(problem) => group_norm::plan(plan, dtype, &problem.geometry()?),
        LayerProblem::LayerNorm(problem) => layer_norm::plan(plan, dtype, problem),
        LayerProblem::BatchNorm(problem) => batch_norm::plan(plan, dtype, problem),
        LayerProblem::Scale(problem) => scale::plan(plan, dtype, problem),
        LayerProblem::Prelu(problem) => prelu::plan(plan, dtype, problem),
        LayerProblem::Softmax(problem) => {
            softmax::plan(plan, dtype, &SoftmaxGeometry::of(problem, false)?)
        }
        LayerProblem::LogSoftmax(problem) => {
            softmax::plan(plan, dtype, &SoftmaxGeometry::of(&problem.softmax, false)?)
        }
        LayerProblem::MaxPool2d(problem) => max_pool2d::plan(plan, dtype, problem),
        LayerProblem::Upsample(problem) => upsample::plan(plan, dtype, problem),
        LayerProblem::Reduction(problem) => reduction::plan(plan, dtype, problem),
        LayerProblem::MaxPool3d(problem) => pool::plan(plan, dtype, &problem.pool),
        LayerProblem::AvgPool2d(problem) => pool::plan(plan, dtype, &problem.pool),
        LayerProblem::AvgPool3d(problem) => pool::plan(plan, dtype, &problem.pool),
        LayerProblem::AdaptiveAvgPool2d(problem) => pool::plan(plan, dtype, &problem.pool),
        LayerProblem::AdaptiveAvgPool3d(problem) => pool::plan(plan, dtype, &problem.pool),
        LayerProblem::Arithmetic(problem) => arithmetic::plan(plan, dtype, problem),
        LayerProblem::Pointwise(problem) => {
            let list = [ListStep::<()>::Function(*problem)];
            pointwise::plan(plan, dtype, problem.len as u64, &list)
        }
        _ => unreachable!("every operator is planned here"),
    }
}

/// Appends an operator to a program, with its parameters in PyTorch's order, or its residual. `problem`
/// belongs to `x` and the parameters.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    problem: &LayerProblem,
    [first, second, third, fourth]: [Option<Value>; MAX_PARAMETERS],
) -> Result<Value> {
    let affine = Affine {
        weight: first,
        bias: second,
    };
    let weight = || first.expect("the problem was made with the first parameter");
    let filters = || conv::Filters {
        weight: weight(),
        bias: second,
    };
    match problem {
        LayerProblem::Conv1d(problem) => conv::append(program, x, filters(), problem),
        LayerProblem::Conv2d(problem) => conv::append(program, x, filters(), problem),
        LayerProblem::Conv3d(problem) => conv::append(program, x, filters(), problem),
        LayerProblem::Linear(problem) => conv::append(program, x, filters(), problem),
        // The copy gets its other shape after its region.
        LayerProblem::Flatten(_) | LayerProblem::Reshape(_) => program.copied(x, program.dtype(x)),
        LayerProblem::GroupNorm(problem) => {
            group_norm::append(program, x, affine, problem.geometry()?)
        }
        LayerProblem::InstanceNorm(problem) => {
            group_norm::append(program, x, affine, problem.geometry()?)
        }
        LayerProblem::LayerNorm(problem) => layer_norm::append(program, x, affine, problem),
        LayerProblem::BatchNorm(problem) if problem.of_batch => {
            let parameters = [first, second, third, fourth];
            let (affine, running) = batch_norm::of_layer(problem, parameters);
            batch_norm::append_by_batch(program, x, affine, running, problem)
        }
        LayerProblem::BatchNorm(problem) => {
            let statistics = batch_norm::Statistics {
                mean: weight(),
                variance: second.expect("the problem was made with both statistics"),
                weight: third,
                bias: fourth,
            };
            batch_norm::append(program, x, statistics, problem)
        }
        LayerProblem::Scale(problem) => scale::append(program, x, weight(), problem),
        LayerProblem::Prelu(problem) => prelu::append(program, x, weight(), problem),
        LayerProblem::Softmax(problem) => {
            let geometry = SoftmaxGeometry::of(problem, false)?;
            softmax::append(program, x, geometry, softmax::Operands::NONE)
        }
        LayerProblem::LogSoftmax(problem) => {
            let geometry = SoftmaxGeometry::of(&problem.softmax, false)?;
            softmax::append(program, x, geometry, softmax::Operands::NONE)
        }
        LayerProblem::MaxPool2d(problem) => max_pool2d::append(program, x, problem),
        LayerProblem::Upsample(problem) => upsample::append(program, x, problem),
        LayerProblem::Reduction(problem) => reduction::append(program, x, problem),
        LayerProblem::MaxPool3d(problem) => pool::append(program, x, &problem.pool),
        LayerProblem::AvgPool2d(problem) => pool::append(program, x, &problem.pool),
        LayerProblem::AvgPool3d(problem) => pool::append(program, x, &problem.pool),
        LayerProblem::AdaptiveAvgPool2d(problem) => pool::append(program, x, &problem.pool),
        LayerProblem::AdaptiveAvgPool3d(problem) => pool::append(program, x, &problem.pool),
        LayerProblem::Arithmetic(problem) => arithmetic::append(program, x, weight(), problem),
        LayerProblem::Pointwise(problem) => {
            pointwise::append(program, x, &[ListStep::Function(*problem)])
        }
        _ => unreachable!("every operator is launched here"),
    }
}
