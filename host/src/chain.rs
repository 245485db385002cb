//! Chains of layers: what a model computes.
//!
//! A [`Layer`] is one of PyTorch's, with its attributes and the name under which its parameters are stored. A
//! [`Chain`] is a list of them that was checked when it was made. Its shapes follow from that of its input,
//! its parameters are a table, and it can be written down as JSON. A [`Partition`] cuts it into runs of
//! layers that are to be done together.

#[doc(inline)]
pub use op_spec::chain::{
    AddLayer, BatchNormLayer, Chain, ChainError, ChainInput, ChainProblem, ConvLayer,
    GroupNormLayer, Initialisation, InstanceNormLayer, Layer, LayerNormLayer, LayerProblem,
    Parameter, Partition, PartitionError, PreluLayer, Run, ScaleLayer, ShapedLayer, presets,
};
