//! Layers from attributes, in the format of chain files.

use op_spec::graph::Layer;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Parses attributes. A value is JSON, or plain text if it is not valid JSON.
pub(crate) fn attributes_of(words: &str) -> Map<String, Value> {
    let attribute = |word: &str| {
        let (name, value) = word.split_once('=').expect(word);
        let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
        (name.to_owned(), value)
    };
    words.split_whitespace().map(attribute).collect()
}

/// Creates a layer from its attributes in a chain file.
pub(crate) fn layer(operator: &str, attributes: Map<String, Value>) -> serde_json::Result<Layer> {
    Layer::deserialize(Value::from_iter([(operator, attributes)]))
}

/// Creates a layer from an operator's name and attributes in words such as `kernel_size=[3,2]`, named as in
/// chain files.
///
/// # Errors
/// Attributes that the operator lacks, and values that it does not accept.
pub fn layer_of(operator: &str, attributes: &str) -> serde_json::Result<Layer> {
    layer(operator, attributes_of(attributes))
}
