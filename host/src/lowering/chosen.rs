//! Regions with the rows that lowered them.

use op_spec::graph::{GraphProblem, LayerProblem};

use super::lowered::Lowered;
use super::region::{Query, RegionFacts};
use super::table::Row;

/// A region with its kernels, and the verdicts on the rows.
pub(crate) struct Chosen {
    pub(super) row: &'static Row,
    pub(super) layers: Vec<usize>,
    pub(super) lowered: Lowered,
    pub(crate) facts: RegionFacts,
}

impl Chosen {
    /// The layers that kernels compute: all except a `flatten` or `reshape` at the end.
    pub(super) fn computed(&self, problem: &GraphProblem) -> &[usize] {
        computed(problem, &self.layers)
    }

    /// The parameter, in the graph's table, that the producer reads in place if it is passed to each run.
    pub(crate) fn given_in_place(&self, of: Query<'_>) -> Option<usize> {
        let reads = self.lowered.producer.reads_filters_in_place();
        reads.then(|| of.graph.parameters_of(self.layers[0])[0])
    }
}

/// Removes a `flatten` or `reshape` at the end of several layers. It only changes the shape of an NCHW
/// output.
pub(super) fn computed<'a>(problem: &GraphProblem, layers: &'a [usize]) -> &'a [usize] {
    match layers {
        [before @ .., last] if !before.is_empty() && is_reshape(problem, *last) => before,
        all => all,
    }
}

/// Whether a layer only changes the shape of its NCHW input.
pub(super) fn is_reshape(problem: &GraphProblem, layer: usize) -> bool {
    matches!(
        problem.steps[layer].problem,
        LayerProblem::Flatten(_) | LayerProblem::Reshape(_)
    )
}
