//! Direct convolution: `conv2d` and `conv3d`.
//!
//! A block computes a tile of output channels by output pixels of one group of one sample. Each thread keeps
//! all channels of the tile for [`PIXELS_PER_THREAD`] pixels in registers. Each loaded input value thus
//! serves every channel, and each filter value every pixel.
//!
//! There are two tiles: [`WIDE_CHANNELS`] channels for ordinary convolutions, and [`NARROW_CHANNELS`] for
//! small groups (depthwise ones above all), which would leave most of a wide tile idle.

use super::{LaunchShape, Presence, VECTOR_ELEMENTS};

/// Threads of a block.
pub const BLOCK_THREADS: u32 = 128;

/// Minimum resident blocks per multiprocessor. Windows of volumes take too many registers for a fourth block.
pub const fn min_blocks(dimensions: usize) -> u32 {
    if dimensions == 3 { 3 } else { 4 }
}

/// Output pixels of a thread, [`BLOCK_THREADS`] pixels apart.
pub const PIXELS_PER_THREAD: usize = 4;

/// Output pixels of a block.
pub const TILE_PIXELS: u32 = BLOCK_THREADS * PIXELS_PER_THREAD as u32;

/// Output channels of the ordinary tile.
pub const WIDE_CHANNELS: u32 = 16;

/// Output channels of the tile for small groups.
pub const NARROW_CHANNELS: u32 = 4;

/// Filter rows (one tap of one input channel, for all channels of the tile) that are in shared memory at the
/// same time.
pub const STAGED_ROWS: u32 = 256;

/// Filter elements that a thread loads before it stores the first one.
pub const STAGED_AT_ONCE: usize = 4;

/// The by-value form of a convolution: always with a depth, which is 1 in two dimensions.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvGeometry {
    /// Samples.
    pub n: u64,
    /// Groups.
    pub groups: u32,
    /// Input channels of a group.
    pub group_c: u32,
    /// Output channels of a group.
    pub group_k: u32,
    /// Input depth.
    pub d: u32,
    /// Input rows.
    pub h: u32,
    /// Input columns.
    pub w: u32,
    /// Filter depth.
    pub t: u32,
    /// Filter rows.
    pub r: u32,
    /// Filter columns.
    pub s: u32,
    /// Output depth.
    pub z: u32,
    /// Output rows.
    pub p: u32,
    /// Output columns.
    pub q: u32,
    /// Input slices between output slices.
    pub stride_d: u32,
    /// Input rows between output rows.
    pub stride_h: u32,
    /// Input columns between output columns.
    pub stride_w: u32,
    /// Slices of padding in front of the input.
    pub pad_d: u32,
    /// Rows of padding above the input.
    pub pad_h: u32,
    /// Columns of padding left of the input.
    pub pad_w: u32,
    /// Input slices between filter slices.
    pub dilation_d: u32,
    /// Input rows between filter rows.
    pub dilation_h: u32,
    /// Input columns between filter columns.
    pub dilation_w: u32,
    /// Whether each output channel has a bias.
    pub bias: Presence,
}

/// The tile of output channels that a direct convolution uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelTile {
    /// [`WIDE_CHANNELS`] channels.
    Wide,
    /// [`NARROW_CHANNELS`] channels.
    Narrow,
}

impl ChannelTile {
    /// The tile's label in kernel names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wide => "wide",
            Self::Narrow => "narrow",
        }
    }

    /// Output channels of the tile.
    pub const fn channels(self) -> u32 {
        match self {
            Self::Wide => WIDE_CHANNELS,
            Self::Narrow => NARROW_CHANNELS,
        }
    }

    /// Elements between filter rows in shared memory: an odd number of vectors, so that eight
    /// neighbouring rows start in different banks.
    pub const fn staged_pitch(self) -> u32 {
        let vector = VECTOR_ELEMENTS as u32;
        ((self.channels() / vector) | 1) * vector
    }

    /// Elements of all staged rows.
    pub const fn staged_elements(self) -> usize {
        (STAGED_ROWS * self.staged_pitch()) as usize
    }
}

impl ConvGeometry {
    /// Elements of an input plane or volume.
    pub const fn input_pixels(&self) -> u32 {
        self.d * self.h * self.w
    }

    /// Elements of an output plane or volume.
    pub const fn output_pixels(&self) -> u32 {
        self.z * self.p * self.q
    }

    /// Filter positions.
    pub const fn taps(&self) -> u32 {
        self.t * self.r * self.s
    }

    /// Length of the sum of each output, without the bias.
    pub const fn reduction(&self) -> u32 {
        self.group_c * self.taps()
    }

    /// Input channels.
    pub const fn input_channels(&self) -> u32 {
        self.groups * self.group_c
    }

    /// Output channels.
    pub const fn output_channels(&self) -> u32 {
        self.groups * self.group_k
    }

    /// Returns the convolution of a batch in NHWC as a convolution of one sample, with its strides, so that a
    /// tile can hold pixels of several samples. `strides` has the distances between samples, channels,
    /// slices, rows and columns. For dense 1x1 convolutions all pixels are one row; otherwise the samples
    /// become slices. Returns `None` for volumes whose filters have several taps.
    #[must_use]
    pub fn as_one_sample(&self, strides: [i64; 5]) -> Option<(Self, [i64; 5])> {
        let [sample, channel, slice, row, column] = strides;
        let n = u32::try_from(self.n).ok()?;
        let is_plain = [self.stride_d, self.stride_h, self.stride_w] == [1; 3]
            && [self.pad_d, self.pad_h, self.pad_w] == [0; 3];
        let pixels = n.checked_mul(self.input_pixels())?;
        // The stride of an axis with one element is irrelevant.
        let mut next = column;
        let is_dense = [
            (self.w, column),
            (self.h, row),
            (self.d, slice),
            (n, sample),
        ]
        .into_iter()
        .all(|(extent, stride)| {
            let is_next = extent == 1 || stride == next;
            next *= i64::from(extent);
            is_next
        });
        if self.taps() == 1 && is_plain && is_dense {
            let conv = Self {
                n: 1,
                d: 1,
                h: 1,
                w: pixels,
                z: 1,
                p: 1,
                q: pixels,
                ..*self
            };
            let all = column * i64::from(pixels);
            return Some((conv, [all, channel, all, all, column]));
        }
        n.checked_mul(self.output_pixels())?;
        let is_flat = self.d == 1 && self.t == 1 && self.z == 1 && self.pad_d == 0;
        let conv = Self {
            n: 1,
            d: n,
            z: n,
            stride_d: 1,
            dilation_d: 1,
            ..*self
        };
        let all = sample * i64::from(n);
        is_flat.then_some((conv, [all, channel, sample, row, column]))
    }

    /// Returns the tile of the direct kernel.
    pub const fn direct_tile(&self) -> ChannelTile {
        if self.group_k <= NARROW_CHANNELS {
            ChannelTile::Narrow
        } else {
            ChannelTile::Wide
        }
    }

    /// The direct kernel's launch with `tile`. Blocks of the same pixels are consecutive and find the input
    /// in cache.
    pub const fn direct_shape(&self, tile: ChannelTile) -> Option<LaunchShape> {
        let channel_tiles = self.group_k.div_ceil(tile.channels()) as u64;
        let pixel_tiles = self.output_pixels().div_ceil(TILE_PIXELS) as u64;
        LaunchShape::linear(
            self.n * self.groups as u64 * pixel_tiles * channel_tiles,
            BLOCK_THREADS,
        )
    }
}
