use ndarray::ArrayD;

use crate::Precision;

/// What is known of an operator's arithmetic. Its problem implements this, and gives attributes and extents;
/// how many samples there are is the input's to say, so that they can be taken one by one.
///
/// Parameters come in the order of PyTorch's function, those that the problem lacks left out; a residual
/// stands after them.
pub trait Operator {
    /// The output, in loops that can be read against the definition. NaN follows PyTorch: maxima and clamps
    /// keep it.
    fn reference(&self, x: &ArrayD<f64>, parameters: &[&ArrayD<f64>]) -> ArrayD<f64>;

    /// How far off the output may be before it is stored, where the input may be off by `t`, see
    /// [`Bounded`](crate::Bounded).
    fn tolerance(&self, of: &Given<'_>, t: ArrayD<f64>, precision: &Precision) -> ArrayD<f64>;

    /// The same for several precisions, with an input that is off by another `t` in each: what takes long and
    /// is the same for all is done once.
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

    /// Whether every element of the output is one of the input's, so that storing it rounds nothing.
    fn selects(&self) -> bool {
        false
    }

    /// Multiplications of a convolution, elements that other operators read.
    fn cost(&self) -> u64;
}

/// What an operator was given, and made of it.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// The input.
    pub x: &'a ArrayD<f64>,
    /// The output.
    pub y: &'a ArrayD<f64>,
    /// The parameters.
    pub parameters: &'a [&'a ArrayD<f64>],
}

/// The factor of a result after `chain` additions in sequence.
pub(super) fn chained(chain: usize) -> f64 {
    4.0 + (chain as f64).sqrt()
}
