//! Operator specifications: attributes and shapes of each operator, checked once for every implementation.
//!
//! An operator appears here as two types. Its *specification* (`Conv2dSpec`, `GroupNormSpec`, …) holds the
//! unchecked attributes under PyTorch's names, with one setter for each. Given the shapes of its tensors,
//! `specification.problem(..)` refuses the same shapes and attributes as PyTorch, with a [`SpecError`] that
//! names the actual and the expected value. Otherwise it returns a *problem*: attributes and extents that are
//! known to fit together, with the output shape. Kernels, references and the CPU backend all take their
//! extents from the problem, and therefore cannot disagree about them.
//!
//! ```
//! use op_spec::{Conv2dSpec, SpecError};
//!
//! # fn main() -> Result<(), SpecError> {
//! let spec = Conv2dSpec::default().padding(1);
//! let problem = spec.problem(&[2, 8, 30, 31], &[64, 8, 3, 3], None)?;
//! assert_eq!(*problem.output_shape(), [2, 64, 30, 31]);
//! # Ok(())
//! # }
//! ```
//!
//! This crate knows no kernels. The crate `launch-config` turns a problem into the structs that its kernels
//! receive by value. It also holds the tile constants and launch shapes.
//!
//! # Letters
//!
//! Short names for extents are the same in every crate of the workspace:
//!
//! | letter | extent |
//! |---|---|
//! | `n` | samples in the batch |
//! | `c` | input channels |
//! | `d`, `h`, `w` | input depth (3-D only), height, width |
//! | `k` | output channels of a convolution |
//! | `t`, `r`, `s` | filter depth (3-D only), height, width |
//! | `z`, `p`, `q` | output depth (3-D only), height, width |
//!
//! Operators that treat all positions of a channel alike (norms, scale, prelu) see a
//! tensor as `(n, c, spatial)`, whatever its rank.
#![no_std]

#[cfg(feature = "graph")]
extern crate alloc;

mod error;
mod setters;
mod shape;
mod window;

mod arithmetic;
#[cfg(feature = "graph")]
mod attributes;
mod batch_norm;
mod conv;
mod conv_transpose;
#[cfg(feature = "graph")]
pub mod data;
mod flatten;
#[cfg(feature = "graph")]
pub mod graph;
mod group_norm;
mod instance_norm;
mod layer_norm;
mod layout;
mod max_pool2d;
mod narrow;
mod pad;
mod pointwise;
mod pool;
mod prelu;
mod reduction;
mod scale;
mod shuffle;
mod softmax;
mod upsample;

pub use arithmetic::{ArithmeticOp, ArithmeticOperand, ArithmeticProblem, ArithmeticSpec};
pub use batch_norm::{BatchNormProblem, BatchNormSpec};
pub use conv::{
    Conv1dSpec, Conv2dSpec, Conv3dSpec, ConvProblem, ConvSpec, Pad, Padding, PaddingMode,
};
pub use conv_transpose::{
    ConvTranspose1dSpec, ConvTranspose2dSpec, ConvTranspose3dSpec, ConvTransposeProblem,
    ConvTransposeSpec,
};
pub use error::{MAX_ELEMENTS, Quantity, RankRule, SpecError};
pub use flatten::{FlattenProblem, FlattenSpec};
#[cfg(feature = "graph")]
pub use graph::layer::{CatProblem, GateProblem, ReshapeProblem};
pub use group_norm::{GroupNormProblem, GroupNormSpec};
pub use instance_norm::{InstanceNormProblem, InstanceNormSpec};
pub use layer_norm::{LayerNormProblem, LayerNormSpec};
pub use layout::Layout;
pub use max_pool2d::{MaxPool2dSpec, MaxPool3dSpec, MaxPoolSpec};
pub use narrow::{NarrowProblem, NarrowSpec};
pub use pad::{PadProblem, PadSpec, PadWidths};
pub use pointwise::{ClampProblem, ClampSpec, GeluApproximation, PointwiseProblem, PointwiseSpec};
pub use pool::{
    AdaptiveAvgPool2dSpec, AdaptiveAvgPool3dSpec, AdaptiveAvgPoolProblem, AdaptiveAvgPoolSpec,
    AvgPool2dSpec, AvgPool3dSpec, AvgPoolProblem, AvgPoolSpec, MaxPool2dProblem, MaxPool3dProblem,
    PoolProblem, Pooled,
};
pub use prelu::{PreluProblem, PreluSpec};
pub use reduction::{Dims, Pass, ReductionOp, ReductionProblem, ReductionSpec};
pub use scale::{ScaleProblem, ScaleSpec};
pub use setters::PerAxis;
pub use shape::{AxisShape, ChannelShape, Shape};
pub use shuffle::{ShuffleProblem, ShuffleSpec};
pub use softmax::{LogSoftmaxProblem, LogSoftmaxSpec, SoftmaxProblem, SoftmaxSpec};
pub use upsample::{EachAxis, UpsampleAxis, UpsampleMode, UpsampleProblem, UpsampleSpec};
