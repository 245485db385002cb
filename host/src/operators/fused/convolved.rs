//! Parameters and output of a convolution that writes moments for a norm.

use kernels_gpu::fused::implicit_gemm::IMPLICIT_GEMM_COMBINE;

use crate::device::DType;
use crate::error::Result;
use crate::operators::batch_norm_parameters::Folded;
use crate::operators::conv::Filters;
use crate::operators::launching::Affine;
use crate::operators::norm_statistics::NormInput;
use crate::operators::preparation::Preparations;
use crate::program::{ProgramBuilder, Value};
use launch_config::implicit_gemm::Combining;
use launch_config::norm::{COUNTED_ELEMENTS, NormGeometry};

/// The parameters of a convolution and of the layers that are fused with it.
#[derive(Clone, Copy)]
pub(crate) struct Parameters<'a> {
    pub(crate) filters: Filters,
    pub(crate) norm: Affine,
    /// The folded parameters of a batch norm and of arithmetic, which the convolution's epilogue applies.
    pub(crate) folded: Option<Folded>,
    /// The folded parameters that the list after the epilogue applies.
    pub(crate) folded_behind: Option<Folded>,
    /// The tensor that the convolution's epilogue adds.
    pub(crate) residual: Option<Value>,
    /// The factors of each channel; with several scales, those of the first.
    pub(crate) factors: Option<Value>,
    /// The number of the convolution's layer.
    pub(crate) layer: usize,
    /// The class of phases of a transposed convolution; 0 for other convolutions.
    pub(crate) class: usize,
    /// The parameters that the chain's programs have prepared so far.
    pub(crate) preparations: &'a Preparations,
}

impl Parameters<'_> {
    /// Returns gain and shift of the epilogue, and of the list after it.
    pub(crate) fn gains_and_shifts(&self) -> [(Option<Value>, Option<Value>); 2] {
        let pair = |Folded { gain, shift }| (gain, shift);
        [self.folded, self.folded_behind].map(|folded| folded.map(pair).unzip())
    }
}

/// The output of the convolution.
pub(crate) struct Convolved {
    /// The output, or with pooling only the value of each window that the pool selects after norm and scale.
    pub(crate) y: Value,
    /// The moments of each channel, or of each set of channels with common moments, over each part of the
    /// pixels.
    pub(super) moments: Value,
}

/// The moments of a norm's row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowMoments {
    /// The number of moments that the producer writes.
    pub(crate) count: u64,
    /// The launches that combine the moments; the second combines the results of the first. The normalising
    /// kernel combines the remaining moments.
    pub(crate) combining: [Option<Combining>; 2],
}

impl RowMoments {
    /// Returns the norm over the remaining moments.
    pub(crate) fn combined(&self, norm: NormGeometry) -> NormGeometry {
        let last = self.combining.iter().flatten().last();
        norm.counted(last.map_or(self.count as u32, |combining| combining.chunks))
    }
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
        let mut partials = self.moments;
        for combining in moments.combining.into_iter().flatten() {
            let chunks = norm.rows * u64::from(combining.chunks);
            let combined = program.tensor(&[chunks as usize * COUNTED_ELEMENTS], DType::F32)?;
            let shape = combining.shape(norm.rows);
            let arguments = (partials, combined, norm.rows, combining);
            // SAFETY: `partials` has the moments of the norm's rows, and `combined` has room for one result
            // per chunk.
            unsafe { program.launch(&IMPLICIT_GEMM_COMBINE, &[], shape, arguments)? }
            partials = combined;
        }
        Ok(NormInput {
            x: self.y,
            partials,
            affine,
            norm: moments
                .combined(norm)
                .with_affine_type(affine.element_type(program, self.y)),
            is_spent: true,
        })
    }
}
