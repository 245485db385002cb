//! The forms that fused kernels take parameters in, and parameters that were folded into others.

use crate::ops::Precision;
use crate::program::PreparedParameters;
use crate::spec::launch::implicit_gemm::GemmTile;

/// What the prepared parameters of a layer depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Preparation {
    /// A norm's weight and bias with the scale behind it.
    FoldedScale,
    /// Those of the one launch of a convolution, a norm, a scale, a pool and a clamp.
    OneLaunch(Precision),
    /// Filters as operands of the implicit matrix product.
    Gemm {
        precision: Precision,
        tile: GemmTile,
        cell_channels: u32,
        stage_planes: u32,
    },
}

/// The prepared parameters of a chain: those of each layer in each form.
pub(crate) type Preparations = PreparedParameters<(usize, Preparation)>;
