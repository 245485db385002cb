//! Depthwise convolutions of channels-last tensors, without a norm.
//!
//! `kernels_gpu::fused::depthwise::nhwc` describes the computation of runs.

use core::fmt;

use super::super::conv::ConvGeometry;
use super::super::implicit_gemm::RoundedEpilogue;
use super::super::nhwc::{MAX_VECTORS, RunBlocks};
use super::super::pointwise::OperandList;
use super::super::{LaunchShape, Refusal, VECTOR_ELEMENTS};
use super::rolling::RollingGeometry;
use super::{DepthwiseGeometry, PARAMETER_ROWS};
use crate::mode::mode;

/// Minimum resident blocks per multiprocessor (launch bounds).
pub const MIN_BLOCKS: u32 = 2;

/// Inputs of a row that a thread holds, and the maximum number of outputs of a run.
pub const WINDOW_INPUTS: u32 = 8;

/// Outputs of a run that loads its inputs for each tap.
pub const LOADED_RUN: u32 = 4;

/// The maximum shared memory of a block, in bytes.
const SHARED_BYTES: u32 = 48 << 10;

mode! {
    /// The source of a thread's inputs for a run.
    pub RunInputs {
        /// A load of each input for each tap.
        LOADED = 0,
        /// A sliding window of inputs, for outputs one column apart in the input.
        STRIDE_1 = 1,
        /// A sliding window of inputs, for outputs two columns apart in the input.
        STRIDE_2 = 2,
    }
}

/// A kernel for a convolution of channels-last tensors, with its launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NhwcKernel {
    /// The kernel that walks down the rows of images, for small square filters. Its epilogue is a
    /// [`RoundedEpilogue`].
    Rolling(RollingGeometry),
    /// The kernel that computes run by run. Its epilogue is any list without gain and shift that keeps no
    /// value.
    Runs(NhwcGeometry),
}

impl NhwcKernel {
    /// Returns the kernel for a convolution with this list as epilogue, if one [takes](Self::takes) it, on a
    /// device with this number of multiprocessors.
    ///
    /// # Errors
    /// A convolution that is not depthwise; the refusals of [`RunBlocks::new`].
    pub fn new(
        conv: &ConvGeometry,
        list: &OperandList,
        multiprocessors: u32,
    ) -> Result<Self, Refusal> {
        if RoundedEpilogue::of(list).is_some()
            && let Ok(geometry) = RollingGeometry::new(conv, multiprocessors)
        {
            return Ok(Self::Rolling(geometry));
        }
        NhwcGeometry::new(conv).map(Self::Runs)
    }

    /// Whether the kernel supports this list as epilogue.
    #[must_use]
    pub fn takes(&self, list: &OperandList) -> bool {
        match self {
            Self::Rolling(_) => RoundedEpilogue::of(list).is_some(),
            Self::Runs(_) => !list.is_affine() && !list.functions.keeps().is_present(),
        }
    }
}

/// Describes the configuration in words.
impl fmt::Display for NhwcKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rolling(geometry) => geometry.fmt(f),
            Self::Runs(geometry) => geometry.fmt(f),
        }
    }
}

/// The by-value argument of the kernel that computes run by run.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NhwcGeometry {
    /// The convolution.
    pub conv: ConvGeometry,
    /// The distribution of runs over blocks.
    pub blocks: RunBlocks,
    /// The source of a thread's inputs.
    pub inputs: RunInputs,
}

impl NhwcGeometry {
    /// Returns the geometry of a convolution.
    ///
    /// # Errors
    /// A convolution that is not depthwise; the refusals of [`RunBlocks::new`].
    pub fn new(conv: &ConvGeometry) -> Result<Self, Refusal> {
        DepthwiseGeometry::check(conv)?;
        let (inputs, run) = match (conv.stride_w, conv.dilation_w) {
            (1, 1) => (RunInputs::STRIDE_1, WINDOW_INPUTS),
            (2, 1) => (RunInputs::STRIDE_2, WINDOW_INPUTS / 2),
            _ => (RunInputs::LOADED, LOADED_RUN),
        };
        let most_vectors = MAX_VECTORS.min(SHARED_BYTES / Self::vector_bytes(conv));
        let tensors = (conv.n, conv.output_channels());
        let output = [conv.z, conv.p, conv.q];
        Ok(Self {
            conv: *conv,
            blocks: RunBlocks::new(tensors, conv.w, output, run, most_vectors)?,
            inputs,
        })
    }

    /// Bytes of shared memory for the filters and parameters of a vector of channels.
    const fn vector_bytes(conv: &ConvGeometry) -> u32 {
        (conv.taps() + PARAMETER_ROWS) * (VECTOR_ELEMENTS * size_of::<f32>()) as u32
    }

    /// The kernel's launch; `None` if it exceeds a grid.
    #[must_use]
    pub fn shape(&self) -> Option<LaunchShape> {
        let bytes = self.blocks.block_vectors * Self::vector_bytes(&self.conv);
        Some(self.blocks.shape()?.with_shared(bytes))
    }
}

/// Describes the configuration in words.
impl fmt::Display for NhwcGeometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (run, vectors) = (self.blocks.run, self.blocks.block_vectors);
        let channels = vectors * VECTOR_ELEMENTS as u32;
        write!(f, "runs of {run} outputs, {channels} channels in a block")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KernelGeometry;
    use crate::pointwise::{PointwiseList, Step};
    use op_spec::ConvSpec;
    use op_spec::PointwiseSpec;

    fn depthwise(filter: [usize; 3], stride: usize, dilation: usize) -> ConvGeometry {
        let [t, r, s] = filter;
        let spec = ConvSpec::default().groups(8);
        let spec = spec.stride([stride; 3]).dilation([dilation; 3]);
        let problem = spec.problem(&[1, 8, 3, 90, 90], &[8, 1, t, r, s], None);
        let geometry = problem.expect("a sound problem").geometry();
        geometry.expect("a small problem")
    }

    #[test]
    fn filters_of_any_length_fit_shared_memory() {
        for (filter, stride, dilation, inputs) in [
            ([1, 3, 3], 1, 1, RunInputs::STRIDE_1),
            ([3, 7, 7], 2, 1, RunInputs::STRIDE_2),
            ([1, 32, 32], 1, 2, RunInputs::LOADED),
            ([1, 3, 3], 3, 1, RunInputs::LOADED),
        ] {
            let g = NhwcGeometry::new(&depthwise(filter, stride, dilation)).expect("a geometry");
            assert_eq!(g.inputs, inputs);
            let shape = g.shape().expect("a small grid");
            assert!(shape.shared_bytes <= SHARED_BYTES);
        }
    }

    #[test]
    fn kernels_suit_filter_and_list() {
        let list = |function| OperandList {
            functions: PointwiseList::take(&mut [Step::of(&function)].into_iter()),
            ..OperandList::EMPTY
        };
        let [silu, tanh] = [PointwiseSpec::Silu {}, PointwiseSpec::Tanh {}].map(list);
        let chosen = |conv: &ConvGeometry, list| NhwcKernel::new(conv, list, 132);
        let image = ConvGeometry {
            d: 1,
            z: 1,
            ..depthwise([1, 3, 3], 1, 1)
        };
        for (conv, list, is_rolling) in [
            (image, &OperandList::EMPTY, true),
            (image, &silu, true),
            (image, &tanh, false),
            (depthwise([1, 3, 3], 1, 1), &silu, false),
        ] {
            let kernel = chosen(&conv, list).expect("a kernel");
            assert_eq!(matches!(kernel, NhwcKernel::Rolling(_)), is_rolling);
            assert!(kernel.takes(list));
        }
        let affine = OperandList {
            affine_at: 0,
            ..silu
        };
        let kernel = chosen(&image, &affine).expect("a kernel");
        assert!(!kernel.takes(&affine));
    }

    #[test]
    fn other_convolutions_are_refused() {
        assert!(NhwcGeometry::new(&depthwise([1, 41, 25], 1, 1)).is_err());
        let mut dense = depthwise([1, 3, 3], 1, 1);
        (dense.groups, dense.group_c) = (4, 2);
        assert!(NhwcGeometry::new(&dense).is_err());
    }
}
