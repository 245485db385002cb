//! What a convolution that takes the moments for a norm needs, and what it leaves.

use kernels_gpu::fused::implicit_gemm::IMPLICIT_GEMM_COMBINE;

use super::preparation::Preparations;
use crate::device::DType;
use crate::error::Result;
use crate::ops::batch_norm::Folded;
use crate::ops::conv::Filters;
use crate::ops::launching::{Affine, kernel};
use crate::ops::norm_statistics::NormInput;
use crate::program::{ProgramBuilder, Value};
use launch_config::implicit_gemm::combining;
use launch_config::norm::{COUNTED_ELEMENTS, NormGeometry};

/// The parameters of layers that convolve, normalise and multiply.
#[derive(Clone, Copy)]
pub(crate) struct Parameters<'a> {
    pub(crate) filters: Filters,
    pub(crate) norm: Affine,
    /// Those of a batch norm, with which the convolution writes its results.
    pub(crate) folded: Option<Folded>,
    /// What is multiplied with each channel; with several such layers, with the first.
    pub(crate) factors: Option<Value>,
    /// The layer that convolves.
    pub(crate) layer: usize,
    /// What the chain's programs have prepared so far.
    pub(crate) preparations: &'a Preparations,
}

/// What the convolution leaves.
pub(crate) struct Convolved {
    /// The output, or the value of each window that will be the largest after norm and scale.
    pub(crate) y: Value,
    /// Moments of each channel, or of some that become one, over each part of the pixels.
    pub(super) moments: Value,
    /// Parts of the pixels of a sample that each have a moment for each channel, or for those.
    pub(super) parts: u32,
    /// Neighbouring channels, all of one row of the norm, whose moments became one.
    pub(super) moment_channels: u32,
}

impl Convolved {
    /// Appends what combines the moments to the statistics of a norm of the convolution's output, unless a
    /// row has no more than `by_readers`, which the kernel that follows combines itself.
    pub(crate) fn statistics(
        &self,
        program: &mut ProgramBuilder,
        affine: Affine,
        norm: NormGeometry,
        by_readers: u64,
    ) -> Result<NormInput> {
        let splits = norm.row_channels / self.moment_channels * self.parts;
        let combining = combining(splits.into(), by_readers);
        let mut partials = self.moments;
        for combining in combining.into_iter().flatten() {
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
            partials = combined;
        }
        let splits = match combining {
            [None, None] => splits,
            _ => 1,
        };
        Ok(NormInput {
            x: self.y,
            partials,
            affine,
            norm: norm.counted(splits),
            is_spent: true,
        })
    }
}
