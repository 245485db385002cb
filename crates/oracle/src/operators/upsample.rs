//! Along each axis, the position `v` is `output * scale`, or `(output + 0.5) * scale` (optionally less 0.5,
//! but at least 0), computed in f32 as in PyTorch:
//!
//! | mode | `y[n, c, ..]` |
//! |---|---|
//! | `nearest`, `nearest-exact` | `x[n, c, ..]` at `floor(v)`, at most the last index |
//! | `linear`, `bilinear`, `trilinear` | `x` at `floor(v)` and at the next index, weighted by the distances to `v` |
//!
//! *Condition*: for interpolated values, the magnitudes around the position, since a position may have
//! errors in its last bits. *Passes on* the `t` of the nearest value, or the weighted `t` around the
//! position.

use ndarray::{Array5, ArrayD, ArrayView3, Axis, Ix5, Zip};
use op_spec::{UpsampleAxis, UpsampleProblem};

use super::operator::{Given, Operator, chained};
use crate::cases::cases;
use crate::{Cases, Precision};

impl Operator for UpsampleProblem {
    fn reference(&self, x: &ArrayD<f64>, _: &[&ArrayD<f64>]) -> ArrayD<f64> {
        of_pixels(self, x, |x, places| interpolated(x, places))
    }

    fn tolerance(&self, of: &Given<'_>, t: ArrayD<f64>, precision: &Precision) -> ArrayD<f64> {
        let passed_on = self.reference(&t, &[]);
        if self.selects() {
            return passed_on;
        }
        let magnitudes = of_pixels(self, of.x, |x, places| {
            let around = places.each_ref().map(|of| {
                // Both with full weight.
                of.map(|(index, _)| (index, 1.0))
            });
            let positions: f64 = places
                .iter()
                .map(|[(first, _), _]| *first as f64 + 1.0)
                .sum();
            let all = x.mapv(f64::abs);
            let magnitude = interpolated(&all.view(), &around);
            if magnitude.is_finite() {
                (chained(3) + 2.0 * positions) * magnitude
            } else {
                0.0
            }
        });
        magnitudes * precision.arithmetic + passed_on
    }

    fn selects(&self) -> bool {
        !self.is_linear
    }

    fn cost(&self) -> u64 {
        let taps = if self.is_linear {
            1 << self.dimensions
        } else {
            1
        };
        (self.output_shape().elements() as u64).saturating_mul(taps)
    }
}

/// Along each axis, the two indices around a position, with their weights. Without interpolation, the second
/// index is [`ABSENT`].
type Places = [[(usize, f64); 2]; 3];

const ABSENT: usize = usize::MAX;

/// The input positions of output index `output`.
fn places(problem: &UpsampleProblem, output: [usize; 3]) -> Places {
    std::array::from_fn(|axis| {
        let UpsampleAxis {
            scale,
            before,
            behind,
            ..
        } = problem.axes[axis];
        let position = ((output[axis] as f32 + before) * scale - behind).max(0.0);
        let last = problem.input[axis] - 1;
        let first = (position.floor() as usize).min(last);
        let is_there = axis + problem.dimensions >= 3;
        if !problem.is_linear || !is_there {
            return [(first, 1.0), (ABSENT, 0.0)];
        }
        let weight = f64::from((position - first as f32).min(1.0));
        [(first, 1.0 - weight), ((first + 1).min(last), weight)]
    })
}

/// The weighted sum of the values around a position, including those with weight 0.
fn interpolated(x: &ArrayView3<'_, f64>, places: &Places) -> f64 {
    let [slices, rows, columns] = places;
    let there = |(index, _): &&(usize, f64)| *index != ABSENT;
    let mut sum = 0.0;
    for &(d, slice) in slices.iter().filter(there) {
        for &(h, row) in rows.iter().filter(there) {
            for &(w, column) in columns.iter().filter(there) {
                sum += slice * row * column * x[[d, h, w]];
            }
        }
    }
    sum
}

/// Applies `of` to each plane or volume, at each output position.
fn of_pixels(
    problem: &UpsampleProblem,
    x: &ArrayD<f64>,
    of: impl Fn(&ArrayView3<'_, f64>, &Places) -> f64 + Sync,
) -> ArrayD<f64> {
    let mut x = x.view();
    for _ in problem.dimensions..3 {
        x = x.insert_axis(Axis(2));
    }
    let x = x.into_dimensionality::<Ix5>().expect("up to three axes");
    let [z, p, q] = problem.output;
    let mut y = Array5::zeros((x.dim().0, problem.c, z, p, q));
    for (mut sample, volume) in y.axis_iter_mut(Axis(0)).zip(x.axis_iter(Axis(0))) {
        Zip::from(sample.axis_iter_mut(Axis(0)))
            .and(volume.axis_iter(Axis(0)))
            .par_for_each(|mut y, x| {
                for ((z, p, q), value) in y.indexed_iter_mut() {
                    *value = of(&x, &places(problem, [z, p, q]));
                }
            });
    }
    let mut y = y.into_dyn();
    for _ in problem.dimensions..3 {
        y = y.remove_axis(Axis(2));
    }
    y
}

pub(super) const CASES: Cases = Cases {
    // All attributes come from the file.
    read: |file| file.case("upsample", ""),
    ..OF_ROWS
};

const OF_ROWS: Cases = cases!(
    "upsample", "scale_factor=2.0",
    smoke: "
        plain 2x3x5x7
        bilinear 2x3x5x7 mode=bilinear",
    ragged: "
        sequences 3x2x19 scale_factor=1.7
        linear 3x2x19 scale_factor=2.3 mode=linear
        volumes 2x3x4x5x6 scale_factor=[2.0,1.5,3.0]
        trilinear 2x3x4x5x6 mode=trilinear
        trilinear_corners 1x4x3x4x5 scale_factor=[2.0,1.5,3.0] mode=trilinear align_corners=true
        exact 2x3x5x7 scale_factor=1.6 mode=nearest-exact
        smaller 2x4x13x11 scale_factor=0.4
        smaller_bilinear 2x4x13x11 scale_factor=[0.3,2.7] mode=bilinear
        one_value 1x1x1x1 scale_factor=3.0 mode=bilinear
        one_row 1x2x1x7 scale_factor=[4.0,1.0] mode=bilinear align_corners=true
        to_one 1x4x5x7 scale_factor=[0.2,0.15] mode=bilinear align_corners=true
        corners 2x3x5x7 scale_factor=3.0 mode=bilinear align_corners=true
        vectors 2x8x9x5 scale_factor=1.5
        vectors_bilinear 2x8x9x5 mode=bilinear
        empty_batch 0x3x5
        nearest_nan_and_infinities 2x3x9x31 special
        nan_and_infinities 2x3x9x31 mode=bilinear special",
    realistic: "
        decoder 1x32x28x28
        head 1x21x16x16 scale_factor=8.0 mode=bilinear",
    more: sized()
);

/// Upsampling to sizes that no factor gives.
fn sized() -> Vec<crate::Case> {
    crate::cases::rows(
        "upsample",
        "",
        "
        size/plain 2x3x5x7 size=[9,10]
        size/bilinear 2x3x5x7 size=[9,10] mode=bilinear
        size/for_all 2x3x5x7 size=4 mode=bilinear align_corners=true
        size/volumes 1x2x3x4x5 size=[2,7,5] mode=trilinear",
    )
}
