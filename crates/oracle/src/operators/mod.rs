//! One file for each operator: what it computes, how errors pass through it, what it costs, its cases, its golden files.
//!
//! A new operator is a file, its `mod` line, an arm of `of` and a line of `CASES`; a pointwise function stands in
//! `pointwise.rs` alone.

use ndarray::ArrayD;
use op_spec::chain::LayerProblem;

use crate::{Bounded, Cases, Precision};

pub mod channel_max;
pub mod conv;
pub mod group_norm;
pub mod instance_norm;
pub mod max_pool2d;
pub mod pointwise;
pub mod scale;

/// What is known of an operator's arithmetic. Its problem implements this, and gives attributes and extents; how many
/// samples there are is the input's to say, so that they can be taken one by one.
///
/// Parameters come in the order of PyTorch's function, those that the problem lacks left out.
pub trait Operator {
    /// The output, in loops that can be read against the definition. NaN follows PyTorch: maxima and clamps keep it.
    fn reference(&self, x: &ArrayD<f64>, parameters: &[&ArrayD<f64>]) -> ArrayD<f64>;

    /// How far off the output `y` may be before it is stored, see [`Bounded`].
    fn tolerance(
        &self,
        x: &Bounded,
        y: &ArrayD<f64>,
        parameters: &[&ArrayD<f64>],
        precision: &Precision,
    ) -> ArrayD<f64>;

    /// Whether every element of the output is one of the input's, so that storing it rounds nothing.
    fn selects(&self) -> bool {
        false
    }

    /// Multiplications of a convolution, elements that other operators read.
    fn cost(&self) -> u64;
}

/// The operator of a layer.
pub(crate) fn of(layer: &LayerProblem) -> &dyn Operator {
    match layer {
        LayerProblem::Conv2d(problem) => problem,
        LayerProblem::Conv3d(problem) => problem,
        LayerProblem::GroupNorm(problem) => problem,
        LayerProblem::InstanceNorm(problem) => problem,
        LayerProblem::Scale(problem) => problem,
        LayerProblem::MaxPool2d(problem) => problem,
        LayerProblem::ChannelMax(problem) => problem,
        LayerProblem::Pointwise(problem) => problem,
    }
}

/// The cases of all operators.
pub(crate) fn all() -> impl Iterator<Item = &'static Cases> {
    CASES.iter().chain(pointwise::CASES)
}

/// Of all operators but for the pointwise functions.
const CASES: &[Cases] = &[
    conv::CONV2D,
    conv::CONV3D,
    group_norm::CASES,
    instance_norm::CASES,
    scale::CASES,
    max_pool2d::CASES,
    channel_max::CASES,
];

/// The factor of a result behind `chain` additions in sequence.
fn chained(chain: usize) -> f64 {
    4.0 + (chain as f64).sqrt()
}
