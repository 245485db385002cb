//! Layers from their attributes, as files of chains have them.

use op_spec::graph::Layer;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Attributes by name; a value is JSON, or text that is none.
pub(crate) fn attributes_of(words: &str) -> Map<String, Value> {
    let attribute = |word: &str| {
        let (name, value) = word.split_once('=').expect(word);
        let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
        (name.to_owned(), value)
    };
    words.split_whitespace().map(attribute).collect()
}

/// The layer that has these attributes in a file of a chain.
pub(crate) fn layer(operator: &str, attributes: Map<String, Value>) -> serde_json::Result<Layer> {
    Layer::deserialize(Value::from_iter([(operator, attributes)]))
}

/// A layer by its operator's name and its attributes, as words like `kernel_size=[3,2]`: see files of chains.
///
/// # Errors
/// Attributes that the operator lacks, or does not take so.
pub fn layer_of(operator: &str, attributes: &str) -> serde_json::Result<Layer> {
    layer(operator, attributes_of(attributes))
}
