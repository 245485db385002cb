//! Arrays of reproducible values, in row-major order.

use ndarray::{ArrayD, IxDyn};
use op_spec::data;

/// Values in [0, 1).
#[must_use]
pub fn fill(seed: u64, shape: &[usize]) -> ArrayD<f32> {
    generate(shape, |index| data::uniform(seed, index))
}

/// Values in [-1, 1).
#[must_use]
pub fn signed(seed: u64, shape: &[usize]) -> ArrayD<f32> {
    generate(shape, |index| data::signed(seed, index))
}

/// [`fill`], or `None` if there is not enough memory.
pub(crate) fn try_fill(seed: u64, shape: &[usize]) -> Option<ArrayD<f32>> {
    let mut values = Vec::new();
    let elements = shape
        .iter()
        .try_fold(1, |product: usize, &extent| product.checked_mul(extent))?;
    values.try_reserve_exact(elements).ok()?;
    values.extend((0..elements as u64).map(|index| data::uniform(seed, index)));
    ArrayD::from_shape_vec(IxDyn(shape), values).ok()
}

/// Creates an array from `value` of each element's row-major index.
pub(crate) fn generate(shape: &[usize], value: impl Fn(u64) -> f32) -> ArrayD<f32> {
    let mut index = 0;
    ArrayD::from_shape_simple_fn(IxDyn(shape), || {
        index += 1;
        value(index - 1)
    })
}
