//! Lowered regions: producer, epilogue and layouts.

use op_spec::{BatchNormProblem, Layout};

use super::epilogue::{EpilogueKernels, NormScale, NormScaleKernels};
use super::producer::Producer;
use crate::operators::fused::RowMoments;
use crate::operators::fused::gemm::Part;

/// A region with all decisions about its kernels.
#[derive(Debug)]
pub(super) struct Lowered {
    pub(super) producer: Producer,
    pub(super) epilogue: EpilogueKernels,
    /// The moments that the producer writes for a norm.
    pub(super) moments: Option<RowMoments>,
    /// The layout that the producer reads, and the layout that the epilogue writes. If the region's input has
    /// another layout, the region begins with a reformat.
    pub(super) reads: Layout,
    pub(super) writes: Layout,
    /// Whether the region reads NHWC, and its input is NCHW.
    pub(super) is_reformatted: bool,
    /// The part of a concatenation that the region writes in place of a value of its own.
    pub(super) part: Option<PartOf>,
}

impl Lowered {
    /// A region whose producer writes no moments.
    pub(super) fn without_moments(producer: Producer, epilogue: EpilogueKernels) -> Self {
        Self::with_moments(producer, epilogue, None)
    }

    /// A region whose producer may write moments.
    pub(super) fn with_moments(
        producer: Producer,
        epilogue: EpilogueKernels,
        moments: Option<RowMoments>,
    ) -> Self {
        let layouts = producer.layouts();
        let [reads, writes] = layouts.unwrap_or_else(|| epilogue.layouts());
        Self {
            producer,
            epilogue,
            moments,
            reads,
            writes,
            is_reformatted: false,
            part: None,
        }
    }

    /// Sets both layouts, for kernels that read and write single elements in any layout.
    pub(super) fn in_layout(self, layout: Layout) -> Self {
        Self {
            reads: layout,
            writes: layout,
            ..self
        }
    }

    /// Sets the layout that the producer reads.
    pub(super) fn reading(self, reads: Layout) -> Self {
        Self { reads, ..self }
    }

    /// The batch norm whose gain and shift the producer computes itself.
    pub(super) fn folded_by_producer(&self) -> Option<(usize, BatchNormProblem)> {
        match (&self.producer, &self.epilogue) {
            (Producer::Gemm(_) | Producer::DepthwiseNhwc(_), EpilogueKernels::Store(store)) => {
                store.batch_norm()
            }
            _ => None,
        }
    }

    /// A description of the configuration.
    pub(super) fn config(&self) -> String {
        let mut config = self.producer.to_string();
        config += match self.moments.map(|moments| moments.combining) {
            None | Some([None, None]) => "",
            Some([_, None]) => "; a launch combines the moments",
            Some(_) => "; two launches combine the moments",
        };
        if let Some(PartOf { part, end, .. }) = self.part {
            let start = part.start;
            config += &format!(", writes channels {start} to {end} of a concatenation");
        }
        config
    }

    /// Whether launches compute the statistics of a norm from the producer's output.
    pub(super) fn has_statistics(&self) -> bool {
        let is_resident = matches!(
            &self.epilogue,
            EpilogueKernels::NormScale(NormScale {
                by: NormScaleKernels::Resident(_),
                ..
            })
        );
        matches!(self.producer, Producer::Tensor) && self.epilogue.norm().is_some() && !is_resident
    }

    /// A description of the kernels after the producer, if there are any.
    pub(super) fn epilogue_summary(&self) -> Option<String> {
        let has_own = !matches!(
            self.producer,
            Producer::OneLaunch2d(_) | Producer::OneLaunch3d(_)
        );
        Some(self.epilogue.summary()).filter(|summary| has_own && !summary.is_empty())
    }
}

/// The part of a concatenation that a region writes.
#[derive(Debug, Clone, Copy)]
pub(super) struct PartOf {
    /// The layer `cat`.
    pub(super) layer: usize,
    pub(super) part: Part,
    /// The first channel behind the part.
    pub(super) end: usize,
}
