//! The kernels of epilogues that reduce the channels.

use launch_config::Refusal;
use op_spec::graph::{Epilogue, Pointwise, Reduction};

use crate::lowering::region::Region;
use crate::operators::reduction::OfChannels;
use crate::spec::{ClampProblem, GroupNormProblem};

/// `reduce(clamp(norm(x * m)) * m)` over the channels with a norm of single channels; without the norm
/// `reduce(clamp(x) * m)`.
#[derive(Debug, Clone)]
pub(in crate::lowering) struct ReducedChannels {
    pub(in crate::lowering) norm: Option<(usize, GroupNormProblem)>,
    pub(in crate::lowering) clamp: ClampProblem,
    pub(in crate::lowering) reduction: OfChannels,
    /// The layer of the factors.
    pub(in crate::lowering) factors: usize,
}

impl ReducedChannels {
    pub(in crate::lowering) fn of(
        region: &Region<'_>,
        form: &Epilogue,
    ) -> Result<ReducedChannels, Refusal> {
        let expected = "one factor, a norm of each channel, clamp, the same factor, a reduction over the channels";
        let refusal = Refusal::Layers { expected };
        let Some((_, Reduction::Axes(reduction))) = &form.reduce else {
            return Err(refusal);
        };
        let reduction = OfChannels::new(reduction).ok_or(refusal)?;
        if !reduction.operation().is_fusible() {
            return Err(Refusal::Needs("max, min, sum or mean as the reduction"));
        }
        let [(_, function), (behind, Pointwise::Scale(_))] = form.list[..] else {
            return Err(refusal);
        };
        let clamp = function.as_clamp().ok_or(refusal)?;
        if !form.affine.is_empty() || !form.after.is_empty() {
            return Err(refusal);
        }
        if let Some((_, norm)) = form.norm {
            let [(before, _)] = form.before[..] else {
                return Err(refusal);
            };
            if norm.channels_per_group() != 1 {
                return Err(refusal);
            }
            let [first, second] =
                [before, behind].map(|layer| region.of.graph.parameters_of(layer));
            if first != second {
                return Err(Refusal::Needs(
                    "the same factor before the norm and behind the clamp",
                ));
            }
        }
        Ok(ReducedChannels {
            norm: form.norm,
            clamp,
            reduction,
            factors: behind,
        })
    }
}
