//! The kernels of padding as a layer.

use launch_config::Refusal;
use launch_config::pad::PadGeometry;
use op_spec::graph::{ByItself, NormalForm};
use op_spec::{Layout, PadProblem};

use crate::lowering::region::Region;

/// Padding in the layout of its input if the kernel can treat the input as planes, else in NCHW.
#[derive(Debug, Clone)]
pub(in crate::lowering) struct Padding {
    pub(in crate::lowering) geometry: PadGeometry,
    /// The layout of input and output.
    pub(in crate::lowering) layout: Layout,
    /// Shape of the output.
    pub(in crate::lowering) output: Vec<usize>,
}

impl Padding {
    /// The kernels for a form, if it is of this kind.
    pub(in crate::lowering) fn of(
        region: &Region<'_>,
        form: &NormalForm,
    ) -> Option<Result<Padding, Refusal>> {
        let (layer, ByItself::Pad(problem)) = form.by_itself? else {
            return None;
        };
        let in_layout = |layout| Some((geometry(&problem, layout)?, layout));
        let nhwc = in_layout(Layout::Nhwc).filter(|_| region.is_dense_nhwc());
        let found = nhwc.or_else(|| in_layout(Layout::Nchw));
        let plan = found.map(|(geometry, layout)| Padding {
            geometry,
            layout,
            output: region.output_of(layer).to_vec(),
        });
        Some(plan.ok_or(Refusal::Needs("padded planes of less than 2^31 elements")))
    }
}

fn geometry(problem: &PadProblem, layout: Layout) -> Option<PadGeometry> {
    let (pad, planes) = problem.planes(layout)?;
    PadGeometry::of("pad", &pad, planes).ok()
}
