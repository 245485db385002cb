//! The plan of a norm of a channels-last tensor.

use op_spec::Layout;
use op_spec::graph::Epilogue;

use super::Map;
use crate::lowering::producer::norm_geometry;
use crate::lowering::region::Region;
use crate::operators::fused::norm_nhwc::NormNhwc;
use crate::operators::pointwise::ListStep;

/// Group or instance norm, functions and residuals, from NHWC to NHWC.
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
    let (_, norm) = map.norm;
    if map.before.is_some() || map.behind.is_some() || norm.over_batch {
        return None;
    }
    NormNhwc::new(&norm_geometry(&norm).ok()?).ok()
}
