//! How a model is to be run.

use op_spec::graph::Partition;

use crate::ops::{ConvOptions, FusedOptions, Precision};

/// How a model is to be run. All ways give the same values up to rounding.
///
/// On the CPU device there is one way, and options change nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Which layers are done together, and by which kernels; the fewest launches that can be had where none
    /// is given.
    pub partition: Option<Partition>,
    /// The products of f32 convolutions that are fused with what follows them.
    pub precision: Precision,
    /// Whether kernels are chosen without regard to the batch (the default), so that the results of a sample
    /// are the same bits in any batch. Where they need not be, there are faster kernels for small batches.
    pub batch_invariant: bool,
    /// The most bytes that the column matrix of a convolution may take at a time, where there is one.
    pub workspace_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            partition: None,
            precision: Precision::default(),
            batch_invariant: true,
            workspace_bytes: ConvOptions::default().workspace_bytes,
        }
    }
}

impl Options {
    /// The same with layers done together as this partition says.
    #[must_use]
    pub fn partition(mut self, partition: Partition) -> Options {
        self.partition = Some(partition);
        self
    }

    /// The same with other products.
    #[must_use]
    pub fn precision(mut self, precision: Precision) -> Options {
        self.precision = precision;
        self
    }

    /// The same with kernels that depend on the batch, or not.
    #[must_use]
    pub fn batch_invariant(mut self, batch_invariant: bool) -> Options {
        self.batch_invariant = batch_invariant;
        self
    }

    /// The same with another limit.
    #[must_use]
    pub fn workspace_bytes(mut self, workspace_bytes: u64) -> Options {
        self.workspace_bytes = workspace_bytes;
        self
    }

    /// What kernels that convolve and go on are told.
    pub(super) const fn fused(&self) -> FusedOptions {
        FusedOptions {
            precision: self.precision,
            batch_invariant: self.batch_invariant,
        }
    }
}
