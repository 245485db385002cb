//! The kernels of gates.

use launch_config::gate::GateGeometry;
use op_spec::graph::{ByItself, NormalForm};
use op_spec::{GateProblem, Layout};

use crate::lowering::region::Region;

/// A product with a factor for each channel, or each position, of each sample.
#[derive(Debug, Clone)]
pub(in crate::lowering) struct Gate {
    /// The number of the layer.
    pub(in crate::lowering) layer: usize,
    pub(in crate::lowering) problem: GateProblem,
    /// The geometry for a gate of channels in a channels-last tensor.
    pub(in crate::lowering) nhwc: Option<GateGeometry>,
}

impl Gate {
    /// The kernels for a form, if it is of this kind.
    pub(in crate::lowering) fn of(region: &Region<'_>, form: &NormalForm) -> Option<Gate> {
        let (layer, ByItself::Gate(problem)) = form.by_itself? else {
            return None;
        };
        let shape = problem.shape;
        let nhwc = GateGeometry::new(shape.n, shape.c, shape.spatial).ok();
        Some(Gate {
            layer,
            problem,
            nhwc: nhwc.filter(|_| region.is_dense_nhwc() && !problem.of_positions),
        })
    }

    /// The layout that is read and written.
    pub(in crate::lowering) fn layout(&self) -> Layout {
        match self.nhwc.is_some() || self.problem.of_positions {
            true => Layout::Nhwc,
            false => Layout::Nchw,
        }
    }
}
