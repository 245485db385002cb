//! `y[n, c, p, q] = max over r, s of x[n, c, p', q']` with `p' = p * stride - padding + r * dilation` and
//! `q'` likewise, positions outside the image left out. NaN in a window gives NaN; a window with no position
//! inside (possible only with dilation) gives minus infinity.
//!
//! *Condition*: 0. *Passes on* the largest `t` of the window.

use ndarray::{Array4, ArrayD, ArrayView2, Axis, Ix4, Zip};
use op_spec::graph::Layer;
use op_spec::{MaxPool2dProblem, MaxPool2dSpec};
use serde::Deserialize;

use super::operator::Operator;
use super::pool::inside;
use crate::golden_file::{GoldenFlaw, Reader};
use crate::{Case, Cases, Precision};

impl Operator for MaxPool2dProblem {
    fn reference(&self, x: &ArrayD<f64>, _: &[&ArrayD<f64>]) -> ArrayD<f64> {
        let x = x.view().into_dimensionality::<Ix4>().expect("images");
        let [p, q] = self.output;
        let mut y = Array4::zeros((x.dim().0, self.c, p, q));
        for (mut sample, image) in y.axis_iter_mut(Axis(0)).zip(x.axis_iter(Axis(0))) {
            Zip::from(sample.axis_iter_mut(Axis(0)))
                .and(image.axis_iter(Axis(0)))
                .par_for_each(|mut y, x| {
                    for ((p, q), best) in y.indexed_iter_mut() {
                        *best = window_max(&x, self, p, q);
                    }
                });
        }
        y.into_dyn()
    }

    fn tolerance(
        &self,
        _: &ArrayD<f64>,
        t: ArrayD<f64>,
        _: &ArrayD<f64>,
        _: &[&ArrayD<f64>],
        _: &Precision,
    ) -> ArrayD<f64> {
        self.reference(&t, &[])
    }

    fn selects(&self) -> bool {
        true
    }

    fn cost(&self) -> u64 {
        let window = self.kernel_size.iter().zip(&self.input);
        let window = window.map(|(&kernel, &input)| kernel.min(input) as u64);
        let elements = self.output_shape().elements() as u64;
        window.fold(elements, u64::saturating_mul)
    }
}

fn window_max(x: &ArrayView2<'_, f64>, problem: &MaxPool2dProblem, p: usize, q: usize) -> f64 {
    let positions = |axis: usize, output: usize| {
        inside(
            output * problem.stride[axis],
            problem.kernel_size[axis],
            problem.dilation[axis],
            problem.padding[axis],
            problem.input[axis],
        )
    };
    let mut best = f64::NEG_INFINITY;
    for row in positions(0, p) {
        for column in positions(1, q) {
            let v = x[[row, column]];
            if v > best || v.is_nan() {
                best = v;
            }
        }
    }
    best
}

pub(super) const CASES: Cases = Cases {
    kind: "max_pool2d",
    smoke: || vec![case("plain", [2, 3, 8, 12], MaxPool2dSpec::new([4, 4]))],
    ragged,
    realistic: || {
        let pool = MaxPool2dSpec {
            stride: Some([2, 2]),
            padding: [1, 1],
            ..MaxPool2dSpec::new([3, 3])
        };
        vec![case("resnet", [2, 32, 56, 56], pool)]
    },
    golden: "max_pool2d",
    read,
};

fn case(name: &str, x: [usize; 4], spec: MaxPool2dSpec) -> Case {
    let name = format!("max_pool2d/{name}");
    Case::of_layer(&name, Layer::max_pool2d(spec), &x).expect("a chain")
}

fn ragged() -> Vec<Case> {
    let overlapping = MaxPool2dSpec {
        stride: Some([2, 1]),
        padding: [1, 2],
        ..MaxPool2dSpec::new([3, 5])
    };
    let dilated = MaxPool2dSpec {
        stride: Some([3, 2]),
        padding: [1, 1],
        dilation: [2, 3],
        ceil_mode: true,
        ..MaxPool2dSpec::new([3, 2])
    };
    let hollow = MaxPool2dSpec {
        stride: Some([1, 1]),
        padding: [1, 1],
        dilation: [2, 2],
        ..MaxPool2dSpec::new([2, 2])
    };
    let padding_alone = MaxPool2dSpec {
        stride: Some([1, 1]),
        padding: [1, 0],
        dilation: [6, 1],
        ..MaxPool2dSpec::new([2, 2])
    };
    let plain = MaxPool2dSpec::new;
    vec![
        case("empty_batch", [0, 3, 8, 9], plain([2, 3])),
        case("identity", [2, 3, 5, 7], plain([1, 1])),
        case("whole_image", [2, 3, 5, 7], plain([5, 7])),
        case("overlapping_with_pad", [2, 3, 13, 11], overlapping),
        case("dilated_ceil_mode", [1, 5, 17, 23], dilated),
        case("window_around_a_single_pixel", [1, 2, 1, 1], hollow),
        case("windows_around_all_rows", [2, 3, 5, 7], padding_alone),
        case("nan_and_infinities", [2, 3, 29, 31], plain([3, 2])).special(),
        case("nan_and_infinities_with_pad", [1, 2, 31, 29], overlapping).special(),
    ]
}

#[derive(Deserialize)]
struct Attributes {
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
    ceil_mode: bool,
}

fn read(file: &mut Reader) -> Result<Case, GoldenFlaw> {
    let attributes: Attributes = file.attributes()?;
    let layer = Layer::max_pool2d(MaxPool2dSpec {
        kernel_size: attributes.kernel,
        stride: Some(attributes.stride),
        padding: attributes.padding,
        dilation: attributes.dilation,
        ceil_mode: attributes.ceil_mode,
    });
    file.case("max_pool2d", [layer], &[])
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;
    use crate::Bounded;

    #[test]
    fn nan_wins_and_padding_never_does() {
        let (nan, minus) = (f64::NAN, f64::NEG_INFINITY);
        let x = array![[[[-5.0, nan, minus, minus]]]].into_dyn();
        let padded = MaxPool2dSpec {
            stride: Some([1, 2]),
            padding: [0, 1],
            ..MaxPool2dSpec::new([1, 2])
        };
        let y = padded.problem(x.shape()).unwrap().reference(&x, &[]);
        assert_eq!(y.shape(), [1, 1, 1, 3]);
        assert!(y[[0, 0, 0, 0]] == -5.0 && y[[0, 0, 0, 1]].is_nan() && y[[0, 0, 0, 2]] == minus);
    }

    #[test]
    fn a_window_of_billions_takes_as_long_as_what_is_inside() {
        let x = array![[[[1.0, 3.0, 2.0]]]].into_dyn();
        let spec = MaxPool2dSpec {
            padding: [500_000_000; 2],
            ..MaxPool2dSpec::new([1_000_000_000; 2])
        };
        let problem = spec.problem(x.shape()).unwrap();
        let y = problem.reference(&x, &[]);
        assert_eq!((y.shape(), y[[0, 0, 0, 0]]), (&[1, 1, 1, 1][..], 3.0));
        assert_eq!(problem.cost(), 3);
    }

    #[test]
    fn a_maximum_tolerates_nothing_new() {
        let case = case("exact", [1, 2, 6, 6], MaxPool2dSpec::new([2, 2]));
        let layer = &case.problem().unwrap().steps[0].problem;
        let y = Bounded::exact(case.x.view()).through(layer, &[], &Precision::F32);
        assert!(y.tolerance.iter().all(|&t| t == 0.0));
    }
}
