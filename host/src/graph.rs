//! Graphs of layers: the computation of a model.
//!
//! A [`Layer`] is a PyTorch layer with its attributes and the name under which its parameters are stored. A
//! [`Graph`] connects layers through named values; any number of layers can read a value. A [`Chain`] is a
//! graph made of a list of layers. Both are checked when they are built. All shapes follow from the shape of
//! the first input. A graph lists its parameters in a table, and a chain can be written as JSON. A
//! [`Partition`] says which layers run together.
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
