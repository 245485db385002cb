//! PyTorch-equal operators on tensors.
//!
//! Each operator checks shapes and attributes first (through [`spec`](crate::spec)), then allocates its
//! output and queues its kernels on the stream of its input; the host does not wait. Parameters on other
//! streams of the device are waited for on the device. Parameters on other devices, or of another element
//! type than the input, are refused.
//!
//! Tensors may have any strides. A tensor that is not dense, row-major and aligned to 16 bytes is copied
//! first by one kernel. Results are dense, and their bits do not depend on the strides.
//!
//! Each operator has a function that appends its launches to a program. Models compose their programs from
//! these; the functions here make a program of one operator and run it once.
//!
//! Elements may be `f32`, `f16` or `bf16`: storage differs, arithmetic is f32 in all cases. On the CPU
//! device the same functions run the ndarray backend.
//!
//! # Numerics
//!
//! `|got - want| <= (4 + sqrt(L)) * eps * cond` against exact arithmetic, with `eps` = 2^-24 for f32 (and one
//! rounding to the storage type on top), `L` the longest chain of additions into one number, and `cond` the
//! operator's own condition: the sum of magnitudes for a convolution, their average for an average, `rstd *
//! |weight| * (|x| + mean|x|) +
//! |y| + |bias|` for a norm by statistics of its input, `|gain * x| + |shift|` for a batch norm. Maxima and clamps are exact; of the
//! functions with exponentials the error is some ulps of the value, however small that is.
//!
//! That holds as long as intermediate values are in range. If a convolution's sum of magnitudes, or a norm's
//! sum or sum of squared deviations, exceeds 3.4e38, or a stored intermediate value exceeds its type, a
//! result may be infinite or NaN although the exact one is not.

pub(crate) mod add;
pub(crate) mod batch_norm;
pub(crate) mod channel_max;
pub(crate) mod conv;
pub(crate) mod fused;
pub(crate) mod group_norm;
pub(crate) mod instance_norm;
mod launching;
pub(crate) mod layer_norm;
pub(crate) mod max_pool2d;
pub(crate) mod norm_statistics;
pub(crate) mod one_launch;
pub(crate) mod pointwise;
pub(crate) mod pool;
mod precision;
pub(crate) mod prelu;
pub(crate) mod scale;

pub use add::add;
pub use batch_norm::batch_norm;
pub use channel_max::channel_max;
pub use conv::{
    ConvAlgorithm, ConvOptions, conv1d, conv1d_with, conv2d, conv2d_with, conv3d, conv3d_with,
};
pub use group_norm::group_norm;
pub use instance_norm::instance_norm;
use launch_config::KernelGeometry;
pub use layer_norm::layer_norm;
pub use max_pool2d::max_pool2d;
pub use pointwise::*;
pub use pool::{adaptive_avg_pool2d, adaptive_avg_pool3d, avg_pool2d, avg_pool3d, max_pool3d};
pub use precision::Precision;
pub use prelu::prelu;
pub use scale::scale;

use crate::error::Result;
use crate::graph::LayerProblem;
use crate::program::{ProgramBuilder, Value};

pub(crate) use fused::{ConvolutionParameters, Convolved, Preparations, implicit_gemm};
pub(crate) use launching::Affine;
pub(crate) use precision::FusedOptions;

/// The most parameters that an operator has.
pub(crate) const MAX_PARAMETERS: usize = 4;

/// Appends an operator to a program, with its parameters in PyTorch's order, or its residual. `problem`
/// belongs to `x` and the parameters.
pub(crate) fn append(
    program: &mut ProgramBuilder,
    x: Value,
    problem: &LayerProblem,
    [first, second, third, fourth]: [Option<Value>; MAX_PARAMETERS],
    options: &ConvOptions,
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
        LayerProblem::Conv1d(problem) => conv::append(program, x, filters(), problem, options),
        LayerProblem::Conv2d(problem) => conv::append(program, x, filters(), problem, options),
        LayerProblem::Conv3d(problem) => conv::append(program, x, filters(), problem, options),
        LayerProblem::GroupNorm(problem) => {
            group_norm::append(program, x, affine, problem.geometry()?)
        }
        LayerProblem::InstanceNorm(problem) => {
            group_norm::append(program, x, affine, problem.geometry()?)
        }
        LayerProblem::LayerNorm(problem) => layer_norm::append(program, x, affine, problem),
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
        LayerProblem::MaxPool2d(problem) => max_pool2d::append(program, x, problem),
        LayerProblem::ChannelMax(problem) => channel_max::append(program, x, problem),
        LayerProblem::MaxPool3d(problem) => pool::append(program, x, &problem.pool),
        LayerProblem::AvgPool2d(problem) => pool::append(program, x, &problem.pool),
        LayerProblem::AvgPool3d(problem) => pool::append(program, x, &problem.pool),
        LayerProblem::AdaptiveAvgPool2d(problem) => pool::append(program, x, &problem.pool),
        LayerProblem::AdaptiveAvgPool3d(problem) => pool::append(program, x, &problem.pool),
        LayerProblem::Add(problem) => add::append(program, x, weight(), problem),
        LayerProblem::Pointwise(problem) => {
            pointwise::append(program, x, std::slice::from_ref(problem))
        }
    }
}
