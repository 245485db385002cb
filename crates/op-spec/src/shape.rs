//! Shapes without an allocator, and element counts that cannot overflow.

use core::fmt;
use core::ops::Deref;

use crate::error::{MAX_ELEMENTS, Quantity, RankRule, SpecError, at_least_one};

/// The highest rank in this crate, that of a batch of volumes.
pub(crate) const MAX_RANK: usize = 5;

/// The shape of a tensor of at most five dimensions; dereferences to a slice.
#[derive(Clone, Copy)]
pub struct Shape {
    rank: usize,
    extents: [usize; MAX_RANK],
}

impl Shape {
    /// Returns the shape of `(n, c)` followed by the spatial extents.
    pub(crate) fn new<const D: usize>(n: usize, c: usize, spatial: [usize; D]) -> Self {
        const { assert!(D + 2 <= MAX_RANK) };
        let mut extents = [0; MAX_RANK];
        extents[0] = n;
        extents[1] = c;
        extents[2..2 + D].copy_from_slice(&spatial);
        Self {
            rank: 2 + D,
            extents,
        }
    }

    /// Returns the shape with these extents, at most five.
    #[cfg(feature = "graph")]
    pub(crate) fn of(shape: &[usize]) -> Self {
        let mut extents = [0; MAX_RANK];
        extents[..shape.len()].copy_from_slice(shape);
        Self {
            rank: shape.len(),
            extents,
        }
    }

    /// Returns the shape of `(n, c)` followed by the last `dimensions` of depth, rows and columns.
    pub(crate) fn of_volume(n: usize, c: usize, volume: [usize; 3], dimensions: usize) -> Self {
        let [d, h, w] = volume;
        match dimensions {
            1 => Self::new(n, c, [w]),
            2 => Self::new(n, c, [h, w]),
            _ => Self::new(n, c, [d, h, w]),
        }
    }

    /// Product of the extents.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.iter().product()
    }
}

impl Deref for Shape {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        &self.extents[..self.rank]
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl PartialEq for Shape {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Shape {}

/// Returns the number of elements of `shape`, if it is at most [`MAX_ELEMENTS`].
///
/// An extent of zero does not lift the limit for the others: a tensor of shape `[0, 2^40, 2^40]` is refused,
/// because the stride of its first dimension could not be expressed.
pub(crate) fn elements(
    operator: &'static str,
    tensor: &'static str,
    shape: &[usize],
) -> Result<usize, SpecError> {
    let too_many = SpecError::TooManyElements { operator, tensor };
    let mut nonzero: usize = 1;
    for &extent in shape {
        match nonzero.checked_mul(extent.max(1)) {
            Some(product) if product <= MAX_ELEMENTS => nonzero = product,
            _ => return Err(too_many),
        }
    }
    Ok(if shape.contains(&0) { 0 } else { nonzero })
}

/// The view of a tensor for operators that treat all positions of a channel alike. Exhaustive: a tensor has
/// no other axes for these operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelShape {
    /// Samples.
    pub n: usize,
    /// Channels.
    pub c: usize,
    /// Positions per channel: the product of all further extents, 1 if there are none.
    pub spatial: usize,
}

impl ChannelShape {
    /// Reads `shape` as samples, channels, and everything else.
    ///
    /// # Errors
    /// [`SpecError::Rank`] under two dimensions, [`SpecError::TooManyElements`] over
    /// [`MAX_ELEMENTS`].
    pub fn new(operator: &'static str, shape: &[usize]) -> Result<Self, SpecError> {
        let [n, c, spatial @ ..] = shape else {
            return Err(SpecError::Rank {
                operator,
                tensor: "input",
                actual: shape.len(),
                rule: RankRule::AtLeast(2),
            });
        };
        elements(operator, "input", shape)?;
        Ok(Self {
            n: *n,
            c: *c,
            spatial: spatial.iter().product(),
        })
    }

    /// Product of the extents.
    #[must_use]
    pub const fn elements(&self) -> usize {
        self.n * self.c * self.spatial
    }

    /// Checks that a parameter tensor, if there is one, holds one value per channel.
    pub(crate) fn check_parameter(
        &self,
        operator: &'static str,
        name: &'static str,
        shape: Option<&[usize]>,
    ) -> Result<(), SpecError> {
        shape.map_or(Ok(()), |shape| same_shape(operator, name, shape, &[self.c]))
    }
}

/// The view of a tensor for operators that treat one axis differently from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AxisShape {
    /// Samples.
    pub n: usize,
    /// Elements of the axes between the batch and this axis.
    pub outer: usize,
    /// The extent of the axis.
    pub extent: usize,
    /// Elements of the axes behind this axis.
    pub inner: usize,
}

impl AxisShape {
    /// Reads `shape` around the axis `dim`.
    ///
    /// # Errors
    /// [`SpecError::TooSmall`] for the batch, [`SpecError::Rank`] for an axis that the shape does not have,
    /// [`SpecError::TooManyElements`] over [`MAX_ELEMENTS`].
    pub(crate) fn new(
        operator: &'static str,
        dim: usize,
        shape: &[usize],
    ) -> Result<Self, SpecError> {
        at_least_one(operator, Quantity::scalar("dim"), dim)?;
        if dim >= shape.len() {
            return Err(SpecError::Rank {
                operator,
                tensor: "input",
                actual: shape.len(),
                rule: RankRule::AtLeast(dim.saturating_add(1)),
            });
        }
        elements(operator, "input", shape)?;
        let product = |extents: &[usize]| extents.iter().product();
        Ok(Self {
            n: shape[0],
            outer: product(&shape[1..dim]),
            extent: shape[dim],
            inner: product(&shape[dim + 1..]),
        })
    }

    /// Product of the extents.
    #[must_use]
    pub const fn elements(&self) -> usize {
        self.n * self.outer * self.extent * self.inner
    }
}

/// Refuses a shape that is not `expected`.
pub(crate) fn same_shape(
    operator: &'static str,
    tensor: &'static str,
    actual: &[usize],
    expected: &[usize],
) -> Result<(), SpecError> {
    if actual.len() != expected.len() {
        return Err(SpecError::Rank {
            operator,
            tensor,
            actual: actual.len(),
            rule: RankRule::Exactly(expected.len()),
        });
    }
    let mut pairs = actual.iter().zip(expected).enumerate();
    match pairs.find(|(_, (actual, expected))| actual != expected) {
        None => Ok(()),
        Some((axis, (&actual, &expected))) => Err(SpecError::Mismatch {
            operator,
            quantity: Quantity::entry(tensor, axis),
            actual,
            expected,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn element_counts_pass_32_bits_and_stop_before_overflow() {
        assert_eq!(elements("op", "input", &[3, 1 << 31, 2]), Ok(3 << 32));
        assert_eq!(elements("op", "input", &[0, 1 << 31, 2]), Ok(0));
        assert_eq!(elements("op", "input", &[]), Ok(1));
        assert_eq!(elements("op", "input", &[MAX_ELEMENTS]), Ok(MAX_ELEMENTS));
        for shape in [
            &[usize::MAX][..],
            &[MAX_ELEMENTS + 1],
            &[1 << 40, 1 << 40],
            &[0, 1 << 40, 1 << 40],
        ] {
            assert!(elements("op", "input", shape).is_err(), "{shape:?}");
        }
    }

    #[test]
    fn a_matrix_has_one_position_per_channel() {
        let shape = ChannelShape::new("op", &[4, 7]).unwrap();
        assert_eq!((shape.n, shape.c, shape.spatial), (4, 7, 1));
        assert!(ChannelShape::new("op", &[4]).is_err());
    }
}
