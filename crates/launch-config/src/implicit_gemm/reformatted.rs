//! The reformatted input of an implicit GEMM.

use super::{GemmConfig, K_VECTOR_VALUES, K_VECTOR_WORDS};
use crate::conv::ConvGeometry;

impl GemmConfig {
    /// 32-bit words of the reformatted input.
    #[must_use]
    pub fn reformatted_words(&self) -> u64 {
        let g = &self.geometry;
        let planes = g.conv.n * u64::from(g.conv.groups * g.planes * self.format.parts);
        let k_vectors = if g.has_nhwc_tile() {
            g.conv.input_pixels()
        } else {
            g.plane_k_vectors()
        };
        planes * u64::from(k_vectors) * u64::from(K_VECTOR_WORDS)
    }

    /// Checks whether two configs reformat the same input to the same words. With NHWC tiles the words do not
    /// depend on the padding; otherwise both configs must have padded planes of the same geometry.
    #[must_use]
    pub fn reformats_alike(&self, other: &Self) -> bool {
        let reformatted = |config: &Self| {
            let g = &config.geometry;
            let conv = &g.conv;
            let input = [conv.groups, conv.group_c, conv.d, conv.h, conv.w];
            let padded = [
                conv.pad_d,
                conv.pad_h,
                conv.pad_w,
                conv.stride_w,
                conv.dilation_w,
                g.k_vector_channels,
                g.reformatted_d,
                g.reformatted_h,
                g.used_w,
                g.stride_phases,
                g.stride_phase_columns,
            ];
            let padded = (!g.has_nhwc_tile()).then_some(padded);
            (config.format, g.prescale, conv.n, input, g.planes, padded)
        };
        reformatted(self) == reformatted(other)
    }
}

/// Returns the channels of a pixel in a K-vector: all eight, or fewer beside other columns of the filter's
/// reach.
///
/// A K-vector of several columns may hold columns outside of the window that uses it; filter values are 0
/// there. These columns must belong to another window of the sample; otherwise an infinity there would have
/// an effect that PyTorch's result does not show. Therefore all columns within reach must be used.
pub(super) const fn k_vector_channels(conv: &ConvGeometry) -> u32 {
    let all_used = if conv.stride_w == 1 {
        conv.dilation_w <= conv.q
    } else {
        conv.dilation_w == 1 && conv.stride_w <= conv.s
    };
    match conv.group_c {
        1 if all_used && conv.s > 4 => 1,
        1 | 2 if all_used && conv.s > 2 => 2,
        1..=4 if all_used && conv.s > 1 => 4,
        _ => K_VECTOR_VALUES,
    }
}
