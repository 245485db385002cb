use ndarray::{ArrayD, ArrayViewD, Zip};

use crate::precision::Precision;

/// Values in float64 and, element by element, how far off another computation of them may be.
///
/// Every operator contributes `(4 + sqrt(L)) * unit * condition`: `L` is the longest chain of additions that
/// follow one another, `condition` the sum of the magnitudes that rounding errors are relative to, and the
/// square root takes those errors for independent. Errors that its input already has pass on through the
/// operator's derivative. A computation rounds what it has got, not what it should have got: so where a
/// magnitude is of a value that may be off by `t`, it is the value's and `t`. Else a function that jumps, and
/// one rounding after it, would be beyond the tolerance. What comes out is tight enough to notice one
/// dropped element in a mean over 65,536, and needs no tuning for new shapes or data.
///
/// The head of each operator's file says what its condition is and how it passes on an input's error `t`.
///
/// Infinities and NaN are either right or wrong: their tolerance is 0.
#[derive(Clone, Debug)]
pub struct Bounded {
    /// The values.
    pub values: ArrayD<f64>,
    /// For each of them, how far off it may be.
    pub tolerance: ArrayD<f64>,
}

impl Bounded {
    /// An input: nothing has been computed yet.
    #[must_use]
    pub fn exact(x: ArrayViewD<'_, f32>) -> Self {
        let values = x.mapv(f64::from);
        Self {
            tolerance: ArrayD::zeros(values.raw_dim()),
            values,
        }
    }

    /// The same values, stored with this precision: what is rounded may be larger than the value by all of
    /// its tolerance.
    #[must_use]
    pub fn stored(mut self, precision: &Precision) -> Self {
        store(&self.values, &mut self.tolerance, precision);
        self
    }
}

/// What tolerances of these values become where they are stored.
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

    /// Values that may be off by far more than they are, and whether `got` of them is within what a layer
    /// makes of that.
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
        // Both sides of softplus's threshold: ln(2) comes out, and is rounded up to what f16 has.
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
        // There may be 1 where next to nothing should be: its product with 3 is rounded in f32, then to f16.
        let scale = ScaleSpec::default().problem(&[1, 1], &[1]).unwrap();
        let factor = Array1::from(vec![3.0]).into_dyn();
        let (unit, arithmetic) = (Precision::F16.storage, Precision::F16.arithmetic);
        let most = 3.0 * (1.0 + arithmetic) * (1.0 + unit);
        let scale = LayerProblem::Scale(scale);
        assert!(allows(&scale, &[&factor], 1.0, most));
        assert!(!allows(&scale, &[&factor], 1.0, 3.0 * (1.0 + 1.1 * unit)));
    }
}
