//! Errors of graphs.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::SpecError;

/// Defines the error: its variants, each with its fields and its message.
macro_rules! graph_error {
    ($(
        $(#[$doc:meta])*
        $Variant:ident { $($(#[$field_doc:meta])* $field:ident: $ty:ty,)+ }: $message:literal $(, $value:expr)?;
    )+) => {
        /// An error in the layers of a graph, or in a graph's input. Layers are counted from 0.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum GraphError {
            /// There are no layers.
            Empty,
            /// The error of a layer in a graph whose layers have names.
            Named {
                /// The name of the layer's output.
                name: String,
                /// The error.
                source: Box<GraphError>,
            },
            $(
                $(#[$doc])*
                $Variant { $($(#[$field_doc])* $field: $ty,)+ },
            )+
        }

        impl fmt::Display for GraphError {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    Self::Empty => f.write_str("graph: layers are none, minimum 1"),
                    Self::Named { name, source } => write_named(f, name, source),
                    $(Self::$Variant { $($field),+ } => write!(f, $message $(, $value)?),)+
                }
            }
        }
    };
}

graph_error! {
    /// A layer refuses its attributes or its input.
    Layer {
        /// Index of the layer.
        layer: usize,
        /// The layer's error.
        source: SpecError,
    }: "layer {layer}: {source}";
    /// A layer takes a number of spatial dimensions that differs from the output of the layers before it.
    Dimensions {
        /// Index of the layer.
        layer: usize,
        /// The layer's operator.
        operator: &'static str,
        /// Dimensions of its input.
        actual: usize,
        /// Dimensions that it takes.
        expected: usize,
    }: "layer {layer}: {operator}: spatial dimensions are {actual}, expected {expected}";
    /// A layer needs channels, but an earlier layer has reduced over them or merged them with other axes.
    NoChannels {
        /// Index of the layer.
        layer: usize,
        /// The layer's operator.
        operator: &'static str,
    }: "layer {layer}: {operator}: the input has no channels, or not known how many: an earlier layer reduces over them or flattens them";
    /// A layer takes the first axis as the batch, but the input has no batch.
    NoBatch {
        /// Index of the layer.
        layer: usize,
        /// The layer's operator.
        operator: &'static str,
        /// The rank of the graph's input.
        rank: usize,
    }: "layer {layer}: {operator}: the input has rank {rank} and no batch, expected rank {}", rank + 1;
    /// A layer with parameters has no name.
    NoName {
        /// Index of the layer.
        layer: usize,
        /// The layer's operator.
        operator: &'static str,
    }: "layer {layer}: {operator}: name is empty, the layer has parameters to store under it";
    /// Two layers share a parameter but expect different shapes of it.
    Shared {
        /// The later layer.
        layer: usize,
        /// The parameter.
        name: String,
        /// The shape that this layer expects.
        actual: Vec<usize>,
        /// The shape that an earlier layer expects.
        expected: Vec<usize>,
    }: "layer {layer}: {name} has shape {actual:?}, an earlier layer shares it with shape {expected:?}";
    /// A layer of a chain takes a further input that has no name.
    NoInputName {
        /// Index of the layer.
        layer: usize,
        /// The layer's operator.
        operator: &'static str,
    }: "layer {layer}: {operator}: input is empty, the chain's further inputs have names";
    /// Two layers take the same further input but expect different shapes of it.
    SharedInput {
        /// The later layer.
        layer: usize,
        /// The input.
        name: String,
        /// The shape that this layer expects.
        actual: Vec<usize>,
        /// The shape that an earlier layer expects.
        expected: Vec<usize>,
    }: "layer {layer}: input {name} would have shape {actual:?}, an earlier layer takes it with shape {expected:?}";
    /// A value has no name, or the name of an earlier value.
    ValueName {
        /// The name.
        name: String,
    }: "graph: {}", match name.as_str() {
        "" => "a value has no name".into(),
        name => alloc::format!("two values have the name {name}"),
    };
    /// A layer takes a value that is neither an input nor the output of an earlier layer.
    UnknownValue {
        /// Index of the layer.
        layer: usize,
        /// The layer's operator.
        operator: &'static str,
        /// The value's name.
        name: String,
        /// The values before it.
        known: Vec<String>,
    }: "layer {layer}: {operator}: there is no value {name} before it, only {}", in_short(known);
    /// A layer takes, by its number, the output of a layer that does not come before it.
    LaterLayer {
        /// Index of the layer.
        layer: usize,
        /// The layer's operator.
        operator: &'static str,
        /// The other layer.
        other: usize,
    }: "layer {layer}: {operator}: layer {other} does not come before it";
    /// A layer's first operand is a further input. The shape of such an input is unknown.
    FurtherInput {
        /// Index of the layer.
        layer: usize,
        /// The layer's operator.
        operator: &'static str,
        /// The input.
        name: String,
    }: "layer {layer}: {operator}: input {name} is its first operand, whose shape must be known";
    /// A value that no layer takes and that is not an output of the graph.
    UnusedValue {
        /// Its name.
        name: String,
    }: "graph: no layer takes {name}, and it is no output";
    /// An output of a graph that is not the output of a layer, or that is already an output.
    Output {
        /// The value's name.
        name: String,
        /// Whether it is already an output.
        is_repeated: bool,
    }: "graph: the output {name} {}", match is_repeated {
        true => "is an output already",
        false => "is no value that a layer gives",
    };
    /// Two layers share a parameter of the same shape but initialise it differently.
    SharedInitialisation {
        /// The later layer.
        layer: usize,
        /// The parameter.
        name: String,
    }: "layer {layer}: {name} is initialised otherwise than by an earlier layer that shares it";
}

impl GraphError {
    /// Returns the layer that the error is about, if there is one.
    #[must_use]
    pub fn layer(&self) -> Option<usize> {
        match self {
            Self::Named { source, .. } => source.layer(),
            Self::Layer { layer, .. }
            | Self::Dimensions { layer, .. }
            | Self::NoChannels { layer, .. }
            | Self::NoBatch { layer, .. }
            | Self::NoName { layer, .. }
            | Self::Shared { layer, .. }
            | Self::NoInputName { layer, .. }
            | Self::SharedInput { layer, .. }
            | Self::UnknownValue { layer, .. }
            | Self::FurtherInput { layer, .. }
            | Self::LaterLayer { layer, .. }
            | Self::SharedInitialisation { layer, .. } => Some(*layer),
            Self::Empty
            | Self::ValueName { .. }
            | Self::UnusedValue { .. }
            | Self::Output { .. } => None,
        }
    }

    /// Wraps the error with the name of the layer's output; an empty name leaves the error unchanged.
    pub(super) fn of(self, name: &str) -> GraphError {
        match name {
            "" => self,
            name => GraphError::Named {
                name: name.into(),
                source: Box::new(self),
            },
        }
    }

    /// Wraps the error with the name of the layer's output, one of `names`.
    pub(super) fn among(self, names: &[String]) -> GraphError {
        let name = self.layer().and_then(|layer| names.get(layer));
        match name {
            Some(name) => self.of(name),
            None => self,
        }
    }
}

/// Writes the error of a layer. The layer's name follows its number, with which such errors begin.
fn write_named(f: &mut fmt::Formatter<'_>, name: &str, source: &GraphError) -> fmt::Result {
    let text = alloc::format!("{source}");
    match text.split_once(": ") {
        Some((number, rest)) => write!(f, "{number}: {name}: {rest}"),
        None => write!(f, "{name}: {text}"),
    }
}

/// Lists the values; of many, only the last ones.
fn in_short(names: &[String]) -> String {
    const MOST: usize = 16;
    match names.len().checked_sub(MOST) {
        None | Some(0) => names.join(", "),
        Some(more) => alloc::format!("{} and {more} before these", names[more..].join(", ")),
    }
}

// No `source`: the message already contains the layer's own error.
impl core::error::Error for GraphError {}
