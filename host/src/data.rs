//! Arrays of reproducible values: the same numbers on every machine, in every release, in any order.
//!
//! Element `i` of seed `s`, in row-major order, depends on `s` and `i` alone, see [`op_spec::data`]. A shape with more
//! elements than memory addresses is a panic.

use ndarray::{Array, IntoDimension};

use op_spec::data::uniform;

/// An array of uniform values in [0, 1).
pub fn fill<E: IntoDimension>(seed: u64, shape: E) -> Array<f32, E::Dim> {
    generate(shape, |index| uniform(seed, index))
}

/// An array of uniform values in [-1, 1).
pub fn signed<E: IntoDimension>(seed: u64, shape: E) -> Array<f32, E::Dim> {
    generate(shape, |index| op_spec::data::signed(seed, index))
}

/// An array of normally distributed values, mean 0 and deviation 1 (Box and Muller's transform).
pub fn normal<E: IntoDimension>(seed: u64, shape: E) -> Array<f32, E::Dim> {
    generate(shape, |index| op_spec::data::normal(seed, index))
}

fn generate<E: IntoDimension>(shape: E, value: impl Fn(u64) -> f32) -> Array<f32, E::Dim> {
    let mut index = 0;
    Array::from_shape_simple_fn(shape.into_dimension(), || {
        index += 1;
        value(index - 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_do_not_depend_on_the_shape() {
        let flat = fill(7, 24);
        let cube = fill(7, (2, 3, 4));
        assert!(flat.iter().eq(cube.iter()));
        assert_eq!(flat[5], uniform(7, 5));
    }
}
