//! One file for each operator: its computation, error propagation, cost, cases, and golden files.
//!
//! A new operator requires a file, its `mod` line, an arm of `of` and a line of `CASES`. A new pointwise
//! function is defined in `pointwise.rs` alone, a new operation of reductions in `reduction.rs`.

use op_spec::graph::LayerProblem;

use crate::Cases;

pub mod arithmetic;
pub mod batch_norm;
pub mod cat;
pub mod conv;
pub mod conv_transpose;
pub mod flatten;
pub mod gate;
pub mod group_norm;
pub mod instance_norm;
pub mod layer_norm;
pub mod linear;
pub mod max_pool2d;
pub mod narrow;
mod operator;
pub mod pad;
pub mod pointwise;
pub mod pool;
pub mod prelu;
pub mod reduction;
pub mod scale;
pub mod shuffle;
pub mod softmax;
pub mod upsample;

pub use operator::{Given, Operator};

/// The operator of a layer.
pub(crate) fn of(layer: &LayerProblem) -> &dyn Operator {
    match layer {
        LayerProblem::Linear(problem) => problem,
        LayerProblem::Flatten(problem) => problem,
        LayerProblem::Reshape(problem) => problem,
        LayerProblem::Cat(problem) => problem,
        LayerProblem::Gate(problem) => problem,
        LayerProblem::Narrow(problem) => problem,
        LayerProblem::Shuffle(problem) => problem,
        LayerProblem::Pad(problem) => problem,
        LayerProblem::Conv1d(problem) => problem,
        LayerProblem::Conv2d(problem) => problem,
        LayerProblem::Conv3d(problem) => problem,
        LayerProblem::ConvTranspose1d(problem) => problem,
        LayerProblem::ConvTranspose2d(problem) => problem,
        LayerProblem::ConvTranspose3d(problem) => problem,
        LayerProblem::GroupNorm(problem) => problem,
        LayerProblem::InstanceNorm(problem) => problem,
        LayerProblem::LayerNorm(problem) => problem,
        LayerProblem::BatchNorm(problem) => problem,
        LayerProblem::Scale(problem) => problem,
        LayerProblem::Prelu(problem) => problem,
        LayerProblem::MaxPool2d(problem) => &problem.pool,
        LayerProblem::Arithmetic(problem) => problem,
        LayerProblem::MaxPool3d(problem) => &problem.pool,
        LayerProblem::AvgPool2d(problem) => &problem.pool,
        LayerProblem::AvgPool3d(problem) => &problem.pool,
        LayerProblem::AdaptiveAvgPool2d(problem) => &problem.pool,
        LayerProblem::AdaptiveAvgPool3d(problem) => &problem.pool,
        LayerProblem::Reduction(problem) => problem,
        LayerProblem::Upsample(problem) => problem,
        LayerProblem::Softmax(problem) => problem,
        LayerProblem::LogSoftmax(problem) => &problem.softmax,
        LayerProblem::Pointwise(problem) => problem,
        _ => unreachable!("every operator is defined here"),
    }
}

/// The cases of all operators.
pub(crate) fn all() -> impl Iterator<Item = &'static Cases> {
    let others = reduction::CASES.iter().chain(softmax::CASES);
    let others = others.chain(pointwise::CASES);
    CASES.iter().chain(arithmetic::CASES).chain(others)
}

/// The cases of all operators except arithmetic, reductions, softmax and pointwise functions.
const CASES: &[Cases] = &[
    conv::CONV1D,
    conv::CONV2D,
    conv::CONV3D,
    conv_transpose::CONV_TRANSPOSE1D,
    conv_transpose::CONV_TRANSPOSE2D,
    conv_transpose::CONV_TRANSPOSE3D,
    linear::CASES,
    flatten::CASES,
    flatten::RESHAPE,
    cat::CASES,
    narrow::CASES,
    gate::CASES,
    shuffle::CHANNEL_SHUFFLE,
    shuffle::PIXEL_SHUFFLE,
    shuffle::PIXEL_UNSHUFFLE,
    pad::CASES,
    group_norm::CASES,
    instance_norm::CASES,
    layer_norm::CASES,
    batch_norm::CASES,
    scale::CASES,
    prelu::CASES,
    max_pool2d::CASES,
    pool::MAX_POOL3D,
    pool::AVG_POOL2D,
    pool::AVG_POOL3D,
    pool::ADAPTIVE_AVG_POOL2D,
    pool::ADAPTIVE_AVG_POOL3D,
    upsample::CASES,
];
