//! A builder of graphs, layer by layer.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use serde::Serialize;

use super::{Graph, GraphError, Layer, Node, Operand, earlier};

/// A graph under construction; see [`Graph::builder`]. [`build`](Self::build) reports all errors.
///
/// # Examples
/// Two branches, and a further input `mask`:
/// ```
/// # use op_spec as convfuse;
/// use convfuse::graph::{Graph, Layer};
///
/// let graph = Graph::builder("x", 8)
///     .input("mask")
///     .layer("narrow", "x", Layer::conv2d("narrow", 16, 1))
///     .layer("wide", "x", Layer::conv2d("wide", 16, 3).padding(1))
///     .layer("sum", "narrow", Layer::add("wide"))
///     .layer("y", "sum", Layer::add("mask"))
///     .build("y")?;
/// assert_eq!(graph.inputs(), ["mask"]);
/// assert_eq!(graph.parameters()[0].name, "narrow.weight");
/// assert_eq!(graph.problem(&[2, 8, 5, 6])?.output_shape(), [2, 16, 5, 6]);
/// # Ok::<(), op_spec::graph::GraphError>(())
/// ```
#[derive(Clone, Debug)]
pub struct GraphBuilder {
    in_channels: usize,
    /// Names of the inputs, the first input's first.
    inputs: Vec<String>,
    layers: Vec<Step>,
    /// Names of the further outputs.
    outputs: Vec<String>,
}

/// A layer with the names of its values.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Step {
    /// Name of the output.
    pub(super) name: String,
    /// Name of the first operand.
    pub(super) input: String,
    pub(super) layer: Layer,
}

/// The values of a graph under construction.
#[derive(Default)]
struct Values {
    /// Each value with its name and a flag: whether a layer takes it, or it is an output.
    all: Vec<(String, Operand, bool)>,
    by_name: BTreeMap<String, usize>,
}

impl Values {
    /// Adds a value under a unique name.
    fn define(&mut self, name: String, value: Operand) -> Result<(), GraphError> {
        let known = self.by_name.insert(name.clone(), self.all.len());
        if name.is_empty() || known.is_some() {
            return Err(GraphError::ValueName { name });
        }
        self.all.push((name, value, false));
        Ok(())
    }

    /// Returns the value of this name and marks it as taken.
    fn take(&mut self, name: &str) -> Option<Operand> {
        let (_, value, is_taken) = &mut self.all[*self.by_name.get(name)?];
        *is_taken = true;
        Some(*value)
    }
}

impl Graph {
    /// Starts a graph whose first input has this name and number of channels.
    #[must_use]
    pub fn builder(input: impl Into<String>, in_channels: usize) -> GraphBuilder {
        GraphBuilder {
            in_channels,
            inputs: vec![input.into()],
            layers: Vec::new(),
            outputs: Vec::new(),
        }
    }
}

impl GraphBuilder {
    /// Adds a further input. A layer may take it beside its first operand, which determines the input's
    /// shape.
    #[must_use]
    pub fn input(mut self, name: impl Into<String>) -> GraphBuilder {
        self.inputs.push(name.into());
        self
    }

    /// Adds a further output: the value of this name. Layers may take the value as well.
    ///
    /// ```
    /// # use op_spec as convfuse;
    /// use convfuse::graph::{Graph, Layer};
    ///
    /// let graph = Graph::builder("x", 3)
    ///     .layer("features", "x", Layer::conv2d("conv", 8, 3))
    ///     .layer("small", "features", Layer::max_pool2d(2))
    ///     .output("features")
    ///     .build("small")?;
    /// let names: Vec<&str> = graph.outputs().iter().map(|&layer| graph.name_of(layer)).collect();
    /// assert_eq!(names, ["small", "features"]);
    /// # Ok::<(), op_spec::graph::GraphError>(())
    /// ```
    #[must_use]
    pub fn output(mut self, name: impl Into<String>) -> GraphBuilder {
        self.outputs.push(name.into());
        self
    }

    /// Adds a layer that takes the value `input` and whose output is the value `name`. The value `input` is
    /// the first input or the output of an earlier layer. The layer itself names its further operands; see
    /// [`Layer::add`].
    #[must_use]
    pub fn layer(
        mut self,
        name: impl Into<String>,
        input: impl Into<String>,
        layer: impl Into<Layer>,
    ) -> GraphBuilder {
        self.layers.push(Step {
            name: name.into(),
            input: input.into(),
            layer: layer.into(),
        });
        self
    }

    pub(super) fn steps(mut self, steps: Vec<Step>) -> GraphBuilder {
        self.layers.extend(steps);
        self
    }

    /// Returns the graph with the value `output` as first output, and the [added](Self::output) further
    /// outputs.
    ///
    /// # Errors
    /// The errors of [`Chain::new`](super::Chain::new); two values with the same name; a layer that takes a
    /// value of no earlier layer, or a further input as its first operand; a value that no layer takes and
    /// that is not an output; an output that no layer gives, or that is already one; operands of an addition
    /// with different channels.
    pub fn build(self, output: &str) -> Result<Graph, GraphError> {
        let GraphBuilder {
            in_channels,
            inputs,
            layers,
            outputs: further_outputs,
        } = self;
        let mut values = Values::default();
        let first = inputs.first().cloned().unwrap_or_default();
        for (index, name) in inputs.into_iter().enumerate() {
            values.define(name, Operand::Input(index))?;
        }
        let further = 1..values.all.len();
        let mut nodes = Vec::with_capacity(layers.len());
        for (index, Step { name, input, layer }) in layers.into_iter().enumerate() {
            let mut operands = Vec::new();
            let names = layer.kind().operands();
            for operand in [&input].into_iter().chain(names) {
                operands.push(values.take(operand).ok_or_else(|| {
                    let known = values.all.iter().map(|(name, ..)| name.clone());
                    let error = GraphError::UnknownValue {
                        layer: index,
                        operator: layer.operator(),
                        name: operand.clone(),
                        known: known.collect(),
                    };
                    error.of(&name)
                })?);
            }
            if let Some(taken) = earlier(&layer, index).map_err(|error| error.of(&name))? {
                let value = values.all.iter_mut().find(|(_, value, _)| *value == taken);
                value.into_iter().for_each(|value| value.2 = true);
                operands.push(taken);
            }
            if matches!(operands[0], Operand::Input(1..)) {
                let error = GraphError::FurtherInput {
                    layer: index,
                    operator: layer.operator(),
                    name: input,
                };
                return Err(error.of(&name));
            }
            values.define(name.clone(), Operand::Layer(index))?;
            nodes.push(Node {
                name,
                layer,
                operands,
            });
        }
        let mut outputs = Vec::new();
        if !nodes.is_empty() {
            for name in [output]
                .into_iter()
                .chain(further_outputs.iter().map(|name| &**name))
            {
                match values.take(name) {
                    Some(Operand::Layer(layer)) if !outputs.contains(&layer) => outputs.push(layer),
                    value => {
                        return Err(GraphError::Output {
                            name: name.to_owned(),
                            is_repeated: matches!(value, Some(Operand::Layer(_))),
                        });
                    }
                }
            }
        }
        let unused = values.all.iter().find(|(_, _, is_taken)| !is_taken);
        if let (Some((name, ..)), false) = (unused, nodes.is_empty()) {
            let name = name.clone();
            return Err(GraphError::UnusedValue { name });
        }
        let inputs = values.all.drain(further).map(|(name, ..)| name).collect();
        Graph::new(in_channels, first, inputs, nodes, outputs)
    }
}
