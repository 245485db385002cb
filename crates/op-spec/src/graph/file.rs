//! Serialisation of layers and chains: one object for each layer, without attributes that have PyTorch's
//! default.
//!
//! Each layer's file defines how its attributes are written.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::layer::Layer;
use super::naming::Naming;
use crate::{ArithmeticOp, PointwiseSpec, ShuffleSpec};

/// See [`Chain`](super::Chain) for an example.
#[derive(Serialize, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a chain, an object with in_channels and layers"
)]
pub(super) struct ChainFile {
    #[serde(deserialize_with = "whole_number")]
    pub(super) in_channels: usize,
    #[serde(deserialize_with = "numbered")]
    pub(super) layers: Vec<Layer>,
}

/// Reads a whole number; its errors are in words that name no Rust types.
pub(super) fn whole_number<'de, D: Deserializer<'de>>(file: D) -> Result<usize, D::Error> {
    usize::deserialize(file).map_err(|error| Error::custom(in_words(&error)))
}

/// An entry of a list of layers.
pub(super) trait Numbered {
    /// The name of a list of such entries in errors.
    const KIND: &str;
}

impl Numbered for Layer {
    const KIND: &str = "a list of layers";
}

/// Reads a list of layers; an error in a layer begins with its number.
pub(super) fn numbered<'de, T: Deserialize<'de> + Numbered, D: Deserializer<'de>>(
    file: D,
) -> Result<Vec<T>, D::Error> {
    struct Layers<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de> + Numbered> Visitor<'de> for Layers<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(T::KIND)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut file: A) -> Result<Vec<T>, A::Error> {
            let mut layers = Vec::new();
            loop {
                let number = layers.len();
                let layer = file.next_element();
                match layer.map_err(|error| Error::custom(format!("layer {number}: {error}")))? {
                    Some(layer) => layers.push(layer),
                    None => return Ok(layers),
                }
            }
        }
    }

    file.deserialize_seq(Layers(PhantomData))
}

impl<'de> Deserialize<'de> for Layer {
    fn deserialize<D: Deserializer<'de>>(file: D) -> Result<Layer, D::Error> {
        struct OneLayer;

        impl<'de> Visitor<'de> for OneLayer {
            type Value = Layer;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a layer, an object whose one key is its operator")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut file: A) -> Result<Layer, A::Error> {
                let Some(operator) = file.next_key::<String>()? else {
                    return Err(Error::custom("a layer has no operator, expected 1"));
                };
                let layer = if let Some(operation) = ArithmeticOp::named(&operator) {
                    file.next_value_seed(Naming(operation))
                } else if PointwiseSpec::OPERATORS.contains(&&*operator) {
                    named(&operator, &mut file).map(Layer::Pointwise)
                } else if ShuffleSpec::OPERATORS.contains(&&*operator) {
                    named(&operator, &mut file).map(Layer::Shuffle)
                } else {
                    Layer::read(&operator, &mut file)
                };
                let layer = layer.map_err(|error| match is_known(&operator) {
                    true => Error::custom(format!("{operator}: {}", in_words(&error))),
                    false => error,
                })?;
                match file.next_key::<String>()? {
                    None => Ok(layer),
                    Some(second) => Err(Error::custom(format!(
                        "a layer has two operators, {operator} and {second}, expected 1"
                    ))),
                }
            }
        }

        file.deserialize_map(OneLayer)
    }
}

/// Returns the error's text with plain words for the Rust types that serde expects.
fn in_words(error: &impl fmt::Display) -> String {
    format!("{error}")
        .replace("expected usize", "expected a whole number")
        .replace("expected f64", "expected a number")
        .replace("expected f32", "expected a number")
        .replace("expected a sequence", "expected a list")
}

fn is_known(operator: &str) -> bool {
    Layer::operators().any(|known| known == operator)
}

/// Reads one of several operators. The caller has already read the operator's name.
fn named<'de, T: Deserialize<'de>, A: MapAccess<'de>>(
    operator: &str,
    attributes: &mut A,
) -> Result<T, A::Error> {
    T::deserialize(MapAccessDeserializer::new(Named {
        operator: Some(operator),
        attributes,
    }))
}

/// The attributes of an operator, and its name, which the caller has already read.
struct Named<'a, A> {
    operator: Option<&'a str>,
    attributes: &'a mut A,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Named<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        let Some(operator) = self.operator.take() else {
            return Ok(None);
        };
        let name = StrDeserializer::<A::Error>::new(operator);
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.attributes.next_value_seed(Naming(seed))
    }
}
