//! Graphs of layers: what a model computes.
//!
//! A [`Layer`] is one of PyTorch's, with its attributes and the name under which its parameters are stored. A
//! [`Graph`] has named values, which any number of layers take; a [`Chain`], made of a list of layers, is the
//! simplest. Both are checked when they are made. Shapes follow from that of the first input, parameters are
//! a table, and a chain can be written down as JSON. A [`Partition`] says which layers are to be computed
//! together.
//!
//! # Examples
//! A residual block, `relu(norm(conv(x)) + x)`:
//!
//! ```
//! use convfuse::graph::{Graph, Layer};
//! use convfuse::{Device, Model, data};
//!
//! let block = Graph::builder("x", 8)
//!     .layer("convolved", "x", Layer::conv2d("conv", 8, 1))
//!     .layer("normalised", "convolved", Layer::group_norm("norm", 4))
//!     .layer("sum", "normalised", Layer::add("x"))
//!     .layer("y", "sum", Layer::relu())
//!     .build("y")?;
//! let model = Model::init(&Device::best().stream()?, &block, 7)?;
//! let y = model.forward_array(&data::signed(1, (2, 8, 6, 6)))?;
//! assert_eq!(y.shape(), [2, 8, 6, 6]);
//! # Ok::<(), convfuse::Error>(())
//! ```

#[doc(inline)]
pub use op_spec::graph::{
    AbsentParameter, ArithmeticLayer, BatchNormLayer, BroadcastParameter, ByIteration, ByTuple,
    CatLayer, Chain, ConvLayer, ConvTransposeLayer, GateLayer, Graph, GraphBuilder, GraphError,
    GraphInput, GraphProblem, GroupNormLayer, Initialisation, InstanceNormLayer, Layer,
    LayerNormLayer, LayerProblem, Layers, LinearLayer, Operand, Other, OtherTensor, Parameter,
    Partition, PartitionError, PreluLayer, ReshapeLayer, Run, ScaleLayer, ShapedLayer, presets,
};
