//! Arrays of reproducible values: the same numbers on every machine, in every release, in any order.
//!
//! Element `i` of seed `s`, in row-major order, depends on `s` and `i` alone, see [`op_spec::data`].
//!
//! [`fill`], [`signed`] and [`normal`] panic if there is not enough memory. [`try_fill`], [`try_signed`] and
//! [`try_normal`] return an error instead; use them for shapes from user input.
//!
//! # Examples
//! ```
//! use convfuse::data;
//!
//! let images = data::fill(42, (2, 3, 16, 16)); // samples, channels, rows, columns
//! assert_eq!(images, data::fill(42, (2, 3, 16, 16)));
//! assert!(images.iter().all(|value| (0.0..1.0).contains(value)));
//! ```

use ndarray::{Array, Dimension, IntoDimension};

use op_spec::data::uniform;

use crate::error::Result;
use crate::host_memory::{affordable, reserve};

/// Returns an array of uniform values in [0, 1).
pub fn fill<E: IntoDimension>(seed: u64, shape: E) -> Array<f32, E::Dim> {
    there_is_memory(try_fill(seed, shape))
}

/// Returns an array of uniform values in [-1, 1).
pub fn signed<E: IntoDimension>(seed: u64, shape: E) -> Array<f32, E::Dim> {
    there_is_memory(try_signed(seed, shape))
}

/// Returns an array of normally distributed values with mean 0 and standard deviation 1 (Box-Muller
/// transform).
pub fn normal<E: IntoDimension>(seed: u64, shape: E) -> Array<f32, E::Dim> {
    there_is_memory(try_normal(seed, shape))
}

/// Like [`fill`], but returns an error if there is not enough memory.
///
/// # Errors
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory)
pub fn try_fill<E: IntoDimension>(seed: u64, shape: E) -> Result<Array<f32, E::Dim>> {
    generate(shape, |index| uniform(seed, index))
}

/// Like [`signed`], but returns an error if there is not enough memory.
///
/// # Errors
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory)
pub fn try_signed<E: IntoDimension>(seed: u64, shape: E) -> Result<Array<f32, E::Dim>> {
    generate(shape, |index| op_spec::data::signed(seed, index))
}

/// Like [`normal`], but returns an error if there is not enough memory.
///
/// # Errors
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory)
pub fn try_normal<E: IntoDimension>(seed: u64, shape: E) -> Result<Array<f32, E::Dim>> {
    generate(shape, |index| op_spec::data::normal(seed, index))
}

fn there_is_memory<D>(array: Result<Array<f32, D>>) -> Array<f32, D> {
    array.unwrap_or_else(|error| panic!("{error}"))
}

fn generate<E: IntoDimension>(shape: E, value: impl Fn(u64) -> f32) -> Result<Array<f32, E::Dim>> {
    let shape = shape.into_dimension();
    // ndarray requires that the product of the non-zero extents does not overflow, even if another extent is
    // 0.
    let product = |product: usize, &extent: &usize| product.checked_mul(extent.max(1));
    let addressed = shape.slice().iter().try_fold(size_of::<f32>(), product);
    if addressed.is_none_or(|bytes| isize::try_from(bytes).is_err()) {
        affordable(u64::MAX)?;
    }
    let mut values = reserve(shape.size())?;
    values.extend((0..shape.size() as u64).map(value));
    Ok(Array::from_shape_vec(shape, values).expect("as many elements"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_no_memory_for_is_an_error() {
        for shape in [
            [1 << 40, 1 << 8, 1],
            [usize::MAX, usize::MAX, 1],
            [0, 1 << 62, 1 << 62],
        ] {
            let error = try_fill(1, shape).unwrap_err();
            assert!(
                matches!(error, crate::Error::OutOfMemory { .. }),
                "{shape:?}"
            );
            assert!(try_signed(1, shape).is_err() && try_normal(1, shape).is_err());
        }
    }

    #[test]
    fn elements_do_not_depend_on_the_shape() {
        let flat = fill(7, 24);
        let cube = fill(7, (2, 3, 4));
        assert!(flat.iter().eq(cube.iter()));
        assert_eq!(flat[5], uniform(7, 5));
    }
}
