//! Layers: PyTorch's modules with their attributes, and the properties that a graph needs of them.
//!
//! Each operator has a module that implements the trait [`GraphLayer`] for its layer. This file lists the
//! operators; names, problems, parameters and files of a graph follow from the list.

mod arithmetic;
mod batch_norm;
mod by_itself;
mod cat;
mod conv;
mod conv_transpose;
mod flatten;
mod gate;
mod graph_layer;
mod group_norm;
mod instance_norm;
mod layer_norm;
mod linear;
mod max_pool2d;
mod narrow;
mod pad;
mod pointwise;
mod pool;
mod prelu;
mod reduction;
mod reshape;
mod scale;
mod shuffle;
mod softmax;
mod upsample;

use alloc::format;
use alloc::vec::Vec;
use core::marker::PhantomData;

use serde::Serialize;
use serde::de::{Error, MapAccess};

use super::ChannelAffine;
use super::naming::Naming;
use crate::{
    AdaptiveAvgPoolProblem, AdaptiveAvgPoolSpec, ArithmeticOp, ArithmeticProblem, AvgPoolProblem,
    AvgPoolSpec, BatchNormProblem, ConvProblem, ConvTransposeProblem, FlattenProblem, FlattenSpec,
    GroupNormProblem, InstanceNormProblem, LayerNormProblem, LogSoftmaxProblem, LogSoftmaxSpec,
    MaxPool2dProblem, MaxPool2dSpec, MaxPool3dProblem, MaxPool3dSpec, NarrowProblem, NarrowSpec,
    PadProblem, PadSpec, PointwiseProblem, PointwiseSpec, PoolProblem, PreluProblem, ReductionOp,
    ReductionProblem, ReductionSpec, ScaleProblem, ShuffleProblem, ShuffleSpec, SoftmaxProblem,
    SoftmaxSpec, UpsampleProblem, UpsampleSpec,
};

pub use arithmetic::{ArithmeticLayer, BroadcastParameter, Other, OtherTensor};
pub use batch_norm::BatchNormLayer;
pub use by_itself::ByItself;
pub use cat::{CatLayer, CatProblem};
pub use conv::ConvLayer;
pub use conv_transpose::ConvTransposeLayer;
pub use gate::{GateLayer, GateProblem};
pub(crate) use graph_layer::{Convolution, Flow, GraphLayer};
pub use group_norm::GroupNormLayer;
pub use instance_norm::InstanceNormLayer;
pub use layer_norm::LayerNormLayer;
pub use linear::LinearLayer;
pub use prelu::PreluLayer;
pub use reshape::{ReshapeLayer, ReshapeProblem};
pub use scale::ScaleLayer;

/// The role of a layer in a [normal form](super::NormalForm).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Role {
    /// A convolution. Images are one voxel deep, and sequences are one voxel high as well.
    Convolution(ConvProblem<3>),
    /// A transposed convolution, as a volume like [`Convolution`](Self::Convolution).
    Transposed(ConvTransposeProblem<3>),
    Norm(GroupNormProblem),
    LayerNorm(LayerNormProblem),
    Factors(ScaleProblem),
    Affine(ChannelAffine),
    Slopes(PreluProblem),
    Pointwise(PointwiseProblem),
    Residual(ArithmeticProblem),
    Reduction(Reduction),
    ByItself(ByItself),
}

impl Role {
    /// The number of multiply-adds of a convolution; zero for other roles.
    pub(super) fn multiply_adds(&self) -> u128 {
        match self {
            Self::Convolution(conv) => conv.multiply_adds(),
            Self::Transposed(conv) => conv.multiply_adds(),
            _ => 0,
        }
    }
}

/// An operator whose results need several values each: mostly a reduction of several values to one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reduction {
    /// A reduction over axes, such as the channels.
    Axes(ReductionProblem),
    /// A pool: the maximum or the average of windows.
    Pool(PoolProblem),
    /// A softmax or its logarithm, with as many results as values.
    Softmax(SoftmaxProblem),
    /// A norm of each of several rows of a sample.
    LayerNorm(LayerNormProblem),
    /// Upsampling of sequences, images or volumes: nearest or interpolated values.
    Upsample(UpsampleProblem),
}

impl Reduction {
    /// The operator's name.
    pub(super) const fn operator(&self) -> &'static str {
        match self {
            Self::Axes(problem) => problem.operation.name(),
            Self::Pool(pool) => pool.operator,
            Self::Softmax(problem) => problem.operator(),
            Self::LayerNorm(_) => "layer_norm",
            Self::Upsample(_) => "upsample",
        }
    }
}

/// Returns the error for an unknown operator.
fn unknown<E: Error>(operator: &str) -> E {
    let known: Vec<_> = Layer::operators().collect();
    E::custom(format!(
        "unknown operator `{operator}`, expected one of `{}`",
        known.join("`, `")
    ))
}

/// Constructors of layers.
macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $ty:ty),*) = $layer:expr;)+) => {
        impl Layer {$(
            $(#[$doc])*
            #[must_use]
            pub const fn $name($($argument: $ty),*) -> Layer {
                $layer
            }
        )+}
    };
}

pub(crate) use constructors;

macro_rules! conversions {
    ($($From:ty => $To:ident::$Variant:ident;)+) => {$(
        impl From<$From> for $To {
            fn from(one: $From) -> Self {
                Self::$Variant(one)
            }
        }
    )+};
}

macro_rules! layers {
    ($(
        $(#[$doc:meta])*
        $Variant:ident($Layer:ty) is $operator:literal,
        |$problem:ident: $Problem:ty| $role:expr;
    )+) => {
        /// One layer of a graph. The constructor of a layer with attributes returns a type with a setter for
        /// each. That type converts into a `Layer` where one is expected.
        ///
        /// ```
        /// # use op_spec as convfuse;
        /// use convfuse::graph::Layer;
        ///
        /// let norm = Layer::from(Layer::instance_norm("norm").affine(true).eps(1e-3));
        /// assert_eq!((norm.operator(), norm.name()), ("instance_norm", "norm"));
        /// ```
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[non_exhaustive]
        pub enum Layer {
            $(
                $(#[$doc])*
                #[serde(rename = $operator)]
                $Variant($Layer),
            )+
            /// A reduction over axes. Files name it by its operation.
            #[serde(untagged)]
            Reduction(ReductionSpec),
            /// Arithmetic with a tensor. Files name it by its operation.
            #[serde(untagged)]
            Arithmetic(ArithmeticLayer),
            /// A shuffle of channels or pixels. Files name it by the kind of shuffle.
            #[serde(untagged)]
            Shuffle(ShuffleSpec),
            /// A function of single values. Files name it by the function.
            #[serde(untagged)]
            Pointwise(PointwiseSpec),
        }

        impl Layer {
            /// The names of all operators.
            pub(super) fn operators() -> impl Iterator<Item = &'static str> {
                let reductions = ReductionOp::ALL.iter().map(|operation| operation.name());
                let arithmetic = ArithmeticOp::ALL.iter().map(|operation| operation.name());
                let named = [ShuffleSpec::OPERATORS, PointwiseSpec::OPERATORS];
                let named = named.into_iter().flatten().copied();
                let others = reductions.chain(arithmetic).chain(named);
                [$($operator),+].into_iter().chain(others)
            }

            /// Returns the operator's name, which the functions that compute it share.
            #[must_use]
            pub const fn operator(&self) -> &'static str {
                match self {
                    $(Self::$Variant(_) => $operator,)+
                    Self::Reduction(reduction) => reduction.operation.name(),
                    Self::Arithmetic(arithmetic) => arithmetic.operation.name(),
                    Self::Shuffle(shuffle) => shuffle.operator(),
                    Self::Pointwise(function) => function.operator(),
                }
            }

            /// The name under which the parameters are stored; empty for a layer that has none.
            #[must_use]
            pub fn name(&self) -> &str {
                self.kind().name()
            }

            /// Whether the layer is a convolution, or a linear map, which is one without spatial dimensions.
            #[must_use]
            pub fn is_convolution(&self) -> bool {
                self.kind().convolution() == Some(Convolution::Ordinary)
            }

            /// Whether the layer is a transposed convolution.
            #[must_use]
            pub fn is_transposed_convolution(&self) -> bool {
                self.kind().convolution() == Some(Convolution::Transposed)
            }

            pub(super) fn kind(&self) -> &dyn GraphLayer {
                match self {
                    $(Self::$Variant(layer) => layer,)+
                    Self::Reduction(reduction) => reduction,
                    Self::Arithmetic(arithmetic) => arithmetic,
                    Self::Shuffle(shuffle) => shuffle,
                    Self::Pointwise(function) => function,
                }
            }

            /// Reads the attributes of one of [`operators`](Self::operators), except arithmetic, shuffles and
            /// pointwise functions.
            pub(super) fn read<'de, A: MapAccess<'de>>(
                operator: &str,
                file: &mut A,
            ) -> Result<Self, A::Error> {
                match operator {
                    $($operator => file.next_value_seed(Naming(PhantomData)).map(Self::$Variant),)+
                    _ => {
                        let mut operations = ReductionOp::ALL.iter();
                        let operation = operations.find(|operation| operation.name() == operator);
                        let operation = *operation.ok_or_else(|| unknown(operator))?;
                        file.next_value_seed(Naming(operation)).map(Self::Reduction)
                    }
                }
            }
        }

        /// A layer whose extents and attributes fit together.
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[allow(missing_docs)] // one variant for each of `Layer`'s
        #[non_exhaustive]
        pub enum LayerProblem {
            $($Variant($Problem),)+
            Reduction(ReductionProblem),
            Arithmetic(ArithmeticProblem),
            Shuffle(ShuffleProblem),
            Pointwise(PointwiseProblem),
        }

        impl LayerProblem {
            /// Returns the layer's role in a normal form.
            pub(super) fn role(self) -> Role {
                match self {
                    $(Self::$Variant($problem) => $role,)+
                    Self::Reduction(problem) => Role::Reduction(Reduction::Axes(problem)),
                    Self::Arithmetic(problem) => problem.role(),
                    Self::Shuffle(problem) => Role::ByItself(ByItself::Shuffle(problem)),
                    Self::Pointwise(problem) => Role::Pointwise(problem),
                }
            }
        }

        conversions! {
            $($Layer => Layer::$Variant;)+
            ReductionSpec => Layer::Reduction;
            ShuffleSpec => Layer::Shuffle;
            PointwiseSpec => Layer::Pointwise;
            $($Problem => LayerProblem::$Variant;)+
            ReductionProblem => LayerProblem::Reduction;
            ArithmeticProblem => LayerProblem::Arithmetic;
            PointwiseProblem => LayerProblem::Pointwise;
        }
    };
}

layers! {
    /// A convolution of sequences.
    Conv1d(ConvLayer<1>) is "conv1d",
    |problem: ConvProblem<1>| Role::Convolution(problem.as_conv3d());
    /// A convolution of images.
    Conv2d(ConvLayer<2>) is "conv2d",
    |problem: ConvProblem<2>| Role::Convolution(problem.as_conv3d());
    /// A convolution of volumes.
    Conv3d(ConvLayer<3>) is "conv3d",
    |problem: ConvProblem<3>| Role::Convolution(problem);
    /// A transposed convolution of sequences.
    ConvTranspose1d(ConvTransposeLayer<1>) is "conv_transpose1d",
    |problem: ConvTransposeProblem<1>| Role::Transposed(problem.as_conv_transpose3d());
    /// A transposed convolution of images.
    ConvTranspose2d(ConvTransposeLayer<2>) is "conv_transpose2d",
    |problem: ConvTransposeProblem<2>| Role::Transposed(problem.as_conv_transpose3d());
    /// A transposed convolution of volumes.
    ConvTranspose3d(ConvTransposeLayer<3>) is "conv_transpose3d",
    |problem: ConvTransposeProblem<3>| Role::Transposed(problem);
    /// A linear map of the channels of each sample.
    Linear(LinearLayer) is "linear",
    |problem: ConvProblem<0>| Role::Convolution(problem.as_conv3d());
    /// Flattening of all axes behind the batch into one.
    Flatten(FlattenSpec) is "flatten",
    |_problem: FlattenProblem| Role::ByItself(ByItself::Reshape("flatten"));
    /// Another shape of the axes behind the batch.
    Reshape(ReshapeLayer) is "reshape",
    |_problem: ReshapeProblem| Role::ByItself(ByItself::Reshape("reshape"));
    /// Concatenation of values along an axis.
    Cat(CatLayer) is "cat",
    |problem: CatProblem| Role::ByItself(ByItself::Cat(problem));
    /// A slice of an axis.
    Narrow(NarrowSpec) is "narrow",
    |problem: NarrowProblem| Role::ByItself(ByItself::Narrow(problem));
    /// A product with a factor for each channel of each sample.
    Gate(GateLayer) is "gate",
    |problem: GateProblem| Role::ByItself(ByItself::Gate(problem));
    /// Padding of the spatial axes by zeros or elements of the input.
    Pad(PadSpec) is "pad",
    |problem: PadProblem| Role::ByItself(ByItself::Pad(problem));
    /// A norm of groups of channels.
    GroupNorm(GroupNormLayer) is "group_norm",
    |problem: GroupNormProblem| Role::Norm(problem);
    /// A norm of each channel of each sample.
    InstanceNorm(InstanceNormLayer) is "instance_norm",
    |problem: InstanceNormProblem| Role::Norm(problem.as_group_norm());
    /// A norm over the last axes: of each whole sample, for example.
    LayerNorm(LayerNormLayer) is "layer_norm",
    |problem: LayerNormProblem| match problem.is_of_samples() {
        true => Role::LayerNorm(problem),
        false => Role::Reduction(Reduction::LayerNorm(problem)),
    };
    /// A norm of each channel by statistics that are parameters, or by those of the batch.
    BatchNorm(BatchNormLayer) is "batch_norm",
    |problem: BatchNormProblem| problem.role();
    /// A product with one factor per channel.
    Scale(ScaleLayer) is "scale",
    |problem: ScaleProblem| Role::Factors(problem);
    /// A rectifier whose slope below 0 is a parameter: one for all channels, or one for each.
    Prelu(PreluLayer) is "prelu",
    |problem: PreluProblem| Role::Slopes(problem);
    /// A softmax over axes: exponentials divided by their sum.
    Softmax(SoftmaxSpec) is "softmax",
    |problem: SoftmaxProblem| Role::Reduction(Reduction::Softmax(problem));
    /// The logarithm of a softmax.
    LogSoftmax(LogSoftmaxSpec) is "log_softmax",
    |problem: LogSoftmaxProblem| Role::Reduction(Reduction::Softmax(problem.softmax));
    /// The maximum of windows of images.
    MaxPool2d(MaxPool2dSpec) is "max_pool2d",
    |problem: MaxPool2dProblem| Role::Reduction(Reduction::Pool(problem.pool));
    /// The maximum of windows of volumes.
    MaxPool3d(MaxPool3dSpec) is "max_pool3d",
    |problem: MaxPool3dProblem| Role::Reduction(Reduction::Pool(problem.pool));
    /// The average of windows of images.
    AvgPool2d(AvgPoolSpec<2>) is "avg_pool2d",
    |problem: AvgPoolProblem<2>| Role::Reduction(Reduction::Pool(problem.pool));
    /// The average of windows of volumes.
    AvgPool3d(AvgPoolSpec<3>) is "avg_pool3d",
    |problem: AvgPoolProblem<3>| Role::Reduction(Reduction::Pool(problem.pool));
    /// The adaptive average pooling of images.
    AdaptiveAvgPool2d(AdaptiveAvgPoolSpec<2>) is "adaptive_avg_pool2d",
    |problem: AdaptiveAvgPoolProblem<2>| Role::Reduction(Reduction::Pool(problem.pool));
    /// The adaptive average pooling of volumes.
    AdaptiveAvgPool3d(AdaptiveAvgPoolSpec<3>) is "adaptive_avg_pool3d",
    |problem: AdaptiveAvgPoolProblem<3>| Role::Reduction(Reduction::Pool(problem.pool));
    /// Upsampling of sequences, images and volumes: nearest or interpolated values.
    Upsample(UpsampleSpec) is "upsample",
    |problem: UpsampleProblem| Role::Reduction(Reduction::Upsample(problem));
}
