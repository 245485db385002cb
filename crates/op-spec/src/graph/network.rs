//! Network files: the JSON form of a graph. Their layers are those of chain files, with the names of their
//! values.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::builder::{GraphBuilder, Step};
use super::file::{Numbered, numbered, whole_number};
use super::naming::object;
use super::{Graph, Layer, Operand};

/// The version that is written, and the only one that is accepted.
const VERSION: usize = 1;

/// See [`Graph`] for an example.
#[derive(Serialize, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a network, an object with version, input, layers and output"
)]
pub(super) struct NetworkFile {
    #[serde(deserialize_with = "version")]
    version: usize,
    #[serde(deserialize_with = "input")]
    input: FirstInput,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    inputs: Vec<String>,
    #[serde(deserialize_with = "numbered")]
    layers: Vec<Step>,
    output: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    outputs: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "an input, an object with name and channels"
)]
struct FirstInput {
    name: String,
    #[serde(deserialize_with = "whole_number")]
    channels: usize,
}

/// Reads the first input; its errors name the key.
fn input<'de, D: Deserializer<'de>>(file: D) -> Result<FirstInput, D::Error> {
    object(file)
}

/// Reads the version. Files of this crate have it first, and a file of another version has no other error.
fn version<'de, D: Deserializer<'de>>(file: D) -> Result<usize, D::Error> {
    match whole_number(file)? {
        VERSION => Ok(VERSION),
        version => Err(Error::custom(format!("is {version}, expected {VERSION}"))),
    }
}

impl Numbered for Step {
    const KIND: &str = "a list of layers with their names and inputs";
}

impl<'de> Deserialize<'de> for Step {
    fn deserialize<D: Deserializer<'de>>(file: D) -> Result<Step, D::Error> {
        struct OneStep;

        impl<'de> Visitor<'de> for OneStep {
            type Value = Step;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with name, input and layer")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut file: A) -> Result<Step, A::Error> {
                let (mut name, mut input) = (None::<String>, None);
                let mut layer = None::<Layer>;
                while let Some(key) = file.next_key::<String>()? {
                    let read = match &*key {
                        "name" if name.is_none() => file.next_value().map(|read| name = Some(read)),
                        "input" if input.is_none() => {
                            file.next_value().map(|read| input = Some(read))
                        }
                        "layer" if layer.is_none() => {
                            file.next_value().map(|read| layer = Some(read))
                        }
                        "name" | "input" | "layer" => {
                            Err(Error::custom(format!("duplicate field `{key}`")))
                        }
                        _ => Err(Error::unknown_field(&key, &["name", "input", "layer"])),
                    };
                    read.map_err(|error| {
                        // An error of a layer already names its operator.
                        let error = match &*key {
                            "name" | "input" => format!("{key}: {error}"),
                            _ => error.to_string(),
                        };
                        Error::custom(named(name.as_deref(), &error))
                    })?;
                }
                let missing = <A::Error as Error>::missing_field;
                let name = name.ok_or_else(|| missing("name"))?;
                let missing = |field| Error::custom(format!("{name}: {}", missing(field)));
                let input = input.ok_or_else(|| missing("input"))?;
                let layer = layer.ok_or_else(|| missing("layer"))?;
                Ok(Step { name, input, layer })
            }
        }

        file.deserialize_map(OneStep)
    }
}

/// Returns the error of a layer behind the name of the layer's value, if that is known.
fn named(name: Option<&str>, error: &str) -> String {
    name.map_or_else(|| error.to_owned(), |name| format!("{name}: {error}"))
}

impl<'de> Deserialize<'de> for Graph {
    fn deserialize<D: Deserializer<'de>>(file: D) -> Result<Graph, D::Error> {
        let file: NetworkFile = object(file)?;
        let FirstInput { name, channels } = file.input;
        let builder = file
            .inputs
            .into_iter()
            .fold(Graph::builder(name, channels), GraphBuilder::input);
        let outputs = file.outputs.into_iter();
        let builder = outputs.fold(builder, GraphBuilder::output);
        let graph = builder.steps(file.layers).build(&file.output);
        graph.map_err(D::Error::custom)
    }
}

impl From<Graph> for NetworkFile {
    fn from(graph: Graph) -> NetworkFile {
        let (first, names) = names(&graph);
        let name_of = |operand: Operand| match operand {
            Operand::Input(0) => &first,
            Operand::Input(input) => &graph.inputs[input - 1],
            Operand::Layer(layer) => &names[layer],
        };
        let layers = graph.layers.iter().enumerate().map(|(index, layer)| {
            // The graph may hold the operands in another order than the layer names them.
            let earlier = layer.kind().earlier().map(Operand::Layer);
            let mut all = graph.operands[index].clone();
            if let Some(at) = all.iter().rposition(|&operand| Some(operand) == earlier) {
                all.remove(at);
            }
            let mut operands: Vec<&String> = all.into_iter().map(name_of).collect();
            for named in layer.kind().operands() {
                if let Some(at) = operands.iter().rposition(|name| *name == named) {
                    operands.remove(at);
                }
            }
            Step {
                name: names[index].clone(),
                input: operands[0].clone(),
                layer: layer.clone(),
            }
        });
        let layers = layers.collect();
        let mut outputs = graph.outputs.iter().map(|&layer| names[layer].clone());
        NetworkFile {
            version: VERSION,
            layers,
            output: outputs.next().unwrap_or_default(),
            outputs: outputs.collect(),
            input: FirstInput {
                name: first,
                channels: graph.in_channels,
            },
            inputs: graph.inputs,
        }
    }
}

/// Returns the names of the first input and of all layers. A chain gets generated names that differ from
/// those of its inputs.
fn names(graph: &Graph) -> (String, Vec<String>) {
    if !graph.input.is_empty() {
        return (graph.input.clone(), graph.names.clone());
    }
    let mut taken: BTreeSet<String> = graph.inputs.iter().cloned().collect();
    let mut free = |mut name: String| {
        while !taken.insert(name.clone()) {
            name.push('_');
        }
        name
    };
    let first = free("input".to_owned());
    let names = (0..graph.layers.len()).map(|layer| free(layer.to_string()));
    (first, names.collect())
}
