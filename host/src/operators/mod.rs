//! The launches of operators: functions that append an operator's launches to a program, and public functions
//! that run a program of one operator once ([`ops`](crate::ops)).

pub(crate) mod arithmetic;
pub(crate) mod batch_norm;
pub(crate) mod batch_norm_parameters;
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
mod own_kernels;
pub(crate) mod pad;
pub(crate) mod pointwise;
pub(crate) mod pointwise_steps;
pub(crate) mod pool;
pub(crate) mod precision;
pub(crate) mod prelu;
mod preparation;
pub(crate) mod reduction;
pub(crate) mod rows;
pub(crate) mod scale;
pub(crate) mod shuffle;
pub(crate) mod softmax;
pub(crate) mod upsample;

pub(crate) use fused::{ConvolutionParameters, Convolved, implicit_gemm};
pub(crate) use launching::{Affine, OwnKernels};
pub(crate) use own_kernels::{append_layer, own_kernels};
pub(crate) use precision::{FusedOptions, Precision};
#[cfg(test)]
pub(crate) use preparation::Preparation;
pub(crate) use preparation::{Preparations, Prepared};
