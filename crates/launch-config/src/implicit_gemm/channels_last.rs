//! Channels-last inputs, which the implicit GEMM reads in place.
//!
//! Where the channels of a pixel are contiguous in memory, as in PyTorch's `channels_last`, eight 16-bit
//! channels already are the K-vector that a reformat would make. Eight f32 channels become that K-vector by
//! conversion (`staged_f32`). Warp-specialized tiles load these K-vectors in place (`nhwc_tile`).

use super::{K_VECTOR_VALUES, K_VECTOR_WORDS};
use crate::conv::ConvGeometry;
use crate::mode::mode;

mode! {
    /// The loader of the input.
    pub Loader {
        /// A launch reformats the input to padded planes of K-vectors.
        REFORMAT_TO_PLANES = 0,
        /// A launch reformats the input to channels-last K-vectors.
        REFORMAT_TO_NHWC = 1,
        /// A channels-last input is read in place.
        CHANNELS_LAST = 2,
        /// A dense f32 input is read in place, and converted to planes of K-vectors by the producer.
        DENSE_F32 = 3,
    }
}

impl Loader {
    /// Whether the input is channels-last, and read in place.
    #[must_use]
    #[inline(always)]
    pub const fn is_channels_last(self) -> bool {
        self.0 == Self::CHANNELS_LAST.0
    }

    /// Whether the input is dense f32, and read in place.
    #[must_use]
    #[inline(always)]
    pub const fn is_dense_f32(self) -> bool {
        self.0 == Self::DENSE_F32.0
    }
}

/// Strides of the K-vectors of a channels-last input, or of one that is reformatted to NHWC: the distance of
/// neighbouring pixels along each axis, in K-vectors. The planes of a pixel are consecutive.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KVectorStrides {
    /// Stride of samples.
    pub sample: u32,
    /// Stride of slices.
    pub slice: u32,
    /// Stride of rows.
    pub row: u32,
    /// Stride of columns.
    pub column: u32,
    /// The loader of the input.
    pub loader: Loader,
    /// K-vectors of a pixel side by side in the halo tile: 2 or 4, or 1 with a single plane; 0 if the input
    /// is reformatted to planes.
    pub span_k_vectors: u32,
    /// Boxes of an NHWC halo tile for each span of channels.
    pub boxes: u32,
}

impl KVectorStrides {
    /// An input that is reformatted to planes.
    pub const REFORMATTED: Self = Self {
        sample: 0,
        slice: 0,
        row: 0,
        column: 0,
        loader: Loader::REFORMAT_TO_PLANES,
        span_k_vectors: 0,
        boxes: 0,
    };

    /// Returns the strides of an input of 16-bit elements, from its strides of samples, channels, slices,
    /// rows and columns in elements. The channels must be contiguous, and every pixel must start at a
    /// multiple of a K-vector.
    pub(super) fn new(conv: &ConvGeometry, strides: [i64; 5]) -> Option<Self> {
        let extents = [conv.n, 1, conv.d.into(), conv.h.into(), conv.w.into()];
        let are_k_vectors = conv.group_c.is_multiple_of(K_VECTOR_VALUES) && strides[1] == 1;
        if !are_k_vectors || extents.contains(&0) {
            return None;
        }
        let mut k_vectors = [0; 5];
        for (axis, of_axis) in k_vectors.iter_mut().enumerate() {
            // The stride of an axis of extent 1 does not matter.
            if extents[axis] > 1 {
                let elements = u64::try_from(strides[axis]).ok()?;
                *of_axis = elements / u64::from(K_VECTOR_VALUES);
                // A tensor map has no stride of 0.
                if *of_axis == 0 || !elements.is_multiple_of(K_VECTOR_VALUES.into()) {
                    return None;
                }
            }
        }
        let [sample, _, slice, row, column] = k_vectors;
        let as_u32 = |k_vectors: u64| u32::try_from(k_vectors).ok();
        let strides = Self {
            sample: as_u32(sample)?,
            slice: as_u32(slice)?,
            row: as_u32(row)?,
            column: as_u32(column)?,
            loader: Loader::CHANNELS_LAST,
            span_k_vectors: 0,
            boxes: 0,
        };
        // Kernels count the words of a sample in 32 bits.
        let last = strides.last_pixel(conv).checked_add(planes(conv))?;
        (last <= u64::from(u32::MAX / K_VECTOR_WORDS)).then_some(strides)
    }

    /// Returns the strides of an input reformatted to NHWC, whose groups have `planes` planes together, if 32
    /// bits count the words of a sample.
    pub(super) fn reformatted(conv: &ConvGeometry, planes: u32) -> Option<Self> {
        let row = conv.w.checked_mul(planes)?;
        let slice = conv.h.checked_mul(row)?;
        let sample = conv.d.checked_mul(slice)?;
        let are_counted = (1..=u32::MAX / K_VECTOR_WORDS).contains(&sample);
        are_counted.then_some(Self {
            sample,
            slice,
            row,
            column: planes,
            loader: Loader::REFORMAT_TO_NHWC,
            ..Self::REFORMATTED
        })
    }

    /// Distance of the last pixel of a sample from the first.
    const fn last_pixel(&self, conv: &ConvGeometry) -> u64 {
        // Each product is below 2^63, and so is their sum for a tensor that fits memory. Others are refused.
        let slices = (conv.d - 1) as u64 * self.slice as u64;
        let rows = (conv.h - 1) as u64 * self.row as u64;
        let columns = (conv.w - 1) as u64 * self.column as u64;
        slices.saturating_add(rows).saturating_add(columns)
    }

    /// K-vectors that one sample spans, from its first pixel to the last.
    #[must_use]
    #[inline(always)]
    pub const fn sample_k_vectors(&self, conv: &ConvGeometry) -> u64 {
        self.last_pixel(conv) + planes(conv)
    }

    /// K-vectors that all samples span.
    #[must_use]
    #[inline(always)]
    pub const fn all_k_vectors(&self, conv: &ConvGeometry) -> u64 {
        (conv.n - 1) * self.sample as u64 + self.sample_k_vectors(conv)
    }
}

/// Planes of K-vectors of all groups.
const fn planes(conv: &ConvGeometry) -> u64 {
    (conv.group_c / K_VECTOR_VALUES) as u64 * conv.groups as u64
}
