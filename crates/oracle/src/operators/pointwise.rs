//! The pointwise functions.
//!
//! | function | definition | condition | passes on an input's error `t` as |
//! |---|---|---|---|
//! | clamp | `y = min(max(x, lower), upper)`; NaN stays, and where the bounds cross the upper one wins | `abs(y)`, for the rounding of the bounds | `t`, nothing where a bound surely holds |
//! | relu | `y = max(x, 0)`; NaN stays | 0 | `t`, nothing where `x` is surely negative |
//! | leaky_relu | `y = x` above 0, else `negative_slope * x`; NaN stays | `abs(y)`, for the rounding of slope and product, 0 where `x` is surely positive | `t` where `x` is surely positive, `abs(negative_slope) * t` where it is surely negative, else the larger |
//!
//! A new function is a row here, an arm of [`Operator::reference`] and of [`Operator::tolerance`], and a constant like
//! `RELU`, listed in `CASES`, by which it gets its tests.

use ndarray::{ArrayD, Zip};
use op_spec::chain::Layer;
use op_spec::{ClampSpec, PointwiseProblem, PointwiseSpec};
use serde::Deserialize;

use super::operator::{Operator, chained};
use crate::golden_file::{GoldenFlaw, Reader};
use crate::{Bounded, Case, Cases, Precision};

impl Operator for PointwiseProblem {
    fn reference(&self, x: &ArrayD<f64>, _: &[&ArrayD<f64>]) -> ArrayD<f64> {
        x.mapv(|v| match self.function {
            _ if v.is_nan() => v,
            PointwiseSpec::Clamp(clamp) => {
                let (min, max) = clamp.bounds().expect("a problem has bounds");
                if min.is_nan() || max.is_nan() {
                    f64::NAN
                } else {
                    v.max(min).min(max)
                }
            }
            PointwiseSpec::Relu {} => v.max(0.0),
            PointwiseSpec::LeakyRelu { .. } if v > 0.0 => v,
            PointwiseSpec::LeakyRelu { negative_slope } => v * negative_slope,
        })
    }

    fn tolerance(
        &self,
        x: &Bounded,
        y: &ArrayD<f64>,
        _: &[&ArrayD<f64>],
        precision: &Precision,
    ) -> ArrayD<f64> {
        let mut tolerance = x.tolerance.clone();
        Zip::from(&mut tolerance)
            .and(&x.values)
            .and(y)
            .for_each(|t, &x, y| match self.function {
                PointwiseSpec::Clamp(clamp) => {
                    let (min, max) = clamp.bounds().expect("a problem has bounds");
                    if x + *t <= min || x - *t >= max {
                        *t = 0.0;
                    }
                    *t += precision.arithmetic * y.abs();
                }
                PointwiseSpec::Relu {} => {
                    if x + *t <= 0.0 {
                        *t = 0.0;
                    }
                }
                PointwiseSpec::LeakyRelu { negative_slope } => {
                    if x - *t <= 0.0 {
                        let slope = negative_slope.abs();
                        *t *= if x + *t <= 0.0 { slope } else { slope.max(1.0) };
                        *t += chained(0) * precision.arithmetic * y.abs();
                    }
                }
            });
        tolerance
    }

    fn cost(&self) -> u64 {
        self.len as u64
    }
}

/// The cases of all functions.
pub(crate) const CASES: &[Cases] = &[CLAMP, RELU, LEAKY_RELU];

const CLAMP: Cases = Cases {
    kind: "clamp",
    smoke: || vec![clamp("plain", &[2, 3, 50], Some(-0.25), Some(0.5))],
    ragged: ragged_clamps,
    realistic: || vec![clamp("relu6", &[2, 32, 56, 56], Some(0.0), Some(6.0))],
    golden: "clamp",
    read: |file| {
        let layer = Layer::Pointwise(PointwiseSpec::Clamp(clamp_of(file)?));
        file.case("clamp", [layer], &[])
    },
};

const RELU: Cases = Cases {
    kind: "relu",
    smoke: || vec![case("relu/plain", RELU_SPEC, &[2, 3, 50])],
    ragged: || ragged("relu", RELU_SPEC),
    realistic: || vec![case("relu/resnet", RELU_SPEC, &[2, 32, 56, 56])],
    golden: "relu",
    read: |file| file.case("relu", [Layer::relu()], &[]),
};

const RELU_SPEC: PointwiseSpec = PointwiseSpec::Relu {};

const LEAKY_RELU: Cases = Cases {
    kind: "leaky_relu",
    smoke: || vec![case("leaky_relu/plain", leaky_relu(0.01), &[2, 3, 50])],
    ragged: ragged_leaky_relus,
    realistic: || vec![case("leaky_relu/yolo", leaky_relu(0.1), &[2, 32, 56, 56])],
    golden: "leaky_relu",
    read: |file| {
        let LeakyReluAttributes { negative_slope } = file.attributes()?;
        file.case("leaky_relu", [Layer::leaky_relu(negative_slope)], &[])
    },
};

const fn leaky_relu(negative_slope: f64) -> PointwiseSpec {
    PointwiseSpec::LeakyRelu { negative_slope }
}

fn ragged_leaky_relus() -> Vec<Case> {
    let mut cases = ragged("leaky_relu", leaky_relu(0.01));
    let slopes = [
        ("slope_of_0", 0.0),
        ("negative_slope", -0.5),
        ("slope_above_1", 3.0),
    ];
    cases.extend(slopes.map(|(name, slope)| {
        case(&format!("leaky_relu/{name}"), leaky_relu(slope), &[1, 211]).special()
    }));
    cases
}

#[derive(Deserialize)]
struct LeakyReluAttributes {
    negative_slope: f64,
}

fn case(name: &str, function: PointwiseSpec, x: &[usize]) -> Case {
    Case::of_layer(name, Layer::Pointwise(function), x).expect("a chain")
}

/// Shapes and values that any function may get wrong.
fn ragged(kind: &str, function: PointwiseSpec) -> Vec<Case> {
    let case = |name: &str, x: &[usize]| case(&format!("{kind}/{name}"), function, x);
    vec![
        case("one_value", &[1, 1]),
        case("empty", &[0, 3]),
        case("primes", &[3, 1031]),
        case("nan_and_infinities", &[2, 3, 211]).special(),
    ]
}

fn clamp(name: &str, x: &[usize], min: Option<f64>, max: Option<f64>) -> Case {
    let function = PointwiseSpec::Clamp(ClampSpec { min, max });
    case(&format!("clamp/{name}"), function, x)
}

fn ragged_clamps() -> Vec<Case> {
    vec![
        clamp("one_value", &[1, 1], Some(0.1), Some(0.2)),
        clamp("empty", &[0, 3], Some(0.1), Some(0.2)),
        clamp("lower_bound_only", &[3, 1031], Some(0.1), None),
        clamp("upper_bound_only", &[1, 1031], None, Some(0.1)),
        clamp("min_above_max", &[3, 101], Some(0.5), Some(-0.5)),
        clamp("nan_bound", &[1, 101], Some(f64::NAN), Some(0.5)),
        clamp("nan_bound_alone", &[1, 101], None, Some(f64::NAN)),
        clamp("nan_and_infinities", &[2, 3, 211], Some(-0.5), Some(0.25)).special(),
        clamp(
            "nan_and_infinities_min_above_max",
            &[1, 211],
            Some(0.5),
            Some(-0.25),
        )
        .special(),
    ]
}

#[derive(Deserialize)]
struct ClampAttributes {
    clamp_min: Option<f64>,
    clamp_max: Option<f64>,
}

/// The bounds that a file of a chain with a clamp names, too.
pub(crate) fn clamp_of(file: &Reader) -> Result<ClampSpec, GoldenFlaw> {
    let attributes: ClampAttributes = file.attributes()?;
    Ok(ClampSpec {
        min: attributes.clamp_min,
        max: attributes.clamp_max,
    })
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn bounds_that_cross_or_are_nan_do_what_they_do_in_pytorch() {
        let x = array![-1.0, 0.5, 2.0, f64::NAN].into_dyn();
        let clamped = |min, max| {
            let clamp = PointwiseSpec::Clamp(ClampSpec { min, max });
            clamp.problem(x.shape()).unwrap().reference(&x, &[])
        };
        let crossed = clamped(Some(1.0), Some(0.0));
        assert!(crossed.iter().take(3).all(|&v| v == 0.0) && crossed[3].is_nan());
        let nan = clamped(Some(f64::NAN), Some(1.0));
        assert!(nan.iter().all(|v| v.is_nan()));
        let ignored = clamped(None, Some(f64::NAN));
        assert!(ignored.iter().zip(&x).take(3).all(|(y, x)| y == x) && ignored[3].is_nan());
    }

    #[test]
    fn a_function_keeps_order_if_it_changes_places_with_a_maximum() {
        let values = [f64::NEG_INFINITY, -1.5, -0.0, 0.0, 0.5, 2.0, f64::INFINITY];
        let commutes = |function: &PointwiseSpec| {
            let of = |v: f64| {
                let x = array![v].into_dyn();
                function.problem(x.shape()).unwrap().reference(&x, &[])[[0]]
            };
            let maximum = |a: f64, b: f64| match a.is_nan() || b.is_nan() {
                true => f64::NAN,
                false => a.max(b),
            };
            values.iter().all(|&a| {
                values.iter().all(|&b| {
                    let (sooner, later) = (of(a.max(b)), maximum(of(a), of(b)));
                    sooner == later || sooner.is_nan() && later.is_nan()
                })
            })
        };
        let cases = CASES.iter().flat_map(|cases| (cases.ragged)());
        let of_cases = cases.map(|case| match case.chain.layers() {
            [Layer::Pointwise(function)] => *function,
            other => panic!("{other:?}"),
        });
        for function in of_cases.chain([leaky_relu(f64::INFINITY)]) {
            assert_eq!(function.keeps_order(), commutes(&function), "{function:?}");
        }
    }

    #[test]
    fn values_that_are_surely_clamped_tolerate_nothing_of_their_input() {
        for (case, shift) in [
            (clamp("surely", &[2, 36], Some(2.0), Some(3.0)), 0.0),
            (case("relu/surely", RELU_SPEC, &[2, 36]), -2.0),
            (case("leaky_relu/surely", leaky_relu(0.0), &[2, 36]), -2.0),
        ] {
            let case = case.shifted(shift);
            let mut x = Bounded::exact(case.x.view());
            x.tolerance.fill(0.5);
            let layer = &case.problem().unwrap().steps[0].problem;
            let y = x.through(layer, &[], &Precision::F32);
            assert!(y.tolerance.iter().all(|&t| t < 1e-6), "{}", case.name);
        }
    }
}
