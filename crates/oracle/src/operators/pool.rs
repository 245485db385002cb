//! Pools over windows of volumes; images are one voxel deep. The input position is
//! `p' = p * stride - padding + r * dilation` along each axis, without positions outside of the input:
//!
//! | pool | `y[n, c, ..]` |
//! |---|---|
//! | `max_pool2d`, `max_pool3d` | the largest `x[n, c, ..']`; NaN in a window gives NaN, a window without a position inside gives minus infinity |
//! | `avg_pool2d`, `avg_pool3d` | the sum of `x[n, c, ..']`, divided by the number of positions in the input or in the padded input, or by a given number |
//! | `adaptive_avg_pool2d`, `adaptive_avg_pool3d` | the sum of all `x[n, c, ..]`, divided by their number |
//!
//! *Condition*: 0 for a maximum; for an average, the sum of magnitudes, with the same divisor. *Passes on*
//! the largest `t` of a window, or their average. The longest chain of additions is the sum of the window's
//! extents (row, column and depth).

mod cases;

use ndarray::{Array5, ArrayD, ArrayView3, Axis, Ix5, Zip};
use op_spec::{PoolProblem, Pooled};

use super::operator::{Given, Operator, chained};
use crate::Precision;

pub(super) use cases::{
    ADAPTIVE_AVG_POOL2D, ADAPTIVE_AVG_POOL3D, AVG_POOL2D, AVG_POOL3D, MAX_POOL3D,
};

impl Operator for PoolProblem {
    fn reference(&self, x: &ArrayD<f64>, _: &[&ArrayD<f64>]) -> ArrayD<f64> {
        let mut x = x.view();
        if self.dimensions == 2 {
            x = x.insert_axis(Axis(2));
        }
        let x = x.into_dimensionality::<Ix5>().expect("images or volumes");
        let [z, p, q] = self.output;
        let mut y = Array5::zeros((x.dim().0, self.c, z, p, q));
        for (mut sample, volume) in y.axis_iter_mut(Axis(0)).zip(x.axis_iter(Axis(0))) {
            Zip::from(sample.axis_iter_mut(Axis(0)))
                .and(volume.axis_iter(Axis(0)))
                .par_for_each(|mut y, x| {
                    for ((z, p, q), value) in y.indexed_iter_mut() {
                        *value = window(&x, self, [z, p, q]);
                    }
                });
        }
        let y = y.into_dyn();
        match self.dimensions {
            2 => y.remove_axis(Axis(2)),
            _ => y,
        }
    }

    fn tolerance(&self, of: &Given<'_>, t: ArrayD<f64>, precision: &Precision) -> ArrayD<f64> {
        let &Given { x, y, .. } = of;
        let passed_on = self.reference(&t, &[]).mapv(f64::abs);
        if self.selects() {
            return passed_on;
        }
        let chain = self.kernel_size.iter().fold(0, |sum: usize, &extent| {
            // A window may contain more taps than positions of the input.
            sum.saturating_add(extent)
        });
        let magnitudes = self.reference(&x.mapv(f64::abs), &[]);
        let magnitudes = magnitudes.mapv(f64::abs) + &passed_on;
        let mut own = magnitudes.mapv(|v| chained(chain) * precision.arithmetic * v);
        // Infinite and NaN outputs have a tolerance of 0.
        Zip::from(&mut own).and(y).for_each(|own, y| {
            if !y.is_finite() {
                *own = 0.0;
            }
        });
        own + passed_on
    }

    fn selects(&self) -> bool {
        self.pooled == Pooled::Maximum
    }

    fn cost(&self) -> u64 {
        let window = self.kernel_size.iter().zip(&self.input);
        let window = window.map(|(&kernel, &input)| kernel.min(input) as u64);
        let elements = self.output_shape().elements() as u64;
        window.fold(elements, u64::saturating_mul)
    }
}

/// The positions inside an input of `extent` under the taps of a window, which starts at `start` of the
/// padded input. There may be far more taps than positions.
fn inside(
    start: usize,
    taps: usize,
    dilation: usize,
    padding: usize,
    extent: usize,
) -> impl Iterator<Item = usize> {
    let first = padding.saturating_sub(start).div_ceil(dilation);
    (first..taps)
        .map(move |tap| start.saturating_add(tap.saturating_mul(dilation)) - padding)
        .take_while(move |&position| position < extent)
}

fn window(x: &ArrayView3<'_, f64>, problem: &PoolProblem, output: [usize; 3]) -> f64 {
    let positions = |axis: usize| {
        inside(
            output[axis] * problem.stride[axis],
            problem.kernel_size[axis],
            problem.dilation[axis],
            problem.padding[axis],
            problem.input[axis],
        )
    };
    let (mut largest, mut sum, mut inside) = (f64::NEG_INFINITY, 0.0, 0);
    for depth in positions(0) {
        for row in positions(1) {
            for column in positions(2) {
                let v = x[[depth, row, column]];
                if v > largest || v.is_nan() {
                    largest = v;
                }
                sum += v;
                inside += 1;
            }
        }
    }
    match problem.pooled {
        Pooled::Maximum => largest,
        _ => sum / problem.divisor(output, inside),
    }
}

#[cfg(test)]
mod tests {
    use ndarray::array;
    use op_spec::AvgPool2dSpec;

    use super::*;

    #[test]
    fn zeros_of_the_pad_count_and_what_hangs_over_does_not() {
        let x = array![[[[1.0, 2.0, 4.0]]]].into_dyn();
        let spec = AvgPool2dSpec::new([1, 3])
            .stride([1, 2])
            .padding([0, 1])
            .ceil_mode(true);
        let averages = |spec: AvgPool2dSpec| {
            let problem = spec.problem(x.shape()).unwrap();
            let y = problem.pool.reference(&x, &[]);
            y.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(averages(spec), [1.0, 2.0]);
        let without = spec.count_include_pad(false);
        assert_eq!(averages(without), [1.5, 3.0]);
        let divided = spec.divisor_override(-2);
        assert_eq!(averages(divided), [-1.5, -3.0]);
        // The last window has two columns and starts at the last column; the padding after it counts.
        let hanging = AvgPool2dSpec::new([1, 3])
            .stride([1, 3])
            .padding([0, 1])
            .ceil_mode(true);
        assert_eq!(averages(hanging), [1.0, 2.0]);
    }
}
