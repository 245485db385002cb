//! `clamp(max_pool2d(group_norm(conv2d(x)) * scale))` in one launch, on warpgroup tensor cores (sm_90a).
//!
//! A cluster of blocks takes one sample after the other. The first half of its blocks computes the upper half
//! of the pooled rows, the second half the lower half and the rows that pooling drops. An *input tile* is
//! four rows of the input. An *output tile* is four rows of the convolution's output, which are one pooled
//! row.
//!
//! A cluster has two blocks for large batches. For small ones, [`OneLaunch2dGeometry::spread`] chooses
//! clusters with a block for each consumer warpgroup. Results are bit-identical.
//!
//! The shapes are those of KernelBench problem 85, with any batch, height and number of groups;
//! [`OneLaunch2dGeometry::new`] refuses all others.

mod config;

pub use config::{
    AFFINE_BYTES, MOMENTS_BYTES, OneLaunch2dConfig, OneLaunch2dLayout, RECEIVED_BYTES,
};

use crate::clusters::at_once;
use crate::elementwise::Bounds;
use crate::{AffineType, LaunchShape, Presence, Refusal};
use op_spec::Quantity;
use op_spec::{ClampProblem, ConvProblem, GroupNormProblem, PoolProblem};

/// Input channels: the eight values of K that one 16-byte operand holds.
pub const IN_CHANNELS: u32 = 8;

/// Output channels: the rows of a warpgroup's MMA.
pub const OUT_CHANNELS: u32 = 64;

/// Extent of the filter in both directions.
pub const FILTER: u32 = 3;

/// Elements of the filter of one output channel.
pub const FILTER_ELEMENTS: u32 = IN_CHANNELS * FILTER * FILTER;

/// Width of the input, and columns of an output row's MMAs. The last two columns are beyond the convolution's
/// output.
pub const WIDTH: u32 = 128;

/// Width of the convolution's output.
pub const CONV_WIDTH: u32 = WIDTH - FILTER + 1;

/// Extent and stride of the pooling.
pub const POOL: u32 = 4;

/// Width of the output.
pub const OUT_WIDTH: u32 = CONV_WIDTH / POOL;

/// Rows of an input tile, and of an output tile.
pub const TILE_ROWS: u32 = POOL;

/// Halves of a sample, the upper and the lower rows. Each has its own loads and its own scale.
pub const HALVES: u32 = 2;

/// The most pooled rows of a half: the larger half of the 31 that a height of 128 has. Shared memory keeps
/// all of them, and has no room for more beside the pipeline stages of the f16x2 format.
pub const HALF_POOL_ROWS: u32 = 16;

/// Threads of a warpgroup.
pub const WARPGROUP_THREADS: u32 = 128;

/// Pixels of a stride phase: every fourth column of a row, one of each pooling window.
pub const WINDOWS: u32 = WIDTH / POOL;

/// Bytes of a pixel's K-vector.
pub const PIXEL_BYTES: u32 = 16;

/// Bytes of a *stride phase*: the pixels of a row whose columns have the same remainder by [`POOL`].
pub const STRIDE_PHASE_BYTES: u32 = WINDOWS * PIXEL_BYTES;

/// Stride phases of a row in shared memory: the four, and copies of the first two, one window to the left.
/// The columns of each horizontal tap are then four consecutive stride phases.
pub const STRIDE_PHASES: u32 = POOL + FILTER - 1;

/// Bytes of a row of one part (the high or the low halves of the pixels).
pub const PART_BYTES: u32 = STRIDE_PHASES * STRIDE_PHASE_BYTES;

/// Words of a fragment: a thread's registers of the A operand of one MMA step.
pub const FRAGMENT_WORDS: u32 = 4;

/// Floats of the per-channel parameters: four arrays of one float for each channel.
pub const CHANNEL_FLOATS: u32 = 4 * OUT_CHANNELS;

/// The kernel's by-value argument.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OneLaunch2dGeometry {
    /// Samples.
    pub n: u32,
    /// Height of the input.
    pub height: u32,
    /// Channels of a group.
    pub group_channels: u32,
    /// Number added to the variance.
    pub eps: f32,
    /// Lower bound of the clamp, applied first.
    pub min: f32,
    /// Upper bound of the clamp, applied last.
    pub max: f32,
    /// The bias of the convolution.
    pub bias: Presence,
    /// Weight and bias of the norm.
    pub affine: Presence,
    /// The element type of weight and bias.
    pub affine_type: AffineType,
}

impl OneLaunch2dGeometry {
    /// The geometry of a problem: 3x3 filters from 8 to 64 channels at stride 1 without padding, dilation and
    /// groups, a width of 128, a height that gives 2 to 32 pooled rows, and pooling by 4. Images are volumes
    /// one voxel deep.
    ///
    /// # Errors
    /// The problem has another shape than the kernel computes.
    pub fn new(
        conv: &ConvProblem<3>,
        norm: &GroupNormProblem,
        pool: &PoolProblem,
        clamp: &ClampProblem,
    ) -> Result<Self, Refusal> {
        let [depth, height, width] = conv.input;
        let (filter, window) = (FILTER as usize, POOL as usize);
        let number = Quantity::scalar;
        Refusal::unless_is(number("depth"), depth, 1)?;
        Refusal::unless_is(number("in_channels"), conv.c, IN_CHANNELS as usize)?;
        Refusal::unless_is(number("out_channels"), conv.k, OUT_CHANNELS as usize)?;
        Refusal::unless_are("kernel_size", &conv.kernel_size, &[1, filter, filter])?;
        Refusal::unless_are("stride", &conv.stride, &[1; 3])?;
        Refusal::unless_are("padding", &conv.padding, &[0; 3])?;
        Refusal::unless_are("dilation", &conv.dilation, &[1; 3])?;
        Refusal::unless_is(number("groups"), conv.groups, 1)?;
        Refusal::unless_is(number("width"), width, WIDTH as usize)?;
        Refusal::unless_are("pool kernel_size", &pool.kernel_size[1..], &[window; 2])?;
        Refusal::unless_are("pool stride", &pool.stride[1..], &[window; 2])?;
        Refusal::unless_are("pool padding", &pool.padding[1..], &[0; 2])?;
        Refusal::unless_are("pool dilation", &pool.dilation[1..], &[1; 2])?;
        // `ceil_mode` gives other numbers of windows.
        let whole = [conv.output[1] / window, OUT_WIDTH as usize];
        Refusal::unless_are("pooled output", &pool.output[1..], &whole)?;
        let [_, rows, _] = pool.output;
        Refusal::unless_at_least(number("pooled rows"), rows, HALVES as usize)?;
        let most_rows = (HALVES * HALF_POOL_ROWS) as usize;
        Refusal::unless_at_most(number("pooled rows"), rows, most_rows)?;
        Refusal::unless_at_most(number("batch"), conv.n, u32::MAX as usize)?;
        let bounds = Bounds::of(clamp);
        Ok(Self {
            n: conv.n as u32,
            height: height as u32,
            group_channels: norm.channels_per_group() as u32,
            eps: norm.eps as f32,
            min: bounds.min,
            max: bounds.max,
            bias: Presence::of(conv.bias),
            affine: Presence::of(norm.weight),
            affine_type: AffineType::TENSOR,
        })
    }

    /// The launch on a device of `multiprocessors` multiprocessors. A multiprocessor has one block, and
    /// clusters process samples in turn.
    #[must_use]
    pub const fn launch_shape(
        &self,
        config: OneLaunch2dConfig,
        multiprocessors: u32,
    ) -> LaunchShape {
        let blocks = config.cluster_blocks();
        let clusters = if multiprocessors < blocks {
            1
        } else {
            multiprocessors / blocks
        };
        let clusters = if self.n < clusters { self.n } else { clusters };
        LaunchShape {
            grid: [clusters * blocks, 1, 1],
            block: [config.block_threads(), 1, 1],
            shared_bytes: config.layout().bytes,
            cluster_blocks: 1,
        }
    }

    /// Returns `config`, spread over more blocks if all samples still run at the same time on a device of
    /// `multiprocessors` multiprocessors. The choice depends on the batch size, but results are
    /// bit-identical.
    #[must_use]
    pub const fn spread(
        &self,
        config: OneLaunch2dConfig,
        multiprocessors: u32,
    ) -> OneLaunch2dConfig {
        let spread = config.spread();
        if self.n as u64 <= clusters_at_once(spread.cluster_blocks(), multiprocessors) {
            spread
        } else {
            config
        }
    }

    /// The launch that prepares the parameters: a thread for each output channel.
    #[must_use]
    pub const fn prepare_shape(&self) -> LaunchShape {
        LaunchShape {
            grid: [1, 1, 1],
            block: [OUT_CHANNELS, 1, 1],
            shared_bytes: 0,
            cluster_blocks: 1,
        }
    }

    /// The rows of a half of a sample.
    #[must_use]
    #[inline(always)]
    pub const fn half_rows(&self, half: u32) -> HalfRows {
        let conv_rows = self.height - (FILTER - 1);
        let pooled = conv_rows / POOL;
        let upper = pooled.div_ceil(HALVES);
        let (first, rows, pooled) = if half == 0 {
            (0, upper * POOL, upper)
        } else {
            (upper * POOL, conv_rows - upper * POOL, pooled - upper)
        };
        HalfRows {
            first,
            rows,
            pooled,
            input_rows: rows + (FILTER - 1),
            output_tiles: rows.div_ceil(TILE_ROWS),
            input_tiles: (rows + (FILTER - 1)).div_ceil(TILE_ROWS),
        }
    }
}

/// The inverse safety margin: one in `MARGIN` of the concurrent clusters of the measured device is not
/// counted. On a device that runs fewer, one sample too many would double the time, which is more than
/// spreading gains.
const MARGIN: u64 = 15;

/// Returns the number of clusters of `blocks` blocks that run at the same time, with the margin.
const fn clusters_at_once(blocks: u32, multiprocessors: u32) -> u64 {
    let counted = at_once(blocks, multiprocessors);
    counted - counted / MARGIN
}

/// The rows of one half of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HalfRows {
    /// First row, of the input as of the convolution's output.
    pub first: u32,
    /// Rows of the convolution's output.
    pub rows: u32,
    /// Rows of the pooled image. The last output tile may have none.
    pub pooled: u32,
    /// Rows of the input.
    pub input_rows: u32,
    /// Output tiles; the last one may have fewer rows.
    pub output_tiles: u32,
    /// Input tiles: one for each output tile, or one more.
    pub input_tiles: u32,
}

impl HalfRows {
    /// Rows of one of `consumers` warpgroups, which process output tiles in turn.
    #[must_use]
    #[inline(always)]
    pub const fn rows_of(&self, warpgroup: u32, consumers: u32) -> u32 {
        // All output tiles but the last are full.
        let output_tiles = turns(self.output_tiles, warpgroup, consumers);
        let full = turns(self.output_tiles - 1, warpgroup, consumers);
        full * TILE_ROWS + (output_tiles - full) * (self.rows - (self.output_tiles - 1) * TILE_ROWS)
    }
}

/// Returns the number of items of `taker` if `takers` process `items` in turn.
#[must_use]
#[inline(always)]
pub const fn turns(items: u32, taker: u32, takers: u32) -> u32 {
    (items + takers - 1 - taker) / takers
}

#[cfg(test)]
mod tests {
    use super::*;
    use op_spec::{ClampSpec, Conv2dSpec, GroupNormSpec, MaxPool2dSpec};

    /// The geometry of the benchmark problem on this input.
    fn geometry(input: [usize; 4]) -> Option<OneLaunch2dGeometry> {
        pooled_by(input, MaxPool2dSpec::new(4))
    }

    /// Returns the geometry with another pool.
    fn pooled_by(input: [usize; 4], pool: MaxPool2dSpec) -> Option<OneLaunch2dGeometry> {
        of_layers(input, Conv2dSpec::default(), pool)
    }

    /// Returns the geometry with another convolution and another pool.
    fn of_layers(
        input: [usize; 4],
        conv: Conv2dSpec,
        pool: MaxPool2dSpec,
    ) -> Option<OneLaunch2dGeometry> {
        let channels = [64];
        let filters = [64, 8 / conv.groups, 3, 3];
        let conv = conv.problem(&input, &filters, Some(&channels));
        let conv = conv.unwrap();
        let convolved = conv.output_shape();
        let norm = GroupNormSpec::new(16);
        let norm = norm.problem(&convolved, Some(&channels), Some(&channels));
        let pool = pool.problem(&convolved).unwrap();
        let clamp = ClampSpec::new(0.0, 1.0).problem(&pool.output_shape());
        OneLaunch2dGeometry::new(
            &conv.as_conv3d(),
            &norm.unwrap(),
            &pool.pool,
            &clamp.unwrap(),
        )
        .ok()
    }

    #[test]
    fn the_kernelbench_problem_fills_an_h200() {
        let g = geometry([128, 8, 128, 128]).unwrap();
        let shape = g.launch_shape(OneLaunch2dConfig::F16X2, 132);
        assert_eq!((shape.grid, shape.block), ([132, 1, 1], [384, 1, 1]));
    }

    #[test]
    fn windows_that_are_cut_are_not_taken() {
        let ceil = MaxPool2dSpec::new(4).ceil_mode(true);
        assert!(geometry([1, 8, 126, 128]).is_some());
        assert!(pooled_by([1, 8, 126, 128], ceil).is_none());
    }

    #[test]
    fn small_batches_are_spread_while_all_samples_run_at_once() {
        // Multiprocessors; the largest batch that is spread, in the two f32 formats and in f16.
        let table = [
            (132, 28, 16), // H200, H100 SXM
            (114, 24, 14), // H100 PCIe
            (16, 3, 2),    // the emulator
            (7, 1, 0),
            (1, 0, 0),
        ];
        for (multiprocessors, of_f32, of_stored) in table {
            let configs = [
                (OneLaunch2dConfig::F16X2, of_f32),
                (OneLaunch2dConfig::SCALED_F16, of_f32),
                (OneLaunch2dConfig::STORED, of_stored),
            ];
            for (config, largest) in configs {
                for n in [1, largest, largest + 1, 1000] {
                    let g = geometry([n as usize, 8, 128, 128]).unwrap();
                    let wanted = if n <= largest {
                        config.spread()
                    } else {
                        config
                    };
                    assert_eq!(g.spread(config, multiprocessors), wanted, "{n} {config:?}");
                    let blocks = g.launch_shape(wanted, multiprocessors).grid[0];
                    if n <= largest {
                        assert_eq!(blocks, n * wanted.cluster_blocks());
                        assert!(blocks <= multiprocessors);
                    }
                }
            }
        }
    }

    #[test]
    fn warpgroups_share_all_rows() {
        for height in 10..=133 {
            let Some(g) = geometry([1, 8, height, 128]) else {
                continue;
            };
            for half in [g.half_rows(0), g.half_rows(1)] {
                for consumers in 1..=3 {
                    let mut of = [0; 3];
                    for row in 0..half.rows {
                        of[(row / TILE_ROWS % consumers) as usize] += 1;
                    }
                    for warpgroup in 0..consumers {
                        let got = half.rows_of(warpgroup, consumers);
                        assert_eq!(got, of[warpgroup as usize], "height {height}");
                    }
                }
            }
        }
    }

    #[test]
    fn halves_cover_all_rows_once() {
        for height in 10..=133 {
            let Some(g) = geometry([1, 8, height, 128]) else {
                continue;
            };
            let [upper, lower] = [g.half_rows(0), g.half_rows(1)];
            assert_eq!(upper.first + upper.rows, lower.first);
            assert_eq!(lower.first + lower.rows, height as u32 - 2);
            assert_eq!(upper.pooled + lower.pooled, (height as u32 - 2) / 4);
            for half in [upper, lower] {
                assert!(half.pooled <= HALF_POOL_ROWS && half.pooled <= half.output_tiles);
                assert!(
                    half.output_tiles <= half.input_tiles
                        && half.input_tiles <= half.output_tiles + 1
                );
            }
        }
    }

    #[test]
    fn other_shapes_are_left_to_other_kernels() {
        assert!(geometry([1, 8, 128, 124]).is_none());
        assert!(geometry([1, 8, 9, 128]).is_none());
        assert!(geometry([1, 8, 135, 128]).is_none());
        assert!(geometry([0, 8, 128, 128]).is_some());
        // All but the last have as many pooled pixels as the kernel, or one row and one column more.
        let of = |conv| of_layers([1, 8, 128, 128], conv, MaxPool2dSpec::new(4));
        let plain = Conv2dSpec::default();
        let (dilation, padding) = ([2, 2], [1, 1]);
        assert!(of(plain).is_some());
        assert!(of(plain.dilation(dilation)).is_none());
        assert!(of(plain.padding(padding)).is_none());
        assert!(of(plain.groups(2)).is_none());
        let stride = [1, 2];
        assert!(of(plain.stride(stride)).is_none());
    }
}
