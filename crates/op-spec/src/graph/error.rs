//! What a graph refuses.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::SpecError;

/// The error: its variants, each with its fields and its message.
macro_rules! graph_error {
    ($(
        $(#[$doc:meta])*
        $Variant:ident { $($(#[$field_doc:meta])* $field:ident: $ty:ty,)+ }: $message:literal $(, $value:expr)?;
    )+) => {
        /// Why layers are no graph, or a graph does not take an input. Layers are counted from 0.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum GraphError {
            /// There are no layers.
            Empty,
            /// What is wrong with a layer of a graph in which layers have names.
            Named {
                /// The name of what the layer gives.
                name: String,
                /// What is wrong.
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
        /// Which one.
        layer: usize,
        /// What it says.
        source: SpecError,
    }: "layer {layer}: {source}";
    /// A layer takes another number of spatial dimensions than the layers before it give.
    Dimensions {
        /// Which one.
        layer: usize,
        /// Its operator.
        operator: &'static str,
        /// Dimensions that it is given.
        actual: usize,
        /// Dimensions that it takes.
        expected: usize,
    }: "layer {layer}: {operator}: spatial dimensions are {actual}, expected {expected}";
    /// A layer needs channels, which an earlier layer reduces over, or makes one with other axes.
    NoChannels {
        /// Which one.
        layer: usize,
        /// Its operator.
        operator: &'static str,
    }: "layer {layer}: {operator}: the input has no channels, or not known how many: an earlier layer reduces over them or flattens them";
    /// A layer takes the first axis for the batch, and the input has none.
    NoBatch {
        /// Which one.
        layer: usize,
        /// Its operator.
        operator: &'static str,
        /// The rank of the graph's input.
        rank: usize,
    }: "layer {layer}: {operator}: the input has rank {rank} and no batch, expected rank {}", rank + 1;
    /// A layer with parameters has no name for them.
    NoName {
        /// Which one.
        layer: usize,
        /// Its operator.
        operator: &'static str,
    }: "layer {layer}: {operator}: name is empty, the layer has parameters to store under it";
    /// Two layers share a parameter, but disagree about it.
    Shared {
        /// The later layer.
        layer: usize,
        /// The parameter.
        name: String,
        /// The shape that this layer wants.
        actual: Vec<usize>,
        /// The shape that the layers before want.
        expected: Vec<usize>,
    }: "layer {layer}: {name} has shape {actual:?}, an earlier layer shares it with shape {expected:?}";
    /// A layer of a chain takes a further input that has no name.
    NoInputName {
        /// Which one.
        layer: usize,
        /// Its operator.
        operator: &'static str,
    }: "layer {layer}: {operator}: input is empty, the chain's further inputs have names";
    /// Two layers take the same further input, but are given different shapes.
    SharedInput {
        /// The later layer.
        layer: usize,
        /// The input.
        name: String,
        /// The shape that this layer is given.
        actual: Vec<usize>,
        /// The shape that an earlier layer is given.
        expected: Vec<usize>,
    }: "layer {layer}: input {name} would have shape {actual:?}, an earlier layer takes it with shape {expected:?}";
    /// A value has no name, or that of an earlier value.
    ValueName {
        /// The name.
        name: String,
    }: "graph: {}", match name.as_str() {
        "" => "a value has no name".into(),
        name => alloc::format!("two values have the name {name}"),
    };
    /// A layer takes a value that neither is an input nor comes from an earlier layer.
    UnknownValue {
        /// Which one.
        layer: usize,
        /// Its operator.
        operator: &'static str,
        /// The value's name.
        name: String,
        /// The values before it.
        known: Vec<String>,
    }: "layer {layer}: {operator}: there is no value {name} before it, only {}", in_short(known);
    /// A layer takes the output of a layer, by its number, that does not come before it.
    LaterLayer {
        /// Which one.
        layer: usize,
        /// Its operator.
        operator: &'static str,
        /// The other layer.
        other: usize,
    }: "layer {layer}: {operator}: layer {other} does not come before it";
    /// A layer's first operand is a further input, whose shape follows from nothing.
    FurtherInput {
        /// Which one.
        layer: usize,
        /// Its operator.
        operator: &'static str,
        /// The input.
        name: String,
    }: "layer {layer}: {operator}: input {name} is its first operand, whose shape must be known";
    /// No layer takes a value, and it is no output of the graph.
    UnusedValue {
        /// Its name.
        name: String,
    }: "graph: no layer takes {name}, and it is no output";
    /// An output of a graph is no value that a layer gives, or is an output already.
    Output {
        /// The value's name.
        name: String,
        /// Whether it is an output already.
        is_repeated: bool,
    }: "graph: the output {name} {}", match is_repeated {
        true => "is an output already",
        false => "is no value that a layer gives",
    };
    /// The same as [`Shared`](Self::Shared), where the shapes agree and the initialisations do not.
    SharedInitialisation {
        /// The later layer.
        layer: usize,
        /// The parameter.
        name: String,
    }: "layer {layer}: {name} is initialised otherwise than by an earlier layer that shares it";
}

impl GraphError {
    /// The layer that is refused, if it is one.
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

    /// The error of the layer whose output has this name.
    pub(super) fn of(self, name: &str) -> GraphError {
        match name {
            "" => self,
            name => GraphError::Named {
                name: name.into(),
                source: Box::new(self),
            },
        }
    }

    /// The error, with the name of the layer's output among these.
    pub(super) fn among(self, names: &[String]) -> GraphError {
        let name = self.layer().and_then(|layer| names.get(layer));
        match name {
            Some(name) => self.of(name),
            None => self,
        }
    }
}

/// Writes an error with a name behind the number of the layer, with which the errors of layers begin.
fn write_named(f: &mut fmt::Formatter<'_>, name: &str, source: &GraphError) -> fmt::Result {
    let text = alloc::format!("{source}");
    match text.split_once(": ") {
        Some((number, rest)) => write!(f, "{number}: {name}: {rest}"),
        None => write!(f, "{name}: {text}"),
    }
}

/// Values as a list, of which the last ones are enough where there are many.
fn in_short(names: &[String]) -> String {
    const MOST: usize = 16;
    match names.len().checked_sub(MOST) {
        None | Some(0) => names.join(", "),
        Some(more) => alloc::format!("{} and {more} before these", names[more..].join(", ")),
    }
}

// What a layer says is part of the message already.
impl core::error::Error for GraphError {}
