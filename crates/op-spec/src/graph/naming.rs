//! Deserialisation of objects with errors that name the key of the wrong value.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::marker::PhantomData;

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};

/// Reads an object. Errors name its keys, and a list of the values is no substitute for the object.
pub(super) fn object<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    file: D,
) -> Result<T, D::Error> {
    Naming(PhantomData).deserialize(file)
}

/// A seed, a deserializer or a visitor of an object. An error in the value of an entry begins with its key.
pub(super) struct Naming<T>(pub(super) T);

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Naming<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, file: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Naming(file))
    }
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Naming<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(Naming(visitor))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Naming<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, file: A) -> Result<V::Value, A::Error> {
        let key = String::new();
        self.0.visit_map(Entries { file, key })
    }
}

/// The entries of an object, and the key that was read last.
struct Entries<A> {
    file: A,
    key: String,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Entries<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        let Some(key) = self.file.next_key()? else {
            return Ok(None);
        };
        self.key = key;
        let key = StrDeserializer::<A::Error>::new(&self.key);
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        let value = self.file.next_value_seed(seed);
        value.map_err(|error| match &*self.key {
            // Errors of layers already have a number.
            "layers" => error,
            key => Error::custom(format!("{key}: {error}")),
        })
    }
}
