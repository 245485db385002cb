//! The kernels of a norm of a channels-last tensor.

use launch_config::Refusal;
use op_spec::graph::{ChannelAffine, Epilogue, Pointwise};
use op_spec::{BatchNormProblem, GroupNormProblem, Layout};

use super::{Map, list};
use crate::lowering::producer::norm_geometry;
use crate::lowering::region::Region;
use crate::operators::fused::norm_nhwc::NormNhwc;
use crate::operators::pointwise::ListStep;

/// Group, instance or batch norm, functions and residuals, from NHWC to NHWC.
#[derive(Debug, Clone)]
pub(in crate::lowering) struct ChannelsLastNorm {
    /// The norm's layer.
    pub(in crate::lowering) layer: usize,
    /// A batch norm with running statistics.
    pub(in crate::lowering) running: Option<BatchNormProblem>,
    pub(in crate::lowering) list: Vec<ListStep<usize>>,
    pub(in crate::lowering) launches: NormNhwc,
}

impl ChannelsLastNorm {
    /// The kernels for a form, if it is of this kind and input and output are NHWC.
    pub(in crate::lowering) fn of(region: &Region<'_>, form: &Epilogue) -> Option<Self> {
        let lies_so = region.is_dense_nhwc() && region.output == Layout::Nhwc;
        if !lies_so {
            return None;
        }
        if let Some(running) = Self::running(form) {
            return Some(running);
        }
        let map = Map::of(form).ok()?;
        Some(Self {
            layer: map.norm.0,
            running: None,
            launches: launches(&map)?,
            list: map.list,
        })
    }

    /// The kernels for a batch norm with running statistics, and functions and residuals behind it.
    fn running(form: &Epilogue) -> Option<Self> {
        let [
            (layer, Pointwise::Affine(ChannelAffine::BatchNorm(problem))),
            rest @ ..,
        ] = &form.list[..]
        else {
            return None;
        };
        let is_alone = form.norm.is_none() && form.reduce.is_none();
        let list = list(rest, Refusal::Layers { expected: "" }).ok();
        let norm = joined(&problem.as_group_norm())?;
        Some(Self {
            layer: *layer,
            running: Some(*problem),
            launches: NormNhwc::new(&norm_geometry(&norm).ok()?).ok()?,
            list: list.filter(|_| is_alone)?,
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

/// The NHWC launches of a norm, if there are kernels.
pub(super) fn launches_of(norm: &GroupNormProblem) -> Option<NormNhwc> {
    let norm = match norm.over_batch {
        true => joined(norm)?,
        false => *norm,
    };
    NormNhwc::new(&norm_geometry(&norm).ok()?).ok()
}

/// The same norm of one sample. The samples of a batch follow each other in memory like the pixels of a
/// sample, so those of a batch norm may count as one.
fn joined(norm: &GroupNormProblem) -> Option<GroupNormProblem> {
    let mut joined = *norm;
    joined.shape.spatial = norm.shape.n.checked_mul(norm.shape.spatial)?;
    joined.shape.n = 1;
    Some(joined)
}
