//! The kernels of each operator that has kernels of its own.

use super::launching::{OwnKernels, Parameters};
use crate::error::Result;
use crate::graph::LayerProblem;
use crate::program::{ProgramBuilder, Value};
use crate::spec::{FlattenProblem, ReshapeProblem};

/// Copies, which get another shape in their region.
macro_rules! as_copies {
    ($($Problem:ty),+) => {$(
        impl OwnKernels for $Problem {
            fn append(&self, program: &mut ProgramBuilder, x: Value, _: Parameters) -> Result<Value> {
                program.copied(x, program.dtype(x))
            }
        }
    )+};
}

as_copies!(FlattenProblem, ReshapeProblem);

macro_rules! with_own_kernels {
    ($($Variant:ident),+) => {
        /// The kernels of a layer's operator by itself, if there are any.
        pub(crate) fn own_kernels(problem: &LayerProblem) -> Option<&dyn OwnKernels> {
            match problem {
                $(LayerProblem::$Variant(problem) => Some(problem),)+
                _ => None,
            }
        }
    };
}

with_own_kernels! {
    Linear, Conv1d, Conv2d, Conv3d, Flatten, Reshape, GroupNorm, InstanceNorm, LayerNorm, BatchNorm,
    Scale, Prelu, Softmax, LogSoftmax, MaxPool2d, MaxPool3d, AvgPool2d, AvgPool3d, AdaptiveAvgPool2d,
    AdaptiveAvgPool3d, Upsample, Reduction, Arithmetic, Pointwise
}

/// Appends the launches of a layer by itself, which has kernels of its own.
pub(crate) fn append_layer(
    program: &mut ProgramBuilder,
    problem: &LayerProblem,
    x: Value,
    parameters: Parameters,
) -> Result<Value> {
    let kernels = own_kernels(problem).expect("lowering refuses layers without kernels");
    kernels.append(program, x, parameters)
}
