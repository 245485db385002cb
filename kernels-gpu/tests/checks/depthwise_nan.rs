//! NaN among the pixels of windows that the depthwise convolution pools, at each place that a window has.

use cuda_std::Storage;
use launch_config::depthwise::DepthwiseGeometry;
use op_spec::ConvSpec;
use oracle::Precision;

use super::super::kernels::fused::depthwise::*;
use super::convolved::Convolution;
use super::norm::optional;
use super::{Loaded, Outcome, Run, compare, label};

/// A filter of one tap, so that a NaN is one pixel's.
pub(crate) fn windows<T: Storage>(run: &Run) -> Outcome {
    let [h, w] = [2, 3];
    let in_groups = ConvSpec {
        groups: 2,
        ..ConvSpec::default()
    };
    let shape = [1, h * h + 1, w * w + 2];
    let mut conv = Convolution::new::<T>([1, 2, 2], shape, [1, 1, 1], in_groups);
    for row in 0..h {
        for column in 0..w {
            // Of the windows, the one at (row, column) has its NaN there.
            conv.case.x[[0, 1, 0, row * h + row, column * w + column]] = f32::NAN;
        }
    }
    let pool = Some([h as u32, w as u32]);
    let g = DepthwiseGeometry::new(&conv.geometry, pool).expect("a geometry");
    let wanted = conv.results::<T>(conv.values(2.0 * Precision::F32.products), pool);
    let Loaded { x, parameters } = run.load::<T>(&conv.case)?;
    let factors = conv.factors::<T>(run)?;
    let y = run.empty::<T>(wanted.shape().iter().product())?;
    let moments = run.empty::<f32>(g.moment_elements() as usize)?;
    let arguments = (
        x.source(),
        parameters[0].source(),
        parameters[1].source(),
        optional(factors.norm_weight.as_ref()),
        factors.scale.source(),
        y.ptr(),
        moments.ptr(),
        g,
    );
    run.launch(&DEPTHWISE, &[label::<T>()], g.shape(), arguments)?;
    compare("NaN in windows", &y, &wanted)
}
