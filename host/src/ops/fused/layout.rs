//! The layouts that fused kernels take parameters in.

use crate::ops::Precision;
use crate::program::PreparedParameters;
use crate::spec::launch::implicit_gemm::GemmTile;

/// What the prepared parameters of a pipeline depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Those of the one launch of pipeline 85.
    OneLaunch(Precision),
    /// Filters as operands of the implicit matrix product.
    Gemm {
        precision: Precision,
        tile: GemmTile,
        vector_channels: u32,
        stage_chunks: u32,
    },
}

/// The prepared parameters of a pipeline.
pub(crate) type Layouts = PreparedParameters<Layout>;
