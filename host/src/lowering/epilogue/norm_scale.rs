//! The kernels of a norm and a scale.

use launch_config::KernelGeometry;
use op_spec::GroupNormProblem;

use super::Map;
use crate::device::LaunchShape;
use crate::lowering::region::Region;
use crate::operators::fused::group_norm_scale;

/// A group norm, and a factor for each channel of its result.
#[derive(Debug, Clone)]
pub(in crate::lowering) struct NormScale {
    pub(in crate::lowering) norm: (usize, GroupNormProblem),
    /// The layer of the factors.
    pub(in crate::lowering) scale: usize,
    pub(in crate::lowering) by: NormScaleKernels,
}

/// The kernels of a norm and a scale.
#[derive(Debug, Clone, Copy)]
pub(in crate::lowering) enum NormScaleKernels {
    /// One launch with this shape, whose blocks keep rows in shared memory.
    Resident(LaunchShape),
    /// A launch for the statistics, and one that normalises and scales.
    Separate,
    /// The launches of a norm whose weight and bias include the factors.
    Folded,
}

impl NormScale {
    /// The kernels for a norm and functions, if they are of this kind.
    pub(in crate::lowering) fn of(region: &Region<'_>, map: &Map) -> Option<Self> {
        let scale = map.behind.filter(|behind| behind.prelu.is_none())?.layer;
        let (_, norm) = map.norm;
        let is_alone = map.before.is_none() && map.list.is_empty() && !norm.over_batch;
        let of = region.of;
        let geometry = norm.geometry().ok();
        let resident =
            geometry.and_then(|norm| group_norm_scale::resident(&norm, of.dtype, of.properties));
        is_alone.then_some(Self {
            norm: map.norm,
            scale,
            by: resident.map_or(NormScaleKernels::Separate, NormScaleKernels::Resident),
        })
    }

    /// The same by the launches of a norm, with the factors in its weight and bias.
    pub(in crate::lowering) fn folded(self) -> Self {
        Self {
            by: NormScaleKernels::Folded,
            ..self
        }
    }
}
