use ndarray::ArrayD;

use crate::Precision;

/// The arithmetic of an operator. Implemented by the operator's problem, which has its attributes and
/// extents. The input determines the number of samples, so samples can be computed one by one.
///
/// Parameters are in the order of PyTorch's function, without the absent ones. A residual follows them.
pub trait Operator {
    /// The output, computed by loops that follow the definition. NaN handling is PyTorch's: maxima and
    /// clamps keep NaN.
    fn reference(&self, x: &ArrayD<f64>, parameters: &[&ArrayD<f64>]) -> ArrayD<f64>;

    /// The tolerance of the output before it is stored, for an input with the tolerance `t`. See
    /// [`Bounded`](crate::Bounded).
    fn tolerance(&self, of: &Given<'_>, t: ArrayD<f64>, precision: &Precision) -> ArrayD<f64>;

    /// The same for several precisions, each with its own `t`. Expensive terms that are equal for all are
    /// computed once.
    fn tolerances(
        &self,
        of: &Given<'_>,
        t: Vec<ArrayD<f64>>,
        precisions: &[Precision],
    ) -> Vec<ArrayD<f64>> {
        let each = t.into_iter().zip(precisions);
        each.map(|(t, precision)| self.tolerance(of, t, precision))
            .collect()
    }

    /// Whether every output element is an input element, so that storing it needs no rounding.
    fn selects(&self) -> bool {
        false
    }

    /// The shape of a padded sample of a convolution with a separate padding step; `[0]` for any other
    /// operator.
    fn padded(&self) -> Vec<usize> {
        vec![0]
    }

    /// The multiplications of a convolution, or the elements that another operator reads.
    fn cost(&self) -> u64;
}

/// The input, output and parameters of an operator.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// The input.
    pub x: &'a ArrayD<f64>,
    /// The output.
    pub y: &'a ArrayD<f64>,
    /// The parameters.
    pub parameters: &'a [&'a ArrayD<f64>],
}

/// The factor of the error of `chain` sequential additions.
pub(super) fn chained(chain: usize) -> f64 {
    4.0 + (chain as f64).sqrt()
}
