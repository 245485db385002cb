//! Options of a model.

use op_spec::Layout;
use op_spec::graph::Partition;

use crate::operators::{FusedOptions, Precision};

/// Options of a model. All options give the same values up to rounding.
///
/// On the CPU device only the output's layout has an effect.
///
/// # Examples
/// ```
/// use convfuse::Options;
/// use convfuse::graph::{Chain, Layer, Partition};
/// use convfuse::model::Precision;
///
/// let chain = Chain::new(8, (Layer::conv2d("conv", 8, 3), Layer::silu()))?;
/// let options = Options::default()
///     .precision(Precision::Fast)
///     .batch_invariant(false)
///     .partition(Partition::parse(&chain, "conv2d @direct | silu")?);
/// assert_eq!(options.precision, Precision::Fast);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// The partition into regions, with their kernels; by default the one with the fewest launches.
    pub partition: Option<Partition>,
    /// The math mode of f32 convolutions on tensor cores.
    pub precision: Precision,
    /// Whether the choice of kernels ignores the batch size (the default). The results of a sample then have
    /// the same bits in any batch. If false, small batches may use faster kernels.
    pub batch_invariant: bool,
    /// The layout of the output. By default it is the layout of the first input if the output has the same
    /// axes, and else NCHW.
    pub output_layout: Option<Layout>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            partition: None,
            precision: Precision::default(),
            batch_invariant: true,
            output_layout: None,
        }
    }
}

impl Options {
    /// Sets the partition.
    #[must_use]
    pub fn partition(mut self, partition: Partition) -> Options {
        self.partition = Some(partition);
        self
    }

    /// Sets the math mode.
    #[must_use]
    pub fn precision(mut self, precision: Precision) -> Options {
        self.precision = precision;
        self
    }

    /// Sets whether kernels are batch-invariant.
    #[must_use]
    pub fn batch_invariant(mut self, batch_invariant: bool) -> Options {
        self.batch_invariant = batch_invariant;
        self
    }

    /// Sets the layout of the output.
    #[must_use]
    pub fn output_layout(mut self, layout: Layout) -> Options {
        self.output_layout = Some(layout);
        self
    }

    /// Returns the options of fused convolutions.
    pub(super) const fn fused(&self) -> FusedOptions {
        FusedOptions {
            precision: self.precision,
            batch_invariant: self.batch_invariant,
        }
    }
}
