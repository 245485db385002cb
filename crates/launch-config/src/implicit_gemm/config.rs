//! The configuration of an implicit GEMM. `choice` chooses it; other methods are in the files of the parts
//! that they are about.

use super::{GemmTile, ImplicitGemmGeometry, OperandFormat};
use crate::{Arch, TensorRates};

/// The batch for which tiles are chosen where results must not depend on the batch: enough samples for the
/// throughput of larger batches, few enough that a single sample does not leave most of a device idle.
pub const ASSUMED_BATCH: u64 = 8;

/// The properties of a device that a config depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GemmDevice {
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// The most shared memory of a block, in bytes.
    pub shared_bytes: u32,
    /// The architecture, which determines the available tiles.
    pub arch: Arch,
    /// The rates of the tensor cores, each at most 2^16, if they are known.
    pub tensor_rates: Option<TensorRates>,
}

impl GemmDevice {
    /// The rates for cost models.
    pub(crate) fn rates(&self) -> TensorRates {
        self.tensor_rates.unwrap_or(self.arch.usual_rates())
    }
}

/// An implicit GEMM: geometry, tile, format and split-K.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GemmConfig {
    /// The kernels' by-value argument.
    pub geometry: ImplicitGemmGeometry,
    /// The tile.
    pub tile: GemmTile,
    /// How values become operands.
    pub format: OperandFormat,
    /// Split-K: blocks of a cluster that share each sum; 1 for none. Results depend on it.
    pub split_k: u32,
}
