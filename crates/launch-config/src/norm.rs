//! `group_norm` and `instance_norm`: statistics of rows, then an elementwise pass.
//!
//! The elements that share a mean are a *row*: the `channels / groups` channels of one group of one sample,
//! which are contiguous in memory. Instance norm has a row per channel. So both are one problem: contiguous
//! rows of equal length.
//!
//! Rows differ wildly in length, and any length must fill the GPU:
//! - up to [`WARP_ROW_ELEMENTS`], one warp takes a row, eight rows to a block;
//! - beyond, one block takes a row, and a row longer than [`SPLIT_ELEMENTS`] is split over several blocks.
//!   The number of splits depends on the row's length alone, never on the batch, so a sample's result is the
//!   same bits in any batch.
//!
//! Each split gives `(mean, M2)`, where M2 is the sum of squared deviations from that mean. The normalising
//! pass combines the splits of a row in index order (Chan's formula).

use super::elementwise::BLOCK_THREADS;
use super::reciprocal::Reciprocal;
use super::{AffineType, LaunchShape, Presence, VECTOR_ELEMENTS, WARP_THREADS};
use crate::mode::mode;

/// Threads of a statistics block.
pub const STATS_THREADS: u32 = 256;

/// Rows up to this length are reduced by one warp.
pub const WARP_ROW_ELEMENTS: u64 = 1024;

/// Rows that a block of warps reduces.
pub const WARP_ROWS_PER_BLOCK: u32 = STATS_THREADS / WARP_THREADS;

/// The fewest elements of a split. Lengths of splits are multiples of it.
pub const SPLIT_ELEMENTS: u64 = 8192;

/// The most splits of a row. Longer rows have longer splits.
pub const MAX_SPLITS: u64 = 256;

/// Numbers in a partial result: mean and M2.
pub const PARTIAL_ELEMENTS: usize = 2;

/// Numbers in a partial result with a count: count, mean, M2, and one for alignment.
pub const COUNTED_ELEMENTS: usize = 4;

/// Parameters that a block keeps for a plane: mean, factor, bias, and scale (or slope).
pub const PLANE_ELEMENTS: usize = 4;

/// Bytes of a vector access of the normalising pass.
pub const APPLY_VECTOR_BYTES: u32 = 16;

/// Values of a thread to which the normalising pass applies functions at a time: a vector of 16-bit elements,
/// or two of f32.
pub const APPLY_VALUES: usize = 8;

/// The most rounds of a block of the normalising pass. In a round each thread processes one vector.
pub const MAX_ROUNDS: u64 = 8;

/// The most planes of a block of the normalising pass: their parameters fit 16 KiB of shared memory.
const MAX_PLANES: u64 = 1024;

/// Blocks that fill a large GPU; with more elements, blocks take more of them each.
pub(super) const ENOUGH_BLOCKS: u64 = 1024;

/// The same for normalising passes, whose blocks have a longer prologue: the blocks that an H200 runs at a
/// time.
const ENOUGH_APPLY_BLOCKS: u64 = 512;

/// The most moments of a row that a warp combines: two for each lane.
pub const COMBINED_BY_WARP: u32 = 2 * WARP_THREADS;

/// The most rows of a block of the normalising pass whose moments it combines itself: two for each of its
/// warps. More rows take longer than a launch that combines them.
const MAX_COMBINED_ROWS: u64 = 16;

/// The same for rows of more moments than a warp has lanes: one for each warp. No other number was measured.
const MAX_LONG_ROWS: u64 = MAX_COMBINED_ROWS / 2;

/// Planes longer than this count as this long: no block touches more than two of them.
pub const FAR: u32 = 1 << 30;

/// Threads of a block that keeps its row in shared memory.
pub const RESIDENT_THREADS: u32 = 1024;

/// Bytes of that block's static arrays: 16 for each of its warps, for reductions.
pub const RESIDENT_STATIC_BYTES: u32 = RESIDENT_THREADS / WARP_THREADS * 16;

/// Shared memory for that block's row, of which it keeps as much as fits: all of a Hopper multiprocessor's,
/// less the static arrays.
pub const RESIDENT_BYTES: u32 = 232_448 - RESIDENT_STATIC_BYTES;

/// The fewest rows for which keeping rows in shared memory pays: one for every multiprocessor of a large GPU.
/// A plane must have a vector for every thread.
const RESIDENT_MIN_ROWS: u64 = 128;
const RESIDENT_MIN_SPATIAL: u64 = RESIDENT_THREADS as u64 * VECTOR_ELEMENTS as u64;

mode! {
    /// What a partial result of a row's statistics holds.
    pub Partials {
        /// Mean and M2 of a split, whose length follows from the geometry.
        UNCOUNTED = 0,
        /// Count, mean and M2, so that splits may differ in length.
        COUNTED = 1,
    }
}

impl Partials {
    /// Numbers of one partial result.
    #[must_use]
    pub const fn elements(self) -> usize {
        match self {
            Self::UNCOUNTED => PARTIAL_ELEMENTS,
            _ => COUNTED_ELEMENTS,
        }
    }

    /// Whether partial results have counts.
    #[must_use]
    #[inline(always)]
    pub const fn are_counted(self) -> bool {
        self.0 != Self::UNCOUNTED.0
    }
}

/// A normalisation over rows of equal length.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NormGeometry {
    /// Rows: samples times groups.
    pub rows: u64,
    /// Elements of a row.
    pub row_elements: u64,
    /// Elements of every split of a row but the last.
    pub split_elements: u64,
    /// Elements of one plane.
    pub spatial: u64,
    /// Channels of a sample.
    pub channels: u32,
    /// Channels of a row.
    pub row_channels: u32,
    /// Splits of a row.
    pub splits: u32,
    /// Added to the variance.
    pub eps: f32,
    /// The weight of each channel.
    pub weight: Presence,
    /// The bias of each channel.
    pub bias: Presence,
    /// What a partial result holds.
    pub partials: Partials,
    /// The element type of weight and bias.
    pub affine_type: AffineType,
}

impl NormGeometry {
    /// A norm of an `(n, channels, spatial)` tensor in `groups`, which divides `channels`.
    pub const fn new(n: u64, channels: u32, groups: u32, spatial: u64, eps: f32) -> Self {
        let row_channels = channels / groups;
        let row_elements = row_channels as u64 * spatial;
        // 0 channels divide into any number of groups, and have no rows. Samples times groups may overflow
        // then.
        let sample_rows = if row_channels == 0 { 0 } else { groups };
        // Empty rows still need a split length other than 0, which is a divisor.
        let split_elements = match row_elements.div_ceil(MAX_SPLITS) {
            0 => SPLIT_ELEMENTS,
            elements => elements.next_multiple_of(SPLIT_ELEMENTS),
        };
        Self {
            rows: n * sample_rows as u64,
            row_elements,
            split_elements,
            spatial,
            channels,
            row_channels,
            splits: row_elements.div_ceil(split_elements) as u32,
            eps,
            weight: Presence::ABSENT,
            bias: Presence::ABSENT,
            partials: Partials::UNCOUNTED,
            affine_type: AffineType::TENSOR,
        }
    }

    /// The same norm with or without a weight and a bias.
    pub const fn affine(self, weight: bool, bias: bool) -> Self {
        Self {
            weight: Presence::of(weight),
            bias: Presence::of(bias),
            ..self
        }
    }

    /// The same norm with weight and bias of another type.
    pub const fn with_affine_type(self, affine_type: AffineType) -> Self {
        Self {
            affine_type,
            ..self
        }
    }

    /// The same norm with counted statistics from another kernel, in `splits` splits of a row.
    pub const fn counted(self, splits: u32) -> Self {
        Self {
            splits,
            partials: Partials::COUNTED,
            ..self
        }
    }

    /// The same norm with one partial result for each row, which is that of the whole batch.
    pub const fn of_batch(self) -> Self {
        Self {
            splits: 1,
            split_elements: self.row_elements,
            partials: Partials::UNCOUNTED,
            ..self
        }
    }

    /// Elements of the tensor.
    pub const fn elements(&self) -> u64 {
        self.rows * self.row_elements
    }

    /// f32 elements of the buffer of partial results, `[rows][splits][mean, M2]`, or with counts.
    pub const fn partial_elements(&self) -> u64 {
        self.rows * self.splits as u64 * self.partials.elements() as u64
    }

    /// Launch of the statistics kernel.
    pub const fn stats_shape(&self) -> Option<LaunchShape> {
        let blocks = if self.row_elements <= WARP_ROW_ELEMENTS {
            self.rows.div_ceil(WARP_ROWS_PER_BLOCK as u64)
        } else {
            self.rows * self.splits as u64
        };
        LaunchShape::linear(blocks, STATS_THREADS)
    }

    /// The normalising pass over the tensor, of elements of `element_bytes`.
    pub const fn apply(&self, element_bytes: u32) -> ApplyGeometry {
        ApplyGeometry::new(*self, self.spatial, element_bytes)
    }

    /// The normalising pass over a pooled tensor of the same rows, whose planes have `spatial` elements.
    pub const fn pooled(&self, spatial: u64, element_bytes: u32) -> ApplyGeometry {
        ApplyGeometry::new(*self, spatial, element_bytes)
    }

    /// Launch of the kernel that keeps its row, of elements of `element_bytes`, in shared memory between
    /// statistics and normalisation; `None` where that does not pay.
    pub const fn resident_shape(&self, element_bytes: u32) -> Option<LaunchShape> {
        let row_bytes = self.row_elements.saturating_mul(element_bytes as u64);
        if self.rows < RESIDENT_MIN_ROWS
            || self.spatial < RESIDENT_MIN_SPATIAL
            || row_bytes > 2 * RESIDENT_BYTES as u64
        {
            return None;
        }
        self.resident_launch(element_bytes)
    }

    /// The same launch, whether it pays or not. A row may be longer than the shared memory; the
    /// rest of it is read twice.
    pub const fn resident_launch(&self, element_bytes: u32) -> Option<LaunchShape> {
        // A row need not start on a vector, so it may touch one vector more than it fills.
        let elements = self.row_elements + VECTOR_ELEMENTS as u64 - 1;
        let bytes = elements.saturating_mul(element_bytes as u64);
        let kept = if bytes < RESIDENT_BYTES as u64 {
            bytes as u32
        } else {
            RESIDENT_BYTES
        };
        match LaunchShape::linear(self.rows, RESIDENT_THREADS) {
            Some(shape) => Some(shape.with_shared(kept)),
            None => None,
        }
    }

    /// Shared memory of a block of `span` consecutive elements: the parameters of all planes, of `spatial`
    /// elements each, that it can touch, and the statistics of their rows if these are in splits.
    pub const fn staged_bytes(&self, spatial: u64, span: u64) -> u32 {
        let planes = touched(span, spatial);
        let rows = if self.splits == 1 {
            0
        } else {
            touched(planes, self.row_channels as u64)
        };
        let numbers = planes * PLANE_ELEMENTS as u64 + rows * PARTIAL_ELEMENTS as u64;
        numbers as u32 * size_of::<f32>() as u32
    }
}

/// The most contiguous segments of `length` that `span` consecutive elements touch, wherever they start.
const fn touched(span: u64, length: u64) -> u64 {
    if span == 0 || length == 0 {
        return 0;
    }
    (span + length - 2) / length + 1
}

/// The normalising pass: elementwise, over a tensor with the rows and channels of a norm. The tensor may have
/// been pooled since the statistics were taken, so planes may be smaller than the norm's.
///
/// A block has consecutive elements, in whole rounds of all its threads. Few elements are spread over many
/// blocks. With many elements, a block takes more of them, because each block prepares the parameters of its
/// planes. Results do not depend on the elements of a block.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ApplyGeometry {
    /// The norm.
    pub norm: NormGeometry,
    /// Elements of the tensor.
    pub elements: u64,
    /// Elements of one plane.
    pub spatial: u64,
    /// Reciprocal of `spatial`, or of [`FAR`] where planes are longer, which gives a block the same results.
    pub near: Reciprocal,
    /// Elements of a block.
    pub block_elements: u32,
    /// Only values up to this are multiplied after the norm: infinity for scale, 0 for the slopes of a
    /// prelu.
    pub multiplied_to: f32,
    /// Stride of the scales or slopes of neighbouring channels: 1, or 0 where all channels share one.
    pub factor_step: u32,
}

impl ApplyGeometry {
    /// The pass over planes of `spatial` elements of `element_bytes`.
    const fn new(norm: NormGeometry, spatial: u64, element_bytes: u32) -> Self {
        let elements = norm.rows * norm.row_channels as u64 * spatial;
        let round = (BLOCK_THREADS * APPLY_VECTOR_BYTES / element_bytes) as u64;
        let rounds = elements.div_ceil(round * ENOUGH_APPLY_BLOCKS);
        // Loads overlap four rounds at a time.
        let rounds = if rounds > 4 {
            rounds.next_multiple_of(4)
        } else {
            rounds
        };
        let most = MAX_PLANES.saturating_mul(spatial) / round;
        let most = if most < MAX_ROUNDS { most } else { MAX_ROUNDS };
        let rounds = if rounds < most { rounds } else { most };
        // Where a round would have too many short planes, some threads are idle.
        let block_elements = if rounds == 0 && elements > 0 {
            MAX_PLANES * spatial
        } else {
            rounds * round
        };
        let near = if spatial < FAR as u64 {
            spatial as u32
        } else {
            FAR
        };
        Self {
            norm,
            elements,
            spatial,
            near: Reciprocal::of(near),
            block_elements: block_elements as u32,
            multiplied_to: f32::INFINITY,
            factor_step: 1,
        }
    }

    /// The same pass with a prelu of `num_parameters` slopes after the norm, in the place of a scale.
    pub const fn with_slopes(self, num_parameters: usize) -> Self {
        Self {
            multiplied_to: 0.0,
            factor_step: (num_parameters != 1) as u32,
            ..self
        }
    }

    /// The most moments of a row that the blocks of this pass combine themselves. A warp combines a row, with
    /// one or two moments for each lane. That takes less time than a launch and gives the same bits, because
    /// the order is the same.
    pub const fn combined_moments(&self) -> u64 {
        let planes = touched(self.block_elements as u64, self.spatial);
        let rows = touched(planes, self.norm.row_channels as u64);
        if rows <= MAX_LONG_ROWS {
            COMBINED_BY_WARP as u64
        } else if rows <= MAX_COMBINED_ROWS {
            WARP_THREADS as u64
        } else {
            1
        }
    }

    /// Launch of the kernel.
    pub const fn shape(&self) -> Option<LaunchShape> {
        if self.elements == 0 {
            return LaunchShape::linear(0, BLOCK_THREADS);
        }
        let blocks = self.elements.div_ceil(self.block_elements as u64);
        match LaunchShape::linear(blocks, BLOCK_THREADS) {
            Some(shape) => {
                let bytes = self
                    .norm
                    .staged_bytes(self.spatial, self.block_elements as u64);
                Some(shape.with_shared(bytes))
            }
            None => None,
        }
    }
}
