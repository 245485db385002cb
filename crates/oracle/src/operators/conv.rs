//! `y[n, k, p, q] = bias[k] + sum over c, r, s of weight[k, c, r, s] * x[n, c, p', q']` with
//! `p' = p * stride - padding + r * dilation`, and `q'` likewise. Outside of the image, the values are zeros
//! or those of the padding mode. A convolution of volumes has an additional dimension, one of sequences has
//! one fewer; all are computed as one of volumes.
//!
//! *Condition*: `sum of abs(x * w) + abs(bias)`. Rounded factors add these errors:
//!
//! - The relative error of a product, times `sum of abs(x * w)`.
//! - The underflow of an input, times `sum of abs(w)` over the whole filter.
//! - The error relative to the largest value of the sample or filter, times `max of abs(x) * sum of abs(w)`
//!   and `max of abs(w) * sum of abs(x)` over the window.
//!
//! On tensor cores, a sum is not a chain of additions: each instruction truncates all of its addends
//! together. In a short sum with few instructions, this exceeds the rounding of a chain. *Passes on* `t` as
//! `sum of t * abs(w)`.

mod cases;
mod sums;

use ndarray::{Array5, ArrayD, ArrayView5, ArrayViewD, Axis, Ix5};
use op_spec::{ConvProblem, Pad, PaddingMode};

use super::operator::{Given, Operator, chained};
use crate::Precision;
use sums::convolve;
pub(super) use sums::{Terms, term};

pub(super) use cases::{CONV1D, CONV2D, CONV3D};

/// The parts of a convolution's error, for any kind of convolution.
pub(super) trait Convolution {
    /// Computes the sums, including the bias.
    fn sums(
        &self,
        x: &ArrayD<f64>,
        weight: &ArrayD<f64>,
        bias: Option<&ArrayD<f64>>,
        terms: Terms,
    ) -> ArrayD<f64>;

    /// For each group, the sum of the values in each window, as one channel per group.
    fn windows(&self, x: &ArrayD<f64>) -> ArrayD<f64>;

    /// For each output channel's filter, its largest magnitude and the sum of its magnitudes.
    fn filters(&self, weight: &ArrayD<f64>) -> Vec<(f64, f64)>;

    /// Output channels of a group.
    fn group_filters(&self) -> usize;

    /// The largest number of taps of an output element, on each axis.
    fn taps(&self) -> Vec<usize>;

    /// The number of input channels of an output element.
    fn channels(&self) -> usize;

    /// Whether a bias is added.
    fn has_bias(&self) -> bool;

    /// The multiply-adds of all outputs.
    fn work(&self) -> u64;

    /// See [`Operator::padded`].
    fn padded(&self) -> Vec<usize> {
        vec![0]
    }
}

impl<const D: usize> Convolution for ConvProblem<D> {
    fn sums(
        &self,
        x: &ArrayD<f64>,
        weight: &ArrayD<f64>,
        bias: Option<&ArrayD<f64>>,
        terms: Terms,
    ) -> ArrayD<f64> {
        sums_of(self, x, weight, bias, terms)
    }

    fn windows(&self, x: &ArrayD<f64>) -> ArrayD<f64> {
        let mut of_groups = *self;
        (of_groups.k, of_groups.bias) = (self.groups, false);
        let ones = ArrayD::ones(&*of_groups.weight_shape());
        sums_of(&of_groups, x, &ones, None, Terms::Magnitudes)
    }

    fn filters(&self, weight: &ArrayD<f64>) -> Vec<(f64, f64)> {
        let filters = weight.outer_iter();
        filters.map(|filter| finite(&filter)).collect()
    }

    fn group_filters(&self) -> usize {
        self.k_per_group()
    }

    fn taps(&self) -> Vec<usize> {
        self.kernel_size.to_vec()
    }

    fn channels(&self) -> usize {
        self.c_per_group()
    }

    fn has_bias(&self) -> bool {
        self.bias
    }

    fn work(&self) -> u64 {
        (self.output_shape().elements() as u64).saturating_mul(self.reduction() as u64)
    }

    fn padded(&self) -> Vec<usize> {
        let outer = self.pad.map(|pad| pad.outer());
        outer.map_or(vec![0], |outer| [&[self.c], &outer[..]].concat())
    }
}

impl<C: Convolution> Operator for C {
    fn reference(&self, x: &ArrayD<f64>, parameters: &[&ArrayD<f64>]) -> ArrayD<f64> {
        let bias = self.has_bias().then(|| parameters[1]);
        self.sums(x, parameters[0], bias, Terms::Products)
    }

    fn tolerance(&self, of: &Given<'_>, t: ArrayD<f64>, precision: &Precision) -> ArrayD<f64> {
        let tolerances = self.tolerances(of, vec![t], &[*precision]);
        tolerances.into_iter().next().expect("one of each")
    }

    fn tolerances(
        &self,
        of: &Given<'_>,
        t: Vec<ArrayD<f64>>,
        precisions: &[Precision],
    ) -> Vec<ArrayD<f64>> {
        tolerances(self, of, t, precisions)
    }

    fn padded(&self) -> Vec<usize> {
        Convolution::padded(self)
    }

    fn cost(&self) -> u64 {
        self.work()
    }
}

/// The tolerances of a convolution with parameters in PyTorch's order.
pub(super) fn tolerances(
    problem: &impl Convolution,
    &Given { x, parameters, .. }: &Given<'_>,
    t: Vec<ArrayD<f64>>,
    precisions: &[Precision],
) -> Vec<ArrayD<f64>> {
    let (weight, bias) = (parameters[0], parameters.get(1));
    // Equal for all precisions.
    let magnitudes = problem.sums(x, weight, None, Terms::Magnitudes);
    let reduction = problem.channels() * problem.taps().iter().product::<usize>();
    let of_precision = |(t, precision): (ArrayD<f64>, &Precision)| {
        let unit = off_by(problem, reduction, precision) + precision.factors;
        let mut tolerance = magnitudes.mapv(|v| v * unit);
        // The bias is added once, without rounding it first.
        let of_bias = chained(reduction) * precision.products;
        for (k, mut tolerance) in tolerance.axis_iter_mut(Axis(1)).enumerate() {
            tolerance += bias.map_or(0.0, |bias| of_bias * bias[k].abs());
        }
        if t.iter().any(|&t| t != 0.0) {
            let passed_on = problem.sums(&t, weight, None, Terms::Magnitudes);
            tolerance.zip_mut_with(&passed_on, |own, passed_on| {
                *own += passed_on * (1.0 + unit)
            });
        }
        if precision.factors_underflow != 0.0 {
            let channels = tolerance.axis_iter_mut(Axis(1));
            // With an infinite element the result is infinite, or the element is outside of the window.
            for (mut tolerance, (_, sum)) in channels.zip(problem.filters(weight)) {
                tolerance += precision.factors_underflow * sum;
            }
        }
        if precision.factors_of_largest != 0.0 {
            let magnitudes = x.mapv(f64::abs) + &t;
            add_far_below(
                &mut tolerance,
                problem,
                &magnitudes,
                weight,
                precision.factors_of_largest,
            );
        }
        tolerance
    };
    t.into_iter().zip(precisions).map(of_precision).collect()
}

/// The error of a sum relative to the magnitudes of its terms: from the rounding in a chain of additions, or
/// from the truncation by tensor-core instructions.
fn off_by(problem: &impl Convolution, reduction: usize, precision: &Precision) -> f64 {
    match precision.cut {
        0.0 => chained(reduction) * precision.products,
        cut => {
            let instructions = precision.instructions * steps(problem);
            chained(0) * precision.products + (instructions as f64).sqrt() * cut
        }
    }
}

/// The largest number of MMA steps that add to one sum. A step has 16 products, those of two K-vectors of
/// eight channels: of two channel blocks at one tap, or of one channel block at two neighbouring taps,
/// depending on the tile. Without a second K-vector, its products are 0.
fn steps(problem: &impl Convolution) -> usize {
    let (planes, extents) = (problem.channels().div_ceil(8), problem.taps());
    let (taps, columns) = (
        extents.iter().product::<usize>(),
        extents.last().copied().unwrap_or(1),
    );
    let pairs = taps / columns * columns.div_ceil(2);
    (planes.div_ceil(2) * taps).max(planes * pairs)
}

/// The first spatial axis.
const FIRST: Axis = Axis(2);

/// Below this, kernels scale all largest values by `2^126`, the largest power of two in f32 whose reciprocal
/// is normal.
const LEAST_LARGEST: f64 = f32::MIN_POSITIVE as f64 * 256.0;

/// Adds to a tolerance the errors of factors far smaller than the largest of their sample or filter. `x` has
/// the magnitudes of the samples.
fn add_far_below(
    tolerance: &mut ArrayD<f64>,
    problem: &impl Convolution,
    x: &ArrayD<f64>,
    weight: &ArrayD<f64>,
    part: f64,
) {
    let windows = problem.windows(x);
    let filters = problem.filters(weight);
    let samples = tolerance.outer_iter_mut().zip(x.outer_iter());
    for ((mut tolerance, x), windows) in samples.zip(windows.outer_iter()) {
        let largest_x = finite(&x).0.max(LEAST_LARGEST);
        for (k, mut tolerance) in tolerance.outer_iter_mut().enumerate() {
            let (largest_w, sum_w) = filters[k];
            let largest_w = largest_w.max(LEAST_LARGEST);
            let window = windows.index_axis(Axis(0), k / problem.group_filters());
            tolerance.zip_mut_with(&window, |t, window| {
                *t += part * (largest_x * sum_w + largest_w * window);
            });
        }
    }
}

/// The largest magnitude of the finite values, and the sum of their magnitudes.
pub(super) fn finite(values: &ArrayViewD<'_, f64>) -> (f64, f64) {
    let finite = values.iter().map(|v| v.abs()).filter(|v| v.is_finite());
    finite.fold((0.0, 0.0), |(largest, sum), v| (v.max(largest), sum + v))
}

/// Computes the sums of a convolution of any dimension.
fn sums_of<const D: usize>(
    problem: &ConvProblem<D>,
    x: &ArrayD<f64>,
    weight: &ArrayD<f64>,
    bias: Option<&ArrayD<f64>>,
    terms: Terms,
) -> ArrayD<f64> {
    let problem = problem.as_conv3d();
    let (x, weight) = (as_volumes(x), as_volumes(weight));
    let within = problem.pad.map(|pad| within(&x, &pad));
    let x = within.as_ref().map_or(x, |within| within.view());
    let y = convolve(&x, &weight, bias, &problem, terms).into_dyn();
    let absent = y.ndim() - (D + 2);
    (0..absent).fold(y, |y, _| y.remove_axis(FIRST))
}

/// Views images as volumes that are one voxel deep, and sequences as volumes that are also one voxel high.
pub(super) fn as_volumes(x: &ArrayD<f64>) -> ArrayView5<'_, f64> {
    let mut x = x.view();
    while x.ndim() < 5 {
        x = x.insert_axis(FIRST);
    }
    x.into_dimensionality::<Ix5>().expect("volumes")
}

/// Pads volumes. Each element is looked up at the position that the padding mode gives.
pub(super) fn within(x: &ArrayView5<'_, f64>, pad: &Pad<3>) -> Array5<f64> {
    // The position in the input along an axis; `None` for a zero.
    let source = |axis: usize, position: usize| {
        let extent = pad.inner[axis] as isize;
        let position = position as isize - pad.before[axis] as isize;
        let mirrored = (extent - 1) - (extent - 1 - position.abs()).abs();
        let found = match pad.mode {
            PaddingMode::Zeros if position < 0 || position >= extent => return None,
            PaddingMode::Zeros => position,
            PaddingMode::Reflect => mirrored,
            PaddingMode::Replicate => position.clamp(0, extent - 1),
            PaddingMode::Circular => position.rem_euclid(extent),
        };
        Some(found as usize)
    };
    let outer = pad.outer();
    let sources = [0, 1, 2].map(|axis| -> Vec<Option<usize>> {
        let positions = 0..outer[axis];
        positions.map(|position| source(axis, position)).collect()
    });
    let [d, h, w] = outer;
    Array5::from_shape_fn(
        (x.shape()[0], x.shape()[1], d, h, w),
        |(n, c, z, p, q)| match (sources[0][z], sources[1][p], sources[2][q]) {
            (Some(z), Some(p), Some(q)) => x[(n, c, z, p, q)],
            _ => 0.0,
        },
    )
}

#[cfg(test)]
mod tests;
