//! Operators that kernels compute by themselves.

use launch_config::KernelGeometry;
use launch_config::conv::ChannelTile;
use launch_config::softmax::SoftmaxGeometry;

use super::pointwise::ListStep;
use super::{
    Affine, arithmetic, batch_norm, conv, group_norm, layer_norm, pointwise, pool, prelu,
    reduction, scale, softmax, upsample,
};
use crate::error::Result;
use crate::graph::LayerProblem;
use crate::parameters::MAX_PARAMETERS;
use crate::program::{ProgramBuilder, Value};
use crate::spec::{
    ArithmeticProblem, BatchNormProblem, ConvProblem, GroupNormProblem, InstanceNormProblem,
    LayerNormProblem, PointwiseProblem, PoolProblem, PreluProblem, ReductionProblem, ScaleProblem,
    SoftmaxProblem, UpsampleProblem,
};

/// An operator with kernels of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Operator {
    /// A linear map.
    Linear(ConvProblem<0>),
    Conv1d(ConvProblem<1>),
    Conv2d(ConvProblem<2>),
    Conv3d(ConvProblem<3>),
    /// A copy. Its region gives it another shape.
    Copy,
    GroupNorm(GroupNormProblem),
    InstanceNorm(InstanceNormProblem),
    LayerNorm(LayerNormProblem),
    BatchNorm(BatchNormProblem),
    Scale(ScaleProblem),
    Prelu(PreluProblem),
    Softmax(SoftmaxProblem),
    /// A maximum pool, or an average pool.
    Pool(PoolProblem),
    /// An average pool with a given output.
    AdaptivePool(PoolProblem),
    Upsample(UpsampleProblem),
    Reduction(ReductionProblem),
    Arithmetic(ArithmeticProblem),
    Pointwise(PointwiseProblem),
}

impl Operator {
    /// The operator of a layer, if it has kernels of its own.
    pub(crate) fn of(problem: &LayerProblem) -> Option<Self> {
        Some(match *problem {
            LayerProblem::Linear(problem) => Self::Linear(problem),
            LayerProblem::Conv1d(problem) => Self::Conv1d(problem),
            LayerProblem::Conv2d(problem) => Self::Conv2d(problem),
            LayerProblem::Conv3d(problem) => Self::Conv3d(problem),
            LayerProblem::Flatten(_) | LayerProblem::Reshape(_) => Self::Copy,
            LayerProblem::GroupNorm(problem) => Self::GroupNorm(problem),
            LayerProblem::InstanceNorm(problem) => Self::InstanceNorm(problem),
            LayerProblem::LayerNorm(problem) => Self::LayerNorm(problem),
            LayerProblem::BatchNorm(problem) => Self::BatchNorm(problem),
            LayerProblem::Scale(problem) => Self::Scale(problem),
            LayerProblem::Prelu(problem) => Self::Prelu(problem),
            LayerProblem::Softmax(problem) => Self::Softmax(problem),
            LayerProblem::LogSoftmax(problem) => Self::Softmax(problem.softmax),
            LayerProblem::MaxPool2d(problem) => Self::Pool(problem.pool),
            LayerProblem::MaxPool3d(problem) => Self::Pool(problem.pool),
            LayerProblem::AvgPool2d(problem) => Self::Pool(problem.pool),
            LayerProblem::AvgPool3d(problem) => Self::Pool(problem.pool),
            LayerProblem::AdaptiveAvgPool2d(problem) => Self::AdaptivePool(problem.pool),
            LayerProblem::AdaptiveAvgPool3d(problem) => Self::AdaptivePool(problem.pool),
            LayerProblem::Upsample(problem) => Self::Upsample(problem),
            LayerProblem::Reduction(problem) => Self::Reduction(problem),
            LayerProblem::Arithmetic(problem) => Self::Arithmetic(problem),
            LayerProblem::Pointwise(problem) => Self::Pointwise(problem),
            _ => return None,
        })
    }

    /// The tile of a direct convolution.
    pub(crate) fn direct_tile(&self) -> Option<ChannelTile> {
        let geometry = match self {
            Self::Linear(problem) => problem.geometry(),
            Self::Conv1d(problem) => problem.geometry(),
            Self::Conv2d(problem) => problem.geometry(),
            Self::Conv3d(problem) => problem.geometry(),
            _ => return None,
        };
        geometry.ok().map(|geometry| geometry.direct_tile())
    }

    /// Appends the launches to a program, with the parameters in PyTorch's order, or the residual. `x` and
    /// the parameters have the problem's shapes.
    ///
    /// # Errors
    /// Extents that no kernel can index; more blocks than a launch takes.
    pub(crate) fn append(
        &self,
        program: &mut ProgramBuilder,
        x: Value,
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
        match self {
            Self::Linear(problem) => conv::append(program, x, filters(), problem),
            Self::Conv1d(problem) => conv::append(program, x, filters(), problem),
            Self::Conv2d(problem) => conv::append(program, x, filters(), problem),
            Self::Conv3d(problem) => conv::append(program, x, filters(), problem),
            Self::Copy => program.copied(x, program.dtype(x)),
            Self::GroupNorm(problem) => group_norm::append(program, x, affine, problem.geometry()?),
            Self::InstanceNorm(problem) => {
                group_norm::append(program, x, affine, problem.geometry()?)
            }
            Self::LayerNorm(problem) => layer_norm::append(program, x, affine, problem),
            Self::BatchNorm(problem) if problem.of_batch => {
                let parameters = [first, second, third, fourth];
                let (affine, running) = batch_norm::of_layer(problem, parameters);
                batch_norm::append_by_batch(program, x, affine, running, problem)
            }
            Self::BatchNorm(problem) => {
                let statistics = batch_norm::Statistics {
                    mean: weight(),
                    variance: second.expect("the problem was made with both statistics"),
                    weight: third,
                    bias: fourth,
                };
                batch_norm::append(program, x, statistics, problem)
            }
            Self::Scale(problem) => scale::append(program, x, weight(), problem),
            Self::Prelu(problem) => prelu::append(program, x, weight(), problem),
            Self::Softmax(problem) => {
                let geometry = SoftmaxGeometry::of(problem, false)?;
                softmax::append(program, x, geometry, softmax::Operands::NONE)
            }
            Self::Pool(problem) | Self::AdaptivePool(problem) => pool::append(program, x, problem),
            Self::Upsample(problem) => upsample::append(program, x, problem),
            Self::Reduction(problem) => reduction::append(program, x, problem),
            Self::Arithmetic(problem) => arithmetic::append(program, x, weight(), problem),
            Self::Pointwise(problem) => {
                pointwise::append(program, x, &[ListStep::Function(*problem)])
            }
        }
    }
}
