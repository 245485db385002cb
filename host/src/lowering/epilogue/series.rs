//! The kernels of a softmax, or of a layer norm of rows.

use launch_config::layer_norm::LayerNormGeometry;
use launch_config::softmax::SoftmaxGeometry;
use launch_config::{AffineType, Refusal};
use op_spec::graph::{Epilogue, Reduction};
use op_spec::{LayerNormProblem, Layout};

use super::Behind;
use crate::lowering::region::Region;

/// A kernel that holds all values along an axis, and the list that it applies afterwards.
#[derive(Debug, Clone)]
pub(in crate::lowering) struct Series {
    pub(in crate::lowering) kernel: SeriesKernel,
    pub(in crate::lowering) behind: Behind,
    /// The layout of input and output.
    pub(in crate::lowering) layout: Layout,
}

/// The function that the kernel computes of these values.
#[derive(Debug, Clone, Copy)]
pub(in crate::lowering) enum SeriesKernel {
    /// A softmax or log softmax.
    Softmax(SoftmaxGeometry),
    /// A layer norm, with its layer.
    LayerNorm(usize, LayerNormProblem),
}

impl Series {
    pub(in crate::lowering) fn of(region: &Region<'_>, form: &Epilogue) -> Result<Series, Refusal> {
        let expected = "softmax or a layer norm of rows, perhaps arithmetic with parameters, up to eight functions and a residual behind it";
        let refusal = Refusal::Layers { expected };
        let behind = Behind::of(&form.after).ok_or(refusal)?;
        if form.norm.is_some()
            || !form.list.is_empty()
            || behind.list.functions.keeps().is_present()
        {
            return Err(refusal);
        }
        let too_long = |_| Refusal::Needs("axes that are counted with 32 bits");
        let mut layout = Layout::Nchw;
        let kernel = match &form.reduce {
            Some((_, Reduction::Softmax(problem))) => {
                let has_channels = problem.is_of_channels() || problem.is_within_channels();
                if behind.list.is_affine() && !has_channels {
                    return Err(refusal);
                }
                let is_nhwc = problem.is_of_channels() && region.is_dense_nhwc();
                if is_nhwc {
                    layout = Layout::Nhwc;
                }
                let geometry = SoftmaxGeometry::of(problem, is_nhwc);
                SeriesKernel::Softmax(geometry.map_err(too_long)?)
            }
            Some((layer, Reduction::LayerNorm(problem))) => {
                LayerNormGeometry::of(problem, AffineType::TENSOR).map_err(too_long)?;
                let has_channels = problem.rows_per_sample.is_multiple_of(problem.channels);
                if behind.list.is_affine() && (problem.of_channels || !has_channels) {
                    return Err(refusal);
                }
                if problem.of_channels {
                    layout = Layout::Nhwc;
                }
                SeriesKernel::LayerNorm(*layer, *problem)
            }
            _ => return Err(refusal),
        };
        Ok(Series {
            kernel,
            behind,
            layout,
        })
    }
}
