use ndarray::{ArrayD, ArrayViewD, Zip};

use crate::precision::Precision;

/// Values in float64, with a tolerance for each element of another computation.
///
/// Every operator contributes `(4 + sqrt(L)) * unit * condition` to the tolerance. `L` is the length of the
/// longest chain of sequential additions, and `condition` is the sum of the magnitudes that rounding errors
/// are relative to. The square root assumes independent errors. Errors of the input pass through the
/// operator's derivative.
///
/// A computation rounds its actual value rather than the exact one. If a value may be off by `t`, its
/// magnitude is therefore the value's plus `t`. Otherwise a function with a jump, followed by one rounding,
/// would exceed the tolerance. The tolerance is tight enough to detect one dropped element in a mean over
/// 65,536, and requires no tuning for new shapes or data.
///
/// The head of each operator's file defines its condition, and how it passes on an input's error `t`.
///
/// Infinities and NaN must be exact: their tolerance is 0.
#[derive(Clone, Debug)]
pub struct Bounded {
    /// The values.
    pub values: ArrayD<f64>,
    /// The tolerance of each value.
    pub tolerance: ArrayD<f64>,
}

impl Bounded {
    /// An exact input.
    #[must_use]
    pub fn exact(x: ArrayViewD<'_, f32>) -> Self {
        let values = x.mapv(f64::from);
        Self {
            tolerance: ArrayD::zeros(values.raw_dim()),
            values,
        }
    }

    /// The same values, stored with this precision. The rounding error is that of the largest value within
    /// the tolerance.
    #[must_use]
    pub fn stored(mut self, precision: &Precision) -> Self {
        store(&self.values, &mut self.tolerance, precision);
        self
    }
}

/// Adds the error of storing these values to their tolerances.
pub(crate) fn store(values: &ArrayD<f64>, tolerance: &mut ArrayD<f64>, precision: &Precision) {
    Zip::from(tolerance)
        .and(values)
        .for_each(|tolerance, value| {
            if value.is_finite() {
                let largest = value.abs() + *tolerance;
                *tolerance += precision.storage * largest + precision.underflow;
            }
        });
}

#[cfg(test)]
mod tests {
    use ndarray::{Array1, array};
    use op_spec::graph::LayerProblem;
    use op_spec::{PointwiseSpec, ScaleSpec};

    use super::*;

    /// Whether `got` is within the tolerance of a layer's output, for a tiny input value with the far larger
    /// tolerance `t`.
    fn allows(layer: &LayerProblem, parameters: &[&ArrayD<f64>], t: f64, got: f64) -> bool {
        let x = Bounded {
            values: array![[1e-20]].into_dyn(),
            tolerance: array![[t]].into_dyn(),
        };
        let y = x.through(layer, parameters, &Precision::F16);
        (got - y.values[[0, 0]]).abs() <= y.tolerance[[0, 0]]
    }

    #[test]
    fn what_is_stored_is_rounded_as_it_came_out() {
        // The input is on either side of softplus's threshold. The result may be ln(2), rounded up to f16.
        let softplus = PointwiseSpec::Softplus {
            beta: 1.0,
            threshold: 0.0,
        };
        let softplus = LayerProblem::Pointwise(softplus.problem(&[1, 1]).unwrap());
        assert!(allows(&softplus, &[], 1e-19, 0.693_359_375));
        assert!(!allows(&softplus, &[], 1e-19, 0.693_847_656_25));
        assert!(!allows(&softplus, &[], 0.0, 0.693_359_375));
    }

    #[test]
    fn an_operator_rounds_what_it_has_got() {
        // The input may be 1 instead of nearly 0: its product with 3 is rounded in f32, then in f16.
        let scale = ScaleSpec::default().problem(&[1, 1], &[1]).unwrap();
        let factor = Array1::from(vec![3.0]).into_dyn();
        let (unit, arithmetic) = (Precision::F16.storage, Precision::F16.arithmetic);
        let most = 3.0 * (1.0 + arithmetic) * (1.0 + unit);
        let scale = LayerProblem::Scale(scale);
        assert!(allows(&scale, &[&factor], 1.0, most));
        assert!(!allows(&scale, &[&factor], 1.0, 3.0 * (1.0 + 1.1 * unit)));
    }
}
