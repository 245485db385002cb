//! `y = min(max(x, lower), upper)`; NaN stays, and where the bounds cross the upper one wins.

use ndarray::{ArrayD, Zip};
use op_spec::chain::Layer;
use op_spec::{ClampProblem, ClampSpec};
use serde::Deserialize;

use super::Operator;
use crate::golden::{GoldenError, Reader};
use crate::{Bounded, Case, Cases, Precision};

impl Operator for ClampProblem {
    fn reference(&self, x: &ArrayD<f64>, _: &[&ArrayD<f64>]) -> ArrayD<f64> {
        let bound_is_nan = self.min.is_nan() || self.max.is_nan();
        x.mapv(|v| {
            if v.is_nan() || bound_is_nan {
                f64::NAN
            } else {
                v.max(self.min).min(self.max)
            }
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
            .for_each(|t, &x, y| {
                if x + *t <= self.min || x - *t >= self.max {
                    *t = 0.0;
                }
                *t += precision.arithmetic * y.abs();
            });
        tolerance
    }

    fn cost(&self) -> u64 {
        self.len as u64
    }
}

pub(super) const CASES: Cases = Cases {
    kind: "clamp",
    smoke: || vec![case("plain", &[2, 3, 50], Some(-0.25), Some(0.5))],
    ragged,
    realistic: || vec![case("relu6", &[2, 32, 56, 56], Some(0.0), Some(6.0))],
    golden: "clamp",
    read,
};

fn case(name: &str, x: &[usize], min: Option<f64>, max: Option<f64>) -> Case {
    let layer = Layer::Clamp(ClampSpec { min, max });
    Case::of_layer(&format!("clamp/{name}"), layer, x).expect("a chain")
}

fn ragged() -> Vec<Case> {
    vec![
        case("one_value", &[1, 1], Some(0.1), Some(0.2)),
        case("empty", &[0, 3], Some(0.1), Some(0.2)),
        case("lower_bound_only", &[3, 1031], Some(0.1), None),
        case("upper_bound_only", &[1, 1031], None, Some(0.1)),
        case("min_above_max", &[3, 101], Some(0.5), Some(-0.5)),
        case("nan_bound", &[1, 101], Some(f64::NAN), Some(0.5)),
        case("nan_bound_alone", &[1, 101], None, Some(f64::NAN)),
        case("nan_and_infinities", &[2, 3, 211], Some(-0.5), Some(0.25)).special(),
        case(
            "nan_and_infinities_min_above_max",
            &[1, 211],
            Some(0.5),
            Some(-0.25),
        )
        .special(),
    ]
}

#[derive(Deserialize)]
struct Attributes {
    clamp_min: Option<f64>,
    clamp_max: Option<f64>,
}

fn read(file: &mut Reader) -> Result<Case, GoldenError> {
    let layer = Layer::Clamp(attributes(file)?);
    file.case("clamp", [layer], &[])
}

/// The bounds that a file of a chain with a clamp names, too.
pub(crate) fn attributes(file: &Reader) -> Result<ClampSpec, GoldenError> {
    let attributes: Attributes = file.attributes()?;
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
            let problem = ClampSpec { min, max }.problem(x.shape()).unwrap();
            problem.reference(&x, &[])
        };
        let crossed = clamped(Some(1.0), Some(0.0));
        assert!(crossed.iter().take(3).all(|&v| v == 0.0) && crossed[3].is_nan());
        let nan = clamped(Some(f64::NAN), Some(1.0));
        assert!(nan.iter().all(|v| v.is_nan()));
        let ignored = clamped(None, Some(f64::NAN));
        assert!(ignored.iter().zip(&x).take(3).all(|(y, x)| y == x) && ignored[3].is_nan());
    }

    #[test]
    fn values_that_are_surely_clamped_tolerate_nothing_of_their_input() {
        let case = case("surely", &[2, 36], Some(2.0), Some(3.0));
        let mut x = Bounded::exact(case.x.view());
        x.tolerance.fill(0.5);
        let layer = &case.problem().unwrap().steps[0].problem;
        let y = x.through(layer, &[], &Precision::F32);
        assert!(y.tolerance.iter().all(|&t| t < 1e-6));
    }
}
