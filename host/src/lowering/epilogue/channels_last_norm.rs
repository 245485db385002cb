//! The plan of a norm of a channels-last tensor.

use op_spec::graph::Epilogue;
use op_spec::{GroupNormProblem, Layout};

use super::Map;
use crate::lowering::producer::norm_geometry;
use crate::lowering::region::Region;
use crate::operators::fused::norm_nhwc::NormNhwc;
use crate::operators::pointwise::ListStep;

/// Group or instance norm, or batch norm with the batch's statistics, functions and residuals, from NHWC to
/// NHWC.
#[derive(Debug, Clone)]
pub(in crate::lowering) struct ChannelsLastNorm {
    /// The norm's layer.
    pub(in crate::lowering) layer: usize,
    pub(in crate::lowering) list: Vec<ListStep<usize>>,
    pub(in crate::lowering) launches: NormNhwc,
}

impl ChannelsLastNorm {
    /// The plan for a form, if it is of this kind and input and output are NHWC.
    pub(in crate::lowering) fn of(region: &Region<'_>, form: &Epilogue) -> Option<Self> {
        let lies_so = region.is_dense_nhwc() && region.output == Layout::Nhwc;
        let map = Map::of(form).ok().filter(|_| lies_so)?;
        Some(Self {
            layer: map.norm.0,
            launches: launches(&map)?,
            list: map.list,
        })
    }
}

/// The NHWC launches of a norm and its list, if there are kernels.
pub(in crate::lowering) fn launches(map: &Map) -> Option<NormNhwc> {
    if map.before.is_some() || map.behind.is_some() {
        return None;
    }
    launches_of(&map.norm.1)
}

/// The NHWC launches of a norm, if there are kernels. The samples of a batch follow each other in memory like
/// the pixels of a sample. With the batch's statistics they therefore are one sample.
pub(super) fn launches_of(norm: &GroupNormProblem) -> Option<NormNhwc> {
    if !norm.over_batch {
        return NormNhwc::new(&norm_geometry(norm).ok()?).ok();
    }
    let mut joined = *norm;
    joined.shape.spatial = norm.shape.n.checked_mul(norm.shape.spatial)?;
    joined.shape.n = 1;
    NormNhwc::over_batch(&norm_geometry(&joined).ok()?).ok()
}
