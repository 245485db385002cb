//! `Debug` output of chains and graphs: one call for each layer.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use super::{Chain, Graph, Operand};

/// A layer as a call such as `sum = add(second, x)`, with its name and its operands. A chain omits the
/// operand that is the output of the layer before.
struct Call<'a>(&'a Graph, usize);

impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Call(graph, index) = *self;
        let layer = &graph.layers[index];
        let is_chain = graph.input.is_empty();
        let before = index
            .checked_sub(1)
            .map_or(Operand::Input(0), Operand::Layer);
        let value = |operand: &Operand| match *operand {
            operand if is_chain && operand == before => None,
            Operand::Input(0) => Some(graph.input.clone()),
            Operand::Input(further) => Some(graph.inputs[further - 1].clone()),
            Operand::Layer(layer) if is_chain => Some(layer.to_string()),
            Operand::Layer(layer) => Some(graph.names[layer].clone()),
        };
        let name = Some(layer.name()).filter(|name| !name.is_empty());
        let name = name.map(|name| format!("{name:?}"));
        let values = graph.operands[index].iter().filter_map(value);
        let arguments: Vec<String> = name.into_iter().chain(values).collect();
        if !is_chain {
            write!(f, "{} = ", graph.names[index])?;
        }
        write!(f, "{}({})", layer.operator(), arguments.join(", "))
    }
}

struct Calls<'a>(&'a Graph);

impl fmt::Debug for Calls<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calls = (0..self.0.layers.len()).map(|index| Call(self.0, index));
        f.debug_list().entries(calls).finish()
    }
}

/// One call for each layer, with the names of values. Attributes are omitted; the `Debug` output of
/// [`Layer`](super::Layer) and JSON have them.
impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Graph");
        fields.field("in_channels", &self.in_channels);
        if self.input.is_empty() {
            return fields.field("layers", &Calls(self)).finish();
        }
        let inputs: Vec<&String> = [&self.input].into_iter().chain(&self.inputs).collect();
        let outputs: Vec<&String> = self.outputs.iter().map(|&at| &self.names[at]).collect();
        fields
            .field("inputs", &inputs)
            .field("layers", &Calls(self))
            .field("outputs", &outputs)
            .finish()
    }
}

/// The output of [`Graph`]'s `Debug`, without names of values.
impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chain")
            .field("in_channels", &self.in_channels)
            .field("layers", &Calls(self))
            .finish()
    }
}
