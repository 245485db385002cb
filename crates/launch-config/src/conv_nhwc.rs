//! Direct convolution of 16-bit channels-last tensors with few filters, as at the end of segmentation
//! networks.
//!
//! A thread computes two output pixels for all filters. It reads the input in vectors of [`VECTOR_CHANNELS`]
//! channels; the filters are in shared memory.

use super::conv::ConvGeometry;
use super::{LaunchShape, Refusal};

/// Threads of a block.
pub const BLOCK_THREADS: u32 = 256;

/// Minimum resident blocks per multiprocessor (launch bounds).
pub const MIN_BLOCKS: u32 = 4;

/// Output pixels of a thread, [`BLOCK_THREADS`] pixels apart.
pub const THREAD_PIXELS: usize = 2;

/// Output pixels of a block.
pub const BLOCK_PIXELS: u32 = BLOCK_THREADS * THREAD_PIXELS as u32;

/// Channels of a vector, 16 bytes.
pub const VECTOR_CHANNELS: u32 = 8;

/// The maximum number of filters.
pub const MAX_FILTERS: u32 = 8;

/// The maximum number of values of all filters, which are in shared memory.
pub const STAGED_VALUES: u32 = 6144;

/// The number of products per input value beyond which tensor cores are faster.
const MAX_PRODUCTS: u32 = 32;

/// The number of output pixels of a sample below which tensor cores are faster, because a thread multiplies
/// all values of a pixel in sequence.
const MIN_PIXELS: u32 = 64;

/// A convolution from dense NHWC to dense NHWC.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvNhwcGeometry {
    /// The convolution, of one group.
    pub conv: ConvGeometry,
    /// The filters' strides in elements: between channels and between taps.
    pub filter_steps: [u32; 2],
}

impl ConvNhwcGeometry {
    /// Returns the geometry of a convolution. Its filters are channels-last, or have the channels before the
    /// taps.
    ///
    /// # Errors
    /// Several groups, channels that are not whole vectors, too many filters, too many pixels.
    pub fn new(conv: &ConvGeometry, filters_are_last: bool) -> Result<Self, Refusal> {
        if conv.groups != 1 || !conv.group_c.is_multiple_of(VECTOR_CHANNELS) {
            return Err(Refusal::Needs(
                "one group, and channels in whole vectors of eight",
            ));
        }
        let values = conv.group_k.checked_mul(conv.reduction());
        if conv.group_k > MAX_FILTERS || values.is_none_or(|values| values > STAGED_VALUES) {
            return Err(Refusal::Needs(
                "at most 8 filters of together at most 6,144 values",
            ));
        }
        let pixels = conv.n.checked_mul(conv.output_pixels().into());
        if pixels.is_none_or(|pixels| pixels >= 1 << 31) {
            return Err(Refusal::Needs("less than 2^31 pixels"));
        }
        let filter_steps = match filters_are_last {
            true => [1, conv.group_c],
            false => [conv.taps(), 1],
        };
        Ok(Self {
            conv: *conv,
            filter_steps,
        })
    }

    /// Whether the kernel is faster than tensor cores: an input value has few products, and a sample has
    /// enough pixels.
    #[must_use]
    pub const fn pays(&self) -> bool {
        let conv = &self.conv;
        conv.group_k * conv.taps() <= MAX_PRODUCTS && conv.output_pixels() >= MIN_PIXELS
    }

    /// Whether the filters are channels-last.
    #[must_use]
    pub const fn filters_are_last(&self) -> bool {
        self.filter_steps[0] == 1
    }

    /// Output pixels of all samples.
    #[must_use]
    #[inline(always)]
    pub const fn pixels(&self) -> u32 {
        self.conv.n as u32 * self.conv.output_pixels()
    }

    /// The kernel's launch.
    #[must_use]
    pub const fn shape(&self) -> Option<LaunchShape> {
        let blocks = self.pixels().div_ceil(BLOCK_PIXELS);
        LaunchShape::linear(blocks as u64, BLOCK_THREADS)
    }
}
