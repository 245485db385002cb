//! Parameters and output of a convolution with moments for a norm.

use kernels_gpu::fused::implicit_gemm::IMPLICIT_GEMM_COMBINE;

use super::preparation::Preparations;
use crate::device::DType;
use crate::error::Result;
use crate::operators::batch_norm::Folded;
use crate::operators::conv::Filters;
use crate::operators::launching::{Affine, kernel};
use crate::operators::norm_statistics::NormInput;
use crate::program::{ProgramBuilder, Value};
use launch_config::implicit_gemm::Combining;
use launch_config::norm::{COUNTED_ELEMENTS, NormGeometry};

/// The parameters of layers that convolve, normalise and multiply.
#[derive(Clone, Copy)]
pub(crate) struct Parameters<'a> {
    pub(crate) filters: Filters,
    pub(crate) norm: Affine,
    /// The folded parameters of a batch norm in the convolution's store.
    pub(crate) folded: Option<Folded>,
    /// The factors of each channel; with several such layers, of the first.
    pub(crate) factors: Option<Value>,
    /// The layer that convolves.
    pub(crate) layer: usize,
    /// The parameters that the chain's programs have prepared so far.
    pub(crate) preparations: &'a Preparations,
}

/// The output of the convolution.
pub(crate) struct Convolved {
    /// The output, or only the value of each window that pooling takes after norm and scale.
    pub(crate) y: Value,
    /// Moments of each channel, or of each set of channels that share them, over each part of the pixels.
    pub(super) moments: Value,
}

/// The moments of a row of a norm.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowMoments {
    /// How many the producer leaves.
    pub(crate) count: u64,
    /// The launches that combine them, the second the results of the first. The kernel that normalises
    /// combines what is left.
    pub(crate) combining: [Option<Combining>; 2],
}

impl Convolved {
    /// Appends the launches that combine the moments to the statistics of a norm.
    pub(crate) fn statistics(
        &self,
        program: &mut ProgramBuilder,
        affine: Affine,
        norm: NormGeometry,
        moments: RowMoments,
    ) -> Result<NormInput> {
        let (mut partials, mut splits) = (self.moments, moments.count as u32);
        for combining in moments.combining.into_iter().flatten() {
            let elements: usize = program.shape(partials).iter().product();
            let rows = elements / COUNTED_ELEMENTS / combining.count as usize;
            let shape = combining.shape(rows as u64);
            let (kernel, shape) = kernel(&IMPLICIT_GEMM_COMBINE, &[], shape)?;
            let chunks = combining.chunks as usize;
            let combined = program.tensor(&[rows * chunks * COUNTED_ELEMENTS], DType::F32)?;
            let arguments = (partials, combined, rows as u64, combining);
            // SAFETY: `partials` has as many moments as `rows` rows, and `combined` room for those of their
            // chunks.
            unsafe { program.launch(kernel, shape, arguments) }
            (partials, splits) = (combined, combining.chunks);
        }
        Ok(NormInput {
            x: self.y,
            partials,
            affine,
            norm: norm.counted(splits).wide(affine.is_wide(program, self.y)),
            is_spent: true,
        })
    }
}
