//! `max(clamp(instance_norm(conv3d(x) * m)) * m, dim=1)` in one launch.
//!
//! One block computes a sample and keeps all of its input in shared memory. The kernel therefore supports the
//! shapes of KernelBench problem 79, with any depth and height of the volume that fit.
//! [`OneLaunch3dGeometry::new`] refuses all others.
//!
//! A block's output is cut into *items*: [`TILE_ROWS`] rows of the flattened (z, p) plane by
//! [`STRIP_COLUMNS`] columns. Item `i` is rows `i / STRIPS`, columns `i % STRIPS`; warp `w` takes
//! the items `w, w + WARPS, ..` in *rounds*. Input rows (the flattened (d, h) plane) arrive in the
//! same order, [`STAGING_ROWS`] of them during each round, after the first [`PEEK_ROWS`].
//!
//! On Hopper a cluster of blocks can share a sample where the batch is small. [`Share`] is one block's share,
//! and [`OneLaunch3dGeometry::cluster_blocks`] the number of blocks. Results are the same bits.

pub mod warpgroup;

use crate::clusters::at_once;
use crate::elementwise::Bounds;
use crate::{LaunchShape, Presence, Refusal, WARP_THREADS};
use op_spec::Quantity;
use op_spec::{ClampProblem, ConvProblem, GroupNormProblem};

/// Input channels.
pub const IN_CHANNELS: u32 = 3;

/// Output channels: the columns of two m16n8k16 MMAs.
pub const OUT_CHANNELS: u32 = 16;

/// Extent of the filter in each direction.
pub const FILTER: u32 = 3;

/// Elements of all filters.
pub const FILTER_ELEMENTS: u32 = OUT_CHANNELS * IN_CHANNELS * FILTER * FILTER * FILTER;

/// Width of the input.
pub const WIDTH: u32 = 32;

/// Width of the output.
pub const OUT_WIDTH: u32 = WIDTH - FILTER + 1;

/// Warps of a block. Three to a scheduler leave each thread 168 registers, which hold all filters.
pub const WARPS: u32 = 12;

/// Threads of a block.
pub const BLOCK_THREADS: u32 = WARPS * WARP_THREADS;

/// Output rows of an item: the rows of an m16n8k16 MMA.
pub const TILE_ROWS: u32 = 16;

/// Output columns of an item: a strip.
pub const STRIP_COLUMNS: u32 = 10;

/// Strips of the output.
pub const STRIPS: u32 = OUT_WIDTH / STRIP_COLUMNS;

/// Words from one input row to the next in shared memory. Odd, so that eight rows one below
/// another lie in eight banks.
pub const ROW_PITCH: u32 = WIDTH + 1;

/// Words of a plane: the sample once, one 32-bit word for each pixel.
pub const PLANE_WORDS: u32 = 17_160;

/// Input rows that are loaded before the first round.
pub const PEEK_ROWS: u32 = 160;

/// Input rows that arrive during a round.
pub const STAGING_ROWS: u32 = 64;

/// Words of the *staging area*, in which these rows arrive. It holds filters and partial statistics at other
/// times.
pub const STAGING_WORDS: u32 = STAGING_ROWS * WIDTH * IN_CHANNELS;

/// Words of the common area: scales, means, constants of the output channels.
pub const COMMON_WORDS: u32 = 256;

/// Blocks of the clusters that can share a sample.
pub const CLUSTERS: [u32; 3] = [8, 4, 2];

/// The most items of a sample that fits a plane.
const MOST_ITEMS: u32 = (PLANE_WORDS / ROW_PITCH).div_ceil(TILE_ROWS) * STRIPS;

/// The most items of a warp in a whole sample.
pub const MOST_WARP_ITEMS: u32 = MOST_ITEMS.div_ceil(WARPS);

/// Words of an item's power sums: sums and sums of squares.
pub const POWER_SUM_WORDS: u32 = 2 * OUT_CHANNELS;

/// The most words of the power sums of a block's items.
pub const SHARE_WORDS: u32 = MOST_ITEMS.div_ceil(CLUSTERS[2]) * POWER_SUM_WORDS;

const _: () = assert!(SHARE_WORDS + WARPS * POWER_SUM_WORDS <= STAGING_WORDS);

/// Bytes that a thread copies at a time.
pub const COPY_BYTES: u32 = 8;

/// Quotients by a height are products with its reciprocal, in units of `2^-RECIPROCAL_SHIFT`.
pub const RECIPROCAL_SHIFT: u32 = 24;

/// The kernel's by-value argument.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OneLaunch3dGeometry {
    /// Samples.
    pub n: u64,
    /// Number added to the variance.
    pub eps: f64,
    /// `1 / (out_rows * OUT_WIDTH)`.
    pub count_reciprocal: f64,
    /// Lower bound of the clamp, applied first.
    pub min: f32,
    /// Upper bound of the clamp, applied last.
    pub max: f32,
    /// Height of the input.
    pub height: u32,
    /// `d * h`: rows of the input.
    pub rows: u32,
    /// Words from one depth of a plane to the next.
    pub slice_words: u32,
    /// Height of the output.
    pub out_height: u32,
    /// `z * p`: rows of the output.
    pub out_rows: u32,
    /// Reciprocal of `height`, rounded up.
    pub height_reciprocal: u32,
    /// Reciprocal of `out_height`, rounded up.
    pub out_height_reciprocal: u32,
    /// The bias of the convolution.
    pub bias: Presence,
}

impl OneLaunch3dGeometry {
    /// The geometry of a problem: 3x3x3 filters from 3 to 16 channels at stride 1 without padding, dilation
    /// and groups, a width of 32, a sample that fits a plane, and a norm of each channel without weight and
    /// bias.
    ///
    /// # Errors
    /// The problem has another shape than the kernel computes.
    pub fn new(
        conv: &ConvProblem<3>,
        norm: &GroupNormProblem,
        clamp: &ClampProblem,
    ) -> Result<Self, Refusal> {
        let [depth, height, width] = conv.input;
        let number = Quantity::scalar;
        Refusal::unless_is(number("in_channels"), conv.c, IN_CHANNELS as usize)?;
        Refusal::unless_is(number("out_channels"), conv.k, OUT_CHANNELS as usize)?;
        Refusal::unless_are("kernel_size", &conv.kernel_size, &[FILTER as usize; 3])?;
        Refusal::unless_are("stride", &conv.stride, &[1; 3])?;
        Refusal::unless_are("padding", &conv.padding, &[0; 3])?;
        Refusal::unless_are("dilation", &conv.dilation, &[1; 3])?;
        Refusal::unless_is(number("groups"), conv.groups, 1)?;
        Refusal::unless_is(
            number("channels of a norm group"),
            norm.channels_per_group(),
            1,
        )?;
        if norm.weight || norm.bias {
            return Err(Refusal::Needs("a norm without weight and bias"));
        }
        Refusal::unless_is(number("width"), width, WIDTH as usize)?;
        let plane = PLANE_WORDS as usize;
        Refusal::unless_at_most(number("depth"), depth, plane)?;
        Refusal::unless_at_most(number("height"), height, plane)?;
        let (depth, height) = (depth as u32, height as u32);
        // An odd multiple of 16 words: rows of neighbouring depths lie in different halves of the banks.
        let slice_words = (height * ROW_PITCH + 15) / 32 * 32 + 16;
        let words = depth as usize * slice_words as usize;
        Refusal::unless_at_most(number("words of a sample's plane"), words, plane)?;
        let bounds = Bounds::of(clamp);
        let out_height = height - (FILTER - 1);
        let out_rows = (depth - (FILTER - 1)) * out_height;
        Ok(Self {
            n: conv.n as u64,
            eps: norm.eps,
            count_reciprocal: 1.0 / f64::from(out_rows * OUT_WIDTH),
            min: bounds.min,
            max: bounds.max,
            height,
            rows: depth * height,
            slice_words,
            out_height,
            out_rows,
            height_reciprocal: (1 << RECIPROCAL_SHIFT) / height + 1,
            out_height_reciprocal: (1 << RECIPROCAL_SHIFT) / out_height + 1,
            bias: Presence::of(conv.bias),
        })
    }

    /// Elements of the input.
    #[must_use]
    pub const fn input_elements(&self) -> usize {
        self.n as usize * self.sample_elements()
    }

    /// Elements of a sample of the input.
    #[must_use]
    pub const fn sample_elements(&self) -> usize {
        IN_CHANNELS as usize * self.channel_elements()
    }

    /// Elements of a channel of a sample.
    #[must_use]
    pub const fn channel_elements(&self) -> usize {
        (self.rows * WIDTH) as usize
    }

    /// Elements of a sample of the output.
    #[must_use]
    pub const fn out_elements(&self) -> usize {
        (self.out_rows * OUT_WIDTH) as usize
    }

    /// Items of a sample.
    #[must_use]
    pub const fn items(&self) -> u32 {
        self.out_rows.div_ceil(TILE_ROWS) * STRIPS
    }

    /// Input rows, from the first, that the items before `items` touch.
    #[must_use]
    pub const fn rows_needed(&self, items: u32) -> u32 {
        self.rows_before(items.div_ceil(STRIPS) * TILE_ROWS)
    }

    /// The first input row that output row `row` touches.
    #[must_use]
    pub const fn first_row(&self, row: u32) -> u32 {
        let z = (row * self.out_height_reciprocal) >> RECIPROCAL_SHIFT;
        z * self.height + (row - z * self.out_height)
    }

    /// Input rows, from the first, that the output rows before `row` touch.
    #[must_use]
    pub const fn rows_before(&self, row: u32) -> u32 {
        let last = if row < self.out_rows {
            row
        } else {
            self.out_rows
        } - 1;
        self.first_row(last) + (FILTER - 1) * self.height + FILTER
    }

    /// Items of each block of a cluster of `blocks`; the last blocks may have fewer, or none.
    #[must_use]
    pub const fn share_items(&self, blocks: u32) -> u32 {
        self.items().div_ceil(blocks)
    }

    /// The share of a sample of block `rank` in a cluster of `blocks`.
    #[must_use]
    pub const fn share(&self, rank: u32, blocks: u32) -> Share {
        let (items, each) = (self.items(), self.share_items(blocks));
        let first = if rank * each < items {
            rank * each
        } else {
            items
        };
        let end = if first + each < items {
            first + each
        } else {
            items
        };
        Share::new(self, [first, end], STRIPS, TILE_ROWS)
    }

    /// Blocks of a cluster that share a sample, on a device with clusters and `multiprocessors`
    /// multiprocessors: the largest number with which all samples run at the same time. It is 1 (no cluster)
    /// for large batches, and for samples with no more items than a block has warps.
    #[must_use]
    pub const fn cluster_blocks(&self, multiprocessors: u32) -> u32 {
        let mut i = 0;
        while i < CLUSTERS.len() && self.items() > WARPS {
            if self.n <= at_once(CLUSTERS[i], multiprocessors) {
                return CLUSTERS[i];
            }
            i += 1;
        }
        1
    }

    /// Whether there are enough samples, with a block each, for the kernel with `planes` words of each pixel
    /// to be faster than kernels that spread a sample over the whole device. Measured on 132 multiprocessors
    /// (docs/tuning.md).
    #[must_use]
    pub const fn fills_enough(&self, planes: u32, multiprocessors: u32) -> bool {
        let share = if planes == SPLIT_PLANES { 4 } else { 8 };
        self.n.saturating_mul(share) >= multiprocessors as u64
    }

    /// Launch of a kernel with `planes` words of each pixel and `blocks` blocks for each sample; `None` if
    /// they exceed a grid.
    #[must_use]
    pub const fn shape(&self, planes: u32, blocks: u32) -> Option<LaunchShape> {
        match LaunchShape::linear(self.n.saturating_mul(blocks as u64), BLOCK_THREADS) {
            Some(shape) => Some(shape.with_shared(4 * shared_words(planes))),
            None => None,
        }
    }
}

/// A block's share of its sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The first item.
    pub first: u32,
    /// The end of the items.
    pub end: u32,
    /// The first input row that the items touch.
    pub first_row: u32,
    /// The end of the input rows that the items touch.
    pub end_row: u32,
}

impl Share {
    /// The items from `first` to `end`. `beside` items share each `rows` output rows.
    const fn new(g: &OneLaunch3dGeometry, [first, end]: [u32; 2], beside: u32, rows: u32) -> Self {
        let [first_row, end_row] = if first < end {
            [
                g.first_row(first / beside * rows),
                g.rows_before(end.div_ceil(beside) * rows),
            ]
        } else {
            [0, 0]
        };
        Self {
            first,
            end,
            first_row,
            end_row,
        }
    }
}

/// Words of shared memory of a kernel with `planes` words of each pixel.
#[must_use]
pub const fn shared_words(planes: u32) -> u32 {
    planes * PLANE_WORDS + STAGING_WORDS + COMMON_WORDS
}

/// Planes of the f16x2 kernel (`.._f16x2_f32`).
pub const SPLIT_PLANES: u32 = 3;

/// Planes of the other kernels.
pub const PAIR_PLANES: u32 = 2;
