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

macro_rules! operators {
    ($($Variant:ident $(.$field:ident)?),+) => {
        /// The operator of a layer.
        pub(crate) fn of(layer: &LayerProblem) -> &dyn Operator {
            match layer {
                $(LayerProblem::$Variant(problem) => &(*problem)$(.$field)?,)+
                _ => unreachable!("every operator is defined here"),
            }
        }
    };
}

operators! {
    Linear, Flatten, Reshape, Cat, Gate, Narrow, Shuffle, Pad, Conv1d, Conv2d, Conv3d, ConvTranspose1d,
    ConvTranspose2d, ConvTranspose3d, GroupNorm, InstanceNorm, LayerNorm, BatchNorm, Scale, Prelu,
    Arithmetic, Reduction, Upsample, Softmax, Pointwise, LogSoftmax.softmax, MaxPool2d.pool,
    MaxPool3d.pool, AvgPool2d.pool, AvgPool3d.pool, AdaptiveAvgPool2d.pool, AdaptiveAvgPool3d.pool
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
