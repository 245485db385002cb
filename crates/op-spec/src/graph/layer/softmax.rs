//! Softmax and its logarithm as layers.

use alloc::vec::Vec;

use super::{Flow, GraphLayer, Layer, LayerProblem, constructors};
use crate::reduction::axes;
use crate::{LogSoftmaxSpec, SoftmaxSpec, SpecError};

constructors! {
    /// Computes a softmax over the axes `dim`, which count as one; see [`SoftmaxSpec`].
    softmax(dim: &[isize]) = Layer::Softmax(SoftmaxSpec::new(dim));
    /// Computes the logarithm of a softmax; see [`LogSoftmaxSpec`].
    log_softmax(dim: &[isize]) = Layer::LogSoftmax(LogSoftmaxSpec::new(dim));
}

macro_rules! graph_layers {
    ($($Spec:ident: $operator:literal, $Variant:ident;)+) => {$(
        impl GraphLayer for $Spec {
            fn needs_channels(&self) -> bool {
                false
            }

            fn needs_batch(&self) -> bool {
                // An axis that is counted from the first one is a different axis without a batch.
                self.dim.iter().any(|dim| dim >= 0)
            }

            fn flow(&self, given: &Flow) -> Result<Flow, SpecError> {
                let rank = given.dimensions.map_or(u64::BITS as usize, |all| all + 2);
                axes($operator, self.dim, rank).map(|_| *given)
            }

            fn problem(
                &self,
                input: &[usize],
            ) -> Result<(LayerProblem, Vec<usize>), SpecError> {
                Ok((LayerProblem::$Variant(self.problem(input)?), input.to_vec()))
            }
        }
    )+};
}

graph_layers! {
    SoftmaxSpec: "softmax", Softmax;
    LogSoftmaxSpec: "log_softmax", LogSoftmax;
}
