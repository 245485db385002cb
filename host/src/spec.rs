//! Specifications of the operators: attributes under PyTorch's names, checked against shapes.
//!
//! A specification has public, unchecked fields. Its method `problem` checks them against the shapes of
//! tensors, as PyTorch does. It returns a problem, which has the output's shape, or a [`SpecError`]. The
//! functions in [`ops`](crate::ops) call `problem` themselves.
//!
//! # Examples
//! ```
//! use convfuse::spec::Conv2dSpec;
//!
//! let spec = Conv2dSpec::default().padding(1);
//! let problem = spec.problem(&[2, 8, 30, 31], &[64, 8, 3, 3], None)?;
//! assert_eq!(*problem.output_shape(), [2, 64, 30, 31]);
//! # Ok::<(), convfuse::spec::SpecError>(())
//! ```

#[doc(inline)]
pub use op_spec::{
    AdaptiveAvgPool2dSpec, AdaptiveAvgPool3dSpec, AdaptiveAvgPoolProblem, AdaptiveAvgPoolSpec,
    ArithmeticOp, ArithmeticOperand, ArithmeticProblem, ArithmeticSpec, AvgPool2dSpec,
    AvgPool3dSpec, AvgPoolProblem, AvgPoolSpec, AxisShape, BatchNormProblem, BatchNormSpec,
    CatProblem, ChannelShape, ClampProblem, ClampSpec, Conv1dSpec, Conv2dSpec, Conv3dSpec,
    ConvProblem, ConvSpec, ConvTranspose1dSpec, ConvTranspose2dSpec, ConvTranspose3dSpec,
    ConvTransposeProblem, ConvTransposeSpec, Dims, EachAxis, FlattenProblem, FlattenSpec,
    GateProblem, GeluApproximation, GroupNormProblem, GroupNormSpec, InstanceNormProblem,
    InstanceNormSpec, LayerNormProblem, LayerNormSpec, Layout, LogSoftmaxProblem, LogSoftmaxSpec,
    MAX_ELEMENTS, MaxPool2dProblem, MaxPool2dSpec, MaxPool3dProblem, MaxPool3dSpec, MaxPoolSpec,
    NarrowProblem, NarrowSpec, Pad, PadProblem, PadSpec, PadWidths, Padding, PaddingMode, Pass,
    PerAxis, PointwiseProblem, PointwiseSpec, PoolProblem, Pooled, PreluProblem, PreluSpec,
    Quantity, RankRule, ReductionOp, ReductionProblem, ReductionSpec, ReshapeProblem, ScaleProblem,
    ScaleSpec, Shape, ShuffleProblem, ShuffleSpec, SoftmaxProblem, SoftmaxSpec, SpecError,
    UpsampleAxis, UpsampleMode, UpsampleProblem, UpsampleSpec,
};
