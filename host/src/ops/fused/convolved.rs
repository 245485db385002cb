//! What a convolution that takes the moments for a norm needs, and what it leaves.

use kernels_gpu::fused::implicit_gemm::IMPLICIT_GEMM_COMBINE;

use super::implicit_gemm::FilterCache;
use crate::device::{DType, Tensor};
use crate::error::Result;
use crate::ops::Arena;
use crate::ops::launching::{bytes, grid};
use crate::spec::launch::implicit_gemm::{GemmGeometry, combining};
use crate::spec::launch::norm::{COUNTED_ELEMENTS, NormGeometry};

const OPERATOR: &str = "convolution with moments";

/// The parameters of a pipeline that convolves, normalises and multiplies.
pub(crate) struct Parameters<'a> {
    pub(crate) weight: &'a Tensor,
    pub(crate) bias: Option<&'a Tensor>,
    pub(crate) norm_weight: Option<&'a Tensor>,
    pub(crate) norm_bias: Option<&'a Tensor>,
    /// What is multiplied with each channel.
    pub(crate) factors: &'a Tensor,
    /// The convolution's filters as operands.
    pub(crate) filters: &'a FilterCache,
}

/// What the convolution leaves.
pub(crate) struct Convolved {
    /// The output, or the value of each window that will be the largest after norm and scale.
    pub(crate) y: Tensor,
    /// Moments of each channel over each part of the pixels.
    pub(super) moments: Tensor,
    /// Parts of the pixels of a sample that each have a moment for each channel.
    pub(super) parts: u32,
}

impl Convolved {
    /// The statistics of the rows of a norm of the convolution's output, as its kernels take them, and the geometry
    /// that says so.
    pub(crate) fn statistics(
        self,
        arena: &mut Arena,
        norm: NormGeometry,
    ) -> Result<(Tensor, Tensor, NormGeometry)> {
        let Convolved {
            y,
            mut moments,
            parts: of_channel,
        } = self;
        let combining = combining(of_channel, norm.row_channels);
        let stream = y.stream();
        for count in combining.into_iter().filter(|&count| count > 0) {
            let rows = moments.len() / COUNTED_ELEMENTS / count as usize;
            let shape = grid(OPERATOR, GemmGeometry::combine_shape(rows as u64))?;
            let combined = arena.tensor(stream, &[rows * COUNTED_ELEMENTS], DType::F32)?;
            let parts = moments.read_on(OPERATOR, "moments", stream)?;
            // SAFETY: `moments` has `rows * count` of them and `combined` room for `rows`, which are fresh.
            unsafe {
                stream.launch(
                    IMPLICIT_GEMM_COMBINE.instance(&[])?,
                    shape,
                    (parts.pointer(), combined.output(), rows as u64, count),
                )?;
            }
            stream.moved(bytes(&[&moments, &combined]));
            drop(parts);
            moments = combined;
        }
        let splits = match combining {
            [0, 0] => norm.row_channels * of_channel,
            _ => 1,
        };
        Ok((y, moments, norm.counted(splits)))
    }
}
