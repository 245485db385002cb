//! `group_norm` and `instance_norm`: statistics of rows, then an elementwise pass.
//!
//! A *row* is the set of elements that share a mean: the `channels / groups` channels of one group of one
//! sample, which are contiguous in memory. An instance norm has one row per channel. Both norms are thus the
//! same problem: contiguous rows of equal length.
//!
//! The length of rows varies widely, and any length must fill the GPU:
//! - Up to [`WARP_ROW_ELEMENTS`], a warp reduces a row, and a block eight rows.
//! - Beyond, a block reduces a row. A row longer than [`SPLIT_ELEMENTS`] is split over several blocks. The
//!   number of splits depends on the row's length alone, never on the batch size, so a sample's result is
//!   bit-identical in any batch.
//!
//! Each split gives `(mean, M2)`; M2 is the sum of squared deviations from that mean. The normalising pass
//! combines the splits of a row in index order (Chan's formula).

use super::elementwise::BLOCK_THREADS;
use super::reciprocal::Reciprocal;
use super::{AffineType, LaunchShape, Presence, VECTOR_ELEMENTS, WARP_THREADS};
use crate::mode::mode;

/// Threads of a statistics block.
pub const STATS_THREADS: u32 = 256;

/// Maximum length of rows that one warp reduces.
pub const WARP_ROW_ELEMENTS: u64 = 1024;

/// Rows of a block whose warps reduce one row each.
pub const WARP_ROWS_PER_BLOCK: u32 = STATS_THREADS / WARP_THREADS;

/// The minimum number of elements of a split. The lengths of splits are multiples of it.
pub const SPLIT_ELEMENTS: u64 = 8192;

/// The maximum number of splits of a row. Longer rows have longer splits.
pub const MAX_SPLITS: u64 = 256;

/// f32 numbers of a partial result: mean and M2.
pub const PARTIAL_ELEMENTS: usize = 2;

/// f32 numbers of a partial result with a count: count, mean, M2, and one for alignment.
pub const COUNTED_ELEMENTS: usize = 4;

/// Parameters of a plane in shared memory: mean, factor, bias, and scale (or slope).
pub const PLANE_ELEMENTS: usize = 4;

/// Bytes of a vector access of the normalising pass.
pub const APPLY_VECTOR_BYTES: u32 = 16;

/// Values of a thread to which the normalising pass applies functions at a time: one vector of 16-bit
/// elements, or two of f32.
pub const APPLY_VALUES: usize = 8;

/// The maximum number of rounds of a block of the normalising pass. In a round, each thread processes one
/// vector.
pub const MAX_ROUNDS: u64 = 8;

/// The maximum number of planes of a block of the normalising pass: their parameters fit 16 KiB of shared
/// memory.
const MAX_PLANES: u64 = 1024;

/// Number of blocks that fills a large GPU. With more elements, each block gets more of them.
pub(super) const ENOUGH_BLOCKS: u64 = 1024;

/// The same number for normalising passes, whose blocks have a longer prologue: an H200 runs this many blocks
/// at the same time.
const ENOUGH_APPLY_BLOCKS: u64 = 512;

/// The maximum number of moments of a row that a warp combines: two per lane.
pub const COMBINED_BY_WARP: u32 = 2 * WARP_THREADS;

/// The maximum number of rows of a block of the normalising pass whose moments the block itself combines: two
/// per warp. For more rows, a separate launch is faster.
const MAX_COMBINED_ROWS: u64 = 16;

/// The same maximum for rows with more moments than a warp has lanes: one row per warp. No other number was
/// measured.
const MAX_LONG_ROWS: u64 = MAX_COMBINED_ROWS / 2;

/// Planes longer than this count as this long, because no block touches more than two of them.
pub const FAR: u32 = 1 << 30;

/// Threads of a block of the kernel that keeps its row in shared memory.
pub const RESIDENT_THREADS: u32 = 1024;

/// Bytes of static arrays of that kernel's blocks: 16 per warp, for reductions.
pub const RESIDENT_STATIC_BYTES: u32 = RESIDENT_THREADS / WARP_THREADS * 16;

/// Shared memory for the row of that kernel's blocks, which keep as much of it as fits: the capacity of a
/// Hopper multiprocessor, minus the static arrays.
pub const RESIDENT_BYTES: u32 = 232_448 - RESIDENT_STATIC_BYTES;

/// The minimum number of rows for that kernel: about one per multiprocessor of a large GPU. A plane must have
/// at least one vector per thread.
const RESIDENT_MIN_ROWS: u64 = 128;
const RESIDENT_MIN_SPATIAL: u64 = RESIDENT_THREADS as u64 * VECTOR_ELEMENTS as u64;

mode! {
    /// The content of a partial result of a row's statistics.
    pub Partials {
        /// Mean and M2 of a split. The split's length follows from the geometry.
        UNCOUNTED = 0,
        /// Count, mean and M2; splits may differ in length.
        COUNTED = 1,
    }
}

impl Partials {
    /// Number of f32 values of a partial result.
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
    /// Number added to the variance.
    pub eps: f32,
    /// The weight of each channel.
    pub weight: Presence,
    /// The bias of each channel.
    pub bias: Presence,
    /// The content of a partial result.
    pub partials: Partials,
    /// The element type of weight and bias.
    pub affine_type: AffineType,
}

impl NormGeometry {
    /// Returns the norm of an `(n, channels, spatial)` tensor in `groups` groups, which divides `channels`.
    pub const fn new(n: u64, channels: u32, groups: u32, spatial: u64, eps: f32) -> Self {
        let row_channels = channels / groups;
        let row_elements = row_channels as u64 * spatial;
        // 0 channels are divisible into any number of groups, and have no rows. The product of samples and
        // groups may overflow in this case.
        let sample_rows = if row_channels == 0 { 0 } else { groups };
        // Empty rows still need a nonzero split length, because it is a divisor.
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

    /// Returns the same norm with or without a weight and a bias.
    pub const fn affine(self, weight: bool, bias: bool) -> Self {
        Self {
            weight: Presence::of(weight),
            bias: Presence::of(bias),
            ..self
        }
    }

    /// Returns the same norm with another type of weight and bias.
    pub const fn with_affine_type(self, affine_type: AffineType) -> Self {
        Self {
            affine_type,
            ..self
        }
    }

    /// Returns the same norm for counted statistics of another kernel, with `splits` splits per row.
    pub const fn counted(self, splits: u32) -> Self {
        Self {
            splits,
            partials: Partials::COUNTED,
            ..self
        }
    }

    /// Returns the same norm with one partial result per row, the one of the whole batch.
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

    /// f32 elements of the buffer of partial results, `[rows][splits][mean, M2]`, or the same with counts.
    pub const fn partial_elements(&self) -> u64 {
        self.rows * self.splits as u64 * self.partials.elements() as u64
    }

    /// The statistics kernel's launch.
    pub const fn stats_shape(&self) -> Option<LaunchShape> {
        let blocks = if self.row_elements <= WARP_ROW_ELEMENTS {
            self.rows.div_ceil(WARP_ROWS_PER_BLOCK as u64)
        } else {
            self.rows * self.splits as u64
        };
        LaunchShape::linear(blocks, STATS_THREADS)
    }

    /// Returns the normalising pass over the tensor, with elements of `element_bytes`.
    pub const fn apply(&self, element_bytes: u32) -> ApplyGeometry {
        ApplyGeometry::new(*self, self.spatial, element_bytes)
    }

    /// Returns the normalising pass over a pooled tensor of the same rows, whose planes have `spatial`
    /// elements.
    pub const fn pooled(&self, spatial: u64, element_bytes: u32) -> ApplyGeometry {
        ApplyGeometry::new(*self, spatial, element_bytes)
    }

    /// The launch of the kernel that keeps its row, with elements of `element_bytes`, in shared memory
    /// between statistics and normalisation; `None` if the kernel would be slower.
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

    /// The same launch without regard to speed. A row may be longer than the shared memory; the kernel then
    /// reads the rest of it twice.
    pub const fn resident_launch(&self, element_bytes: u32) -> Option<LaunchShape> {
        // A row need not start on a vector, and may therefore touch one vector more than its length implies.
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

    /// Shared memory of a block of `span` consecutive elements, in bytes. It holds the parameters of all
    /// planes, of `spatial` elements each, that the block can touch, and with several splits the statistics
    /// of their rows.
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

/// Returns the maximum number of contiguous segments of `length` that `span` consecutive elements can touch.
const fn touched(span: u64, length: u64) -> u64 {
    if span == 0 || length == 0 {
        return 0;
    }
    (span + length - 2) / length + 1
}

/// The normalising pass: elementwise, over a tensor with the rows and channels of a norm. The tensor may have
/// been pooled after the statistics, and its planes may therefore be smaller than the norm's.
///
/// A block processes consecutive elements, in whole rounds of all its threads. Few elements are distributed
/// over many blocks. With many elements, each block processes more of them, because a block has to prepare
/// the parameters of its planes. Results do not depend on the division into blocks.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ApplyGeometry {
    /// The norm.
    pub norm: NormGeometry,
    /// Elements of the tensor.
    pub elements: u64,
    /// Elements of one plane.
    pub spatial: u64,
    /// Reciprocal of `spatial`, or of [`FAR`] for longer planes, which gives a block the same results.
    pub near: Reciprocal,
    /// Elements of a block.
    pub block_elements: u32,
    /// Bound of the values that are multiplied after the norm, which are at most this: infinity for a scale,
    /// 0 for the slopes of a PReLU.
    pub multiplied_to: f32,
    /// Stride between the scales or slopes of neighbouring channels: 1, or 0 if all channels share one.
    pub factor_step: u32,
}

impl ApplyGeometry {
    /// Returns the pass over planes of `spatial` elements of `element_bytes`.
    const fn new(norm: NormGeometry, spatial: u64, element_bytes: u32) -> Self {
        let elements = norm.rows * norm.row_channels as u64 * spatial;
        let round = (BLOCK_THREADS * APPLY_VECTOR_BYTES / element_bytes) as u64;
        let rounds = elements.div_ceil(round * ENOUGH_APPLY_BLOCKS);
        // The loads of four rounds overlap.
        let rounds = if rounds > 4 {
            rounds.next_multiple_of(4)
        } else {
            rounds
        };
        let most = MAX_PLANES.saturating_mul(spatial) / round;
        let most = if most < MAX_ROUNDS { most } else { MAX_ROUNDS };
        let rounds = if rounds < most { rounds } else { most };
        // If a round has too many short planes, a block processes fewer elements, and some threads are idle.
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

    /// Returns the same pass with a PReLU of `num_parameters` slopes after the norm, instead of a scale.
    pub const fn with_slopes(self, num_parameters: usize) -> Self {
        Self {
            multiplied_to: 0.0,
            factor_step: (num_parameters != 1) as u32,
            ..self
        }
    }

    /// The maximum number of moments per row that the blocks of this pass combine themselves. A warp combines
    /// a row, with one or two moments per lane. That is faster than a separate launch, and bit-identical
    /// because the order is the same.
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

    /// The kernel's launch.
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
