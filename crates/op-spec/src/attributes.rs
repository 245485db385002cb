//! Attributes in files: finite numbers, numbers for each axis, and PyTorch's defaults.

use alloc::vec::Vec;
use core::fmt;

use serde::ser::Error;
use serde::{Deserialize, Serialize, Serializer};

use crate::InstanceNormSpec;

/// Serialises a finite number. JSON would write any other as `null`, which is read as no number.
pub(crate) fn number<S: Serializer>(number: &f64, file: S) -> Result<S::Ok, S::Error> {
    match number.is_finite() {
        true => file.serialize_f64(*number),
        false => Err(S::Error::custom(format_args!(
            "{number}: files have only finite numbers"
        ))),
    }
}

/// Serialises a lower bound. A bound of minus infinity is none.
pub(crate) fn lower<S: Serializer>(bound: &Option<f64>, file: S) -> Result<S::Ok, S::Error> {
    match bound.filter(|&bound| bound != f64::NEG_INFINITY) {
        Some(bound) => number(&bound, file),
        None => file.serialize_none(),
    }
}

/// Serialises an upper bound. A bound of infinity is none.
pub(crate) fn upper<S: Serializer>(bound: &Option<f64>, file: S) -> Result<S::Ok, S::Error> {
    match bound.filter(|&bound| bound != f64::INFINITY) {
        Some(bound) => number(&bound, file),
        None => file.serialize_none(),
    }
}

/// Converts between a layer with an `attributes` field and its file, which has all attributes side by side.
/// Fields given as `name: value` exist in the file alone.
macro_rules! written_as {
    ($File:ident: $Layer:ident { $($field:ident),* }, $Spec:ident { $($attribute:ident),* } $(, $other:ident: $value:expr)*) => {
        #[doc(hidden)] // only for serde
        impl From<$File> for $Layer {
            fn from(file: $File) -> Self {
                let attributes = $Spec { $($attribute: file.$attribute),* };
                Self { attributes, $($field: file.$field),* }
            }
        }

        impl From<$Layer> for $File {
            fn from(layer: $Layer) -> Self {
                Self { $($attribute: layer.attributes.$attribute,)* $($field: layer.$field,)* $($other: $value,)* }
            }
        }
    };
}

pub(crate) use written_as;

/// The error of an attribute with more or fewer entries than its layer has axes.
#[derive(Debug)]
pub(crate) struct AxesError {
    name: &'static str,
    actual: usize,
    expected: usize,
}

impl fmt::Display for AxesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            actual,
            expected,
        } = self;
        write!(
            f,
            "{name} has {actual} entries, expected a number or {expected} entries"
        )
    }
}

/// A number for all axes, or one for each.
#[derive(Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a number that is not negative, or one for each axis"
)]
pub(crate) enum Axes {
    All(usize),
    Each(Vec<usize>),
}

impl Axes {
    /// Returns `All` if all values are equal, and `Each` otherwise.
    pub(crate) fn of(values: &[usize]) -> Axes {
        match values {
            [first, rest @ ..] if rest.iter().all(|value| value == first) => Axes::All(*first),
            _ => Axes::Each(values.to_vec()),
        }
    }

    /// Returns the values, or `None` if all of them are `default`.
    pub(crate) fn unless(values: &[usize], default: usize) -> Option<Axes> {
        let is_default = values.iter().all(|&value| value == default);
        (!is_default).then(|| Axes::of(values))
    }

    pub(crate) fn values<const D: usize>(
        &self,
        name: &'static str,
    ) -> Result<[usize; D], AxesError> {
        match self {
            Axes::All(value) => Ok([*value; D]),
            Axes::Each(values) => values.as_slice().try_into().map_err(|_| AxesError {
                name,
                actual: values.len(),
                expected: D,
            }),
        }
    }
}

/// Returns the values of an optional attribute.
pub(crate) fn axes<const D: usize>(
    name: &'static str,
    values: Option<&Axes>,
    default: usize,
) -> Result<[usize; D], AxesError> {
    values.map_or(Ok([default; D]), |values| values.values(name))
}

pub(crate) fn one() -> usize {
    1
}

pub(crate) fn is_one(value: &usize) -> bool {
    *value == 1
}

pub(crate) fn yes() -> bool {
    true
}

pub(crate) fn is_true(value: &bool) -> bool {
    *value
}

pub(crate) fn is_false(value: &bool) -> bool {
    !*value
}

pub(crate) fn eps() -> f64 {
    InstanceNormSpec::default().eps
}
