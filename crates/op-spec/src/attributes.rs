//! Numbers in files, which have only finite ones.

use serde::Serializer;
use serde::ser::Error;

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
