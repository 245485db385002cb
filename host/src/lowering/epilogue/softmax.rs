//! The plan of a softmax.

use launch_config::Refusal;
use launch_config::softmax::SoftmaxGeometry;
use op_spec::graph::Epilogue;
use op_spec::{Layout, SoftmaxProblem};

use super::Behind;
use crate::lowering::region::Region;

/// A softmax, or its logarithm, and a list behind it.
#[derive(Debug, Clone)]
pub(in crate::lowering) struct Softmax {
    pub(in crate::lowering) geometry: SoftmaxGeometry,
    pub(in crate::lowering) behind: Behind,
    /// The layout of input and output.
    pub(in crate::lowering) layout: Layout,
}

impl Softmax {
    pub(in crate::lowering) fn of(
        region: &Region<'_>,
        problem: &SoftmaxProblem,
        form: &Epilogue,
    ) -> Result<Softmax, Refusal> {
        let expected = "softmax, perhaps arithmetic with parameters, up to eight functions and a residual behind it";
        let refusal = Refusal::Layers { expected };
        let behind = Behind::of(&form.after).ok_or(refusal)?;
        let has_channels = problem.is_of_channels() || problem.is_within_channels();
        let is_first = form.norm.is_none() && form.list.is_empty();
        if !is_first || behind.list.is_affine() && !has_channels {
            return Err(refusal);
        }
        let is_nhwc = problem.is_of_channels() && region.is_dense_nhwc();
        Ok(Softmax {
            geometry: SoftmaxGeometry::of(problem, is_nhwc)
                .map_err(|_| Refusal::Needs("axes that are counted with 32 bits"))?,
            behind,
            layout: match is_nhwc {
                true => Layout::Nhwc,
                false => Layout::Nchw,
            },
        })
    }
}
