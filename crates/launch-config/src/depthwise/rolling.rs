//! Depthwise convolutions of channels-last images with small square filters, without a norm.
//!
//! A thread computes a pair of channels of a *run* (some neighbouring outputs of a row) and walks down the
//! rows of a *segment*. An *item* is the work of the threads for all channels of a block: one run of one
//! segment of a sample. `kernels_gpu::fused::depthwise::rolling` describes the kernel.

use core::fmt;

use super::super::conv::ConvGeometry;
use super::super::{LaunchShape, Refusal};
use super::{DepthwiseGeometry, PARAMETER_ROWS};

/// The maximum number of threads of a block.
pub const MAX_BLOCK_THREADS: u32 = 256;

/// Outputs of a run.
pub const RUN: usize = 4;

/// Channels of a thread.
pub const PAIR: u32 = 2;

/// Pairs of 16-bit channels in a sector of memory.
const SECTOR_PAIRS: u32 = 8;

/// The maximum number of pairs of channels of a block: if they are a part of a pixel's channels, and if they
/// are all.
const MAX_PAIRS: u32 = 32;
const MAX_ALL_PAIRS: u32 = 64;

/// Elements between rows of shared memory. A row has a value for each channel of a block, and one pair as
/// padding. Without padding, all taps of a channel would be in the same bank.
pub const PITCH: u32 = (MAX_ALL_PAIRS + 1) * PAIR;

/// The cost of a block before its first row, in rows of the input.
const START_ROWS: u32 = 3;

/// Minimum resident blocks per multiprocessor (launch bounds), for filters of `r` rows and elements of
/// `element_bytes`.
#[must_use]
pub const fn min_blocks(r: usize, element_bytes: usize) -> u32 {
    match (r, element_bytes) {
        (3, 2) => 3,
        (3, _) | (_, 2) => 2,
        _ => 1,
    }
}

/// The kernel's by-value argument.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RollingGeometry {
    /// The convolution.
    pub conv: ConvGeometry,
    /// Pairs of channels of a block.
    pub block_pairs: u32,
    /// Blocks along the channels.
    pub channel_blocks: u32,
    /// Items of a block.
    pub block_items: u32,
    /// Runs in a row of the output.
    pub row_runs: u32,
    /// Output rows of a segment. The last segment of a sample has the remaining rows.
    pub segment_rows: u32,
    /// Segments of a sample.
    pub segments: u32,
    /// Items of all samples.
    pub items: u32,
    /// Always 0: padding, because kernel parameters must not have implicit padding.
    pub unused: u32,
}

impl RollingGeometry {
    /// Returns the geometry of a convolution on a device with this number of multiprocessors, which no result
    /// depends on.
    ///
    /// # Errors
    /// Any convolution other than a depthwise one of images without dilation, with 3x3 or 5x5 taps and stride
    /// 1 or 2, or with 7x7 taps and stride 1; an odd number of channels; tensors that are too large.
    pub fn new(conv: &ConvGeometry, multiprocessors: u32) -> Result<Self, Refusal> {
        DepthwiseGeometry::check(conv)?;
        let is_image = [conv.d, conv.z, conv.t] == [1; 3] && conv.pad_d == 0;
        let is_square = conv.r == conv.s && conv.stride_h == conv.stride_w;
        let is_small = matches!((conv.r, conv.stride_h), (3 | 5, 1 | 2) | (7, 1));
        if !(is_image && is_square && is_small && [conv.dilation_h, conv.dilation_w] == [1; 2]) {
            return Err(Refusal::Needs(
                "images, 3x3 or 5x5 taps and stride 1 or 2, or 7x7 taps and stride 1, and no dilation",
            ));
        }
        let channels = conv.output_channels();
        if !channels.is_multiple_of(PAIR) {
            return Err(Refusal::Needs("an even number of channels"));
        }
        if conv.n == 0 || channels == 0 || conv.output_pixels() == 0 {
            return Err(Refusal::Needs("an output with elements"));
        }
        let most_columns = conv.w.max(conv.q);
        if channels.checked_mul(most_columns).is_none() {
            return Err(Refusal::Needs("rows of less than 2^32 elements"));
        }
        let row_runs = conv.q.div_ceil(RUN as u32);
        // The maximum number of items for any length of segments.
        let rows = conv.n.checked_mul(conv.p.into());
        let items = rows.and_then(|rows| rows.checked_mul(row_runs.into()));
        if items.is_none_or(|items| items >= 1 << 31) {
            return Err(Refusal::Needs("less than 2^31 runs"));
        }
        let block_pairs = block_pairs(channels / PAIR);
        let geometry = Self {
            conv: *conv,
            block_pairs,
            channel_blocks: (channels / PAIR).div_ceil(block_pairs),
            block_items: MAX_BLOCK_THREADS / block_pairs,
            row_runs,
            segment_rows: conv.p,
            segments: 1,
            items: 0,
            unused: 0,
        };
        let resident = u64::from(multiprocessors * min_blocks(conv.r as usize, 2)).max(1);
        let geometry = geometry.in_segments_of(geometry.segment_rows(resident));
        match geometry.shape() {
            Some(_) => Ok(geometry),
            None => Err(Refusal::Needs("a grid of no more than 2^31 - 1 blocks")),
        }
    }

    /// Returns the same geometry with segments of at most `rows` rows, which is not 0.
    #[must_use]
    pub fn in_segments_of(self, rows: u32) -> Self {
        let segments = self.conv.p.div_ceil(rows);
        Self {
            segment_rows: rows,
            segments,
            // Less than 2^31, as checked in `new`.
            items: self.conv.n as u32 * segments * self.row_runs,
            ..self
        }
    }

    /// Returns the number of rows per segment with the least estimated time, on a device with `resident`
    /// resident blocks. A segment also reads the halo rows above and below it, which its windows share with
    /// neighbouring segments.
    fn segment_rows(&self, resident: u64) -> u32 {
        let conv = &self.conv;
        let time = |segments: u32| {
            let rows = conv.p.div_ceil(segments);
            let blocks = self.in_segments_of(rows).blocks();
            let row_time = START_ROWS + rows * conv.stride_h + conv.r - conv.stride_h;
            blocks.div_ceil(resident) * u64::from(row_time)
        };
        let fastest = (1..=conv.p).min_by_key(|&segments| time(segments));
        conv.p.div_ceil(fastest.unwrap_or(1))
    }

    /// Number of blocks for all items and channels.
    fn blocks(&self) -> u64 {
        u64::from(self.items.div_ceil(self.block_items)) * u64::from(self.channel_blocks)
    }

    /// Channels of a block.
    #[must_use]
    #[inline(always)]
    pub const fn block_channels(&self) -> u32 {
        self.block_pairs * PAIR
    }

    /// The kernel's launch; `None` if it exceeds a grid.
    #[must_use]
    pub fn shape(&self) -> Option<LaunchShape> {
        let rows = self.conv.taps() + PARAMETER_ROWS;
        let bytes = rows * PITCH * size_of::<f32>() as u32;
        let threads = self.block_items * self.block_pairs;
        Some(LaunchShape::linear(self.blocks(), threads)?.with_shared(bytes))
    }
}

/// Returns the number of pairs per block for pixels of `pairs` pairs: all of them, or else whole sectors, as
/// many as possible. The launch has at most 1/8 more threads, idle ones included, than the smallest one.
fn block_pairs(pairs: u32) -> u32 {
    let all = (pairs <= MAX_ALL_PAIRS).then_some(pairs);
    let sectors = (1..=MAX_PAIRS / SECTOR_PAIRS).rev();
    let numbers = all
        .into_iter()
        .chain(sectors.map(|sectors| sectors * SECTOR_PAIRS));
    // Number of threads for a thousand items, idle ones included.
    let threads = |of_block: u32| {
        let blocks = u64::from(pairs.div_ceil(of_block));
        blocks * u64::from(MAX_BLOCK_THREADS) * 1000 / u64::from(MAX_BLOCK_THREADS / of_block)
    };
    let fewest = numbers.clone().map(threads).min().unwrap_or(0);
    let mut few = numbers.filter(|&of_block| threads(of_block) <= fewest + fewest / 8);
    few.next().unwrap_or(MAX_PAIRS)
}

/// Describes the configuration in words.
impl fmt::Display for RollingGeometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, channels) = (self.segment_rows, self.block_channels());
        write!(
            f,
            "runs of {RUN} outputs down segments of {rows} rows, {channels} channels in a block"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KernelGeometry;
    use op_spec::ConvSpec;

    const MULTIPROCESSORS: u32 = 132;

    fn depthwise(
        n: usize,
        channels: usize,
        extent: usize,
        filter: usize,
        stride: usize,
    ) -> ConvGeometry {
        let spec = ConvSpec::default().groups(channels);
        let spec = spec.stride([1, stride, stride]);
        let spec = spec.padding([0, filter / 2, filter / 2]);
        let filters = [channels, 1, 1, filter, filter];
        let problem = spec.problem(&[n, channels, 1, extent, extent], &filters, None);
        let geometry = problem.expect("a sound problem").geometry();
        geometry.expect("a small problem")
    }

    fn chosen(conv: &ConvGeometry) -> RollingGeometry {
        RollingGeometry::new(conv, MULTIPROCESSORS).expect("a geometry")
    }

    #[test]
    fn items_cover_all_outputs() {
        for (n, channels, extent, filter, stride) in [
            (64, 16, 112, 3, 1),
            (64, 72, 56, 5, 2),
            (64, 480, 14, 3, 1),
            (32, 1152, 7, 5, 1),
            (32, 96, 56, 7, 1),
            (1, 2, 1, 3, 2),
        ] {
            let conv = depthwise(n, channels, extent, filter, stride);
            let g = chosen(&conv);
            assert!(g.channel_blocks * g.block_channels() >= channels as u32);
            assert!((g.channel_blocks - 1) * g.block_channels() < channels as u32);
            assert!(g.row_runs * RUN as u32 >= conv.q);
            assert!(g.segments * g.segment_rows >= conv.p);
            assert!((g.segments - 1) * g.segment_rows < conv.p);
            assert_eq!(g.items, n as u32 * g.segments * g.row_runs);
            let shape = g.shape().expect("a small grid");
            assert!(shape.block[0] <= MAX_BLOCK_THREADS);
            assert!(shape.grid[0] / g.channel_blocks * g.block_items >= g.items);
            assert!(shape.shared_bytes <= 48 << 10);
        }
    }

    #[test]
    fn blocks_have_few_idle_threads_and_whole_sectors() {
        for (channels, pairs) in [
            (16, 8),
            (64, 32),
            (72, 36),
            (120, 60),
            (144, 24),
            (240, 32),
            (480, 32),
            (960, 32),
            (1152, 32),
            (2, 1),
            (66, 33),
        ] {
            assert_eq!(block_pairs(channels / PAIR), pairs, "{channels} channels");
        }
    }

    #[test]
    fn segments_fill_the_device_and_share_few_rows() {
        // One sample has few blocks and therefore gets short segments.
        assert_eq!(chosen(&depthwise(1, 64, 56, 3, 1)).segment_rows, 1);
        // A large batch fills the device with whole images.
        assert_eq!(chosen(&depthwise(4096, 64, 7, 3, 1)).segment_rows, 7);
        for (n, channels, extent, filter) in [(64, 16, 112, 3), (64, 72, 56, 3), (64, 480, 14, 3)] {
            let g = chosen(&depthwise(n, channels, extent, filter, 1));
            let resident = u64::from(MULTIPROCESSORS * min_blocks(filter, 2));
            assert!(g.blocks() > resident / 2, "{g}");
        }
    }

    #[test]
    fn other_convolutions_are_refused() {
        let of = |conv: &ConvGeometry| RollingGeometry::new(conv, MULTIPROCESSORS);
        let conv = depthwise(2, 8, 9, 3, 1);
        assert!(of(&conv).is_ok());
        assert!(of(&depthwise(2, 8, 9, 5, 2)).is_ok());
        assert!(of(&depthwise(2, 8, 9, 7, 1)).is_ok());
        assert!(of(&depthwise(2, 8, 9, 7, 2)).is_err());
        assert!(of(&depthwise(2, 8, 9, 9, 1)).is_err());
        assert!(of(&depthwise(2, 8, 9, 3, 3)).is_err());
        assert!(of(&depthwise(2, 7, 9, 3, 1)).is_err());
        assert!(of(&depthwise(0, 8, 9, 3, 1)).is_err());
        for change in [
            |conv: &mut ConvGeometry| conv.s = 5,
            |conv: &mut ConvGeometry| conv.stride_w = 2,
            |conv: &mut ConvGeometry| conv.dilation_w = 2,
            |conv: &mut ConvGeometry| conv.t = 3,
            |conv: &mut ConvGeometry| conv.pad_d = 1,
            |conv: &mut ConvGeometry| (conv.d, conv.z) = (2, 2),
            |conv: &mut ConvGeometry| (conv.groups, conv.group_k) = (4, 2),
            |conv: &mut ConvGeometry| conv.n = 1 << 28,
            |conv: &mut ConvGeometry| (conv.groups, conv.w) = (1 << 20, 1 << 12),
        ] {
            let mut other = conv;
            change(&mut other);
            assert!(of(&other).is_err(), "{other:?}");
        }
    }
}
