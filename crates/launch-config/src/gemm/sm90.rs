//! Convolutions from NHWC to NHWC as matrix products (GEMM) on Hopper: the windows of all samples are rows of
//! one operand, the filters rows of the other.
//!
//! A block has two consumer warpgroups, a writer for each of them, and two producers. Tensor maps load stages
//! of both operands, 128 bytes of K at a time (64 values of 16 bits, or 32 of tf32), and store tiles of the
//! output. K runs over the channels of a tap first, then over the taps. A stage has 128 bytes of channels of
//! one tap or, with few channels, 64 bytes of two taps or 32 of four. A sum has the same order in every tile,
//! so the choice of a tile changes no bit, and may depend on the batch.

mod cost;
mod few_channels;
mod stages;
mod tiles;
mod windows;

use core::fmt;

use crate::conv::ConvGeometry;
use crate::implicit_gemm::GemmDevice;
use crate::implicit_gemm::sm90::{Residency, Schedule};
use crate::mode::mode;
use crate::pipeline::Skip;
use crate::{LaunchShape, Refusal, WARP_THREADS};

pub use few_channels::{FewChannels, PAD_THREADS, PadChannelsGeometry, VECTOR_VALUES};
pub use tiles::{LISTED_PIXELS, TILES, WarpgroupTile, tiles};
pub use windows::AxisWindows;

/// Warps of a warpgroup.
pub const WARPGROUP_WARPS: u32 = 4;
/// Consumer warpgroups of a block.
pub const WARPGROUPS: u32 = 2;
/// Consumer warps of a block.
pub const WARPS: u32 = WARPGROUPS * WARPGROUP_WARPS;
const WARPGROUP_THREADS: u32 = WARPGROUP_WARPS * WARP_THREADS;
/// Threads of a block: the consumers, and a warpgroup that gives its registers to them. Its first warp loads
/// windows, the next two write the results of a consumer each, and the last one loads filters.
pub const BLOCK_THREADS: u32 = (WARPS + WARPGROUP_WARPS) * WARP_THREADS;

/// Bytes of a line in shared memory: one row of an operand in a stage, or of the output, swizzled.
pub const LINE_BYTES: u32 = 128;
/// Bytes of the unit of matrix descriptors.
pub const UNIT_BYTES: u32 = 16;
/// MMA steps of a stage, of two units each.
pub const STAGE_STEPS: u32 = LINE_BYTES / (2 * UNIT_BYTES);
/// Alignment of a swizzled tile in shared memory, in bytes.
pub const TILE_BYTES: u32 = 8 * LINE_BYTES;
/// Values that a warpgroup keeps of each filter: gain and shift and, behind those of all filters, the bias.
pub const CHANNEL_VALUES: u32 = 3;

/// The most stages. More of them gain nothing.
const MAX_STAGES: u32 = 8;
const MIN_STAGES: u32 = 2;
/// The fewest stages beside resident filters, with one buffer of results and with two.
const RESIDENT_STAGES: [u32; 2] = [4, 3];
/// The most stages of a tile whose time products do not decide. Its results have two buffers, if there is
/// room.
const FEW_STAGES: u32 = 8;

mode! {
    /// The rows of the input's operand.
    pub Rows {
        /// Pixels: the windows have one element, and lie side by side.
        PIXELS = 0,
        /// Windows. A tensor map in im2col mode loads one tap of them at a time.
        WINDOWS = 1,
    }
}

/// The kernel's by-value argument.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GemmGeometry {
    /// The convolution.
    pub conv: ConvGeometry,
    /// Bytes of an element: 2, or 4 for f32.
    pub element_bytes: u32,
    /// The rows of the input's operand.
    pub rows: Rows,
    /// Output pixels of all samples.
    pub pixels: u32,
    /// Pixels of a block's tile: one warpgroup's tile in the ping-pong schedule, else both warpgroups' tiles.
    pub tile_pixels: u32,
    /// Tiles of filters.
    pub filter_tiles: u32,
    /// Tiles of a block's size in the whole output.
    pub tiles: u32,
    /// Stages of a tile.
    pub k_blocks: u32,
    /// The binary logarithm of the 16-byte units that a stage has side by side, of one row and one tap.
    pub unit_shift: u32,
    /// Stages in shared memory.
    pub stages: u32,
    /// How the warpgroups share the tiles.
    pub schedule: Schedule,
    /// How long filters stay in shared memory.
    pub residency: Residency,
    /// Buffers for the results of a warpgroup.
    pub buffers: u32,
    /// The stages of a tile.
    pub tile_skip: Skip,
}

/// Byte offsets of the parts of shared memory, from a multiple of [`TILE_BYTES`] on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GemmLayout {
    /// Distance between stages, which come first. A stage has its pixels, then its filters unless they are
    /// resident.
    pub stage_bytes: u32,
    /// Resident filters, K block by K block.
    pub filters: u32,
    /// Results of each warpgroup's tiles as they are stored, buffer by buffer.
    pub results: u32,
    /// Bias, gain and shift of the filters of each warpgroup's tile.
    pub of_channels: u32,
    /// Barriers: `full` and `empty` of each stage and each buffer of results; one for each warpgroup's turn;
    /// one for resident filters.
    pub barriers: u32,
    /// The end.
    pub end: u32,
}

impl GemmGeometry {
    /// The parts of shared memory, with tiles of warpgroups of this size.
    #[must_use]
    #[inline(always)]
    pub const fn layout(&self, [pixels, filters]: [u32; 2]) -> GemmLayout {
        let (streamed, resident) = if self.residency.is_resident() {
            (0, self.k_blocks)
        } else {
            (filters, 0)
        };
        let stage_bytes = (self.tile_pixels + streamed) * LINE_BYTES;
        let resident_at = self.stages * stage_bytes;
        let results = resident_at + resident * filters * LINE_BYTES;
        let of_channels =
            results + self.buffers * WARPGROUPS * pixels * filters * self.element_bytes;
        let barriers = of_channels + WARPGROUPS * filters * CHANNEL_VALUES * 4;
        GemmLayout {
            stage_bytes,
            filters: resident_at,
            results,
            of_channels,
            barriers,
            end: barriers + self.barriers() * 8,
        }
    }

    /// Values of a line: values of K in a stage, and output channels side by side in shared memory.
    #[must_use]
    #[inline(always)]
    pub const fn line_values(&self) -> u32 {
        LINE_BYTES / self.element_bytes
    }

    /// Input channels.
    #[must_use]
    #[inline(always)]
    pub const fn channels(&self) -> u32 {
        self.conv.group_c
    }

    /// Filters, which are the output channels.
    #[must_use]
    #[inline(always)]
    pub const fn filters(&self) -> u32 {
        self.conv.group_k
    }

    /// Barriers of a block.
    #[must_use]
    #[inline(always)]
    pub const fn barriers(&self) -> u32 {
        2 * (self.stages + self.buffers * WARPGROUPS) + WARPGROUPS + 1
    }
}

/// A matrix product with its tile and launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gemm {
    /// The by-value argument.
    pub geometry: GemmGeometry,
    /// The tile of a warpgroup.
    pub tile: WarpgroupTile,
    /// The launch.
    pub shape: LaunchShape,
    /// The memory order of the filters.
    pub filters: FilterOrder,
    /// The copies of input and filters that the product needs if channels are no whole vectors. The geometry
    /// is that of the copies.
    pub few_channels: Option<FewChannels>,
    /// The estimated cycles of the launch, if the tile was chosen by them.
    pub cycles: Option<u64>,
}

/// The memory order of filters `(K, C, taps)`. The kernel reads them channels last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterOrder {
    /// One tap: both orders are the same.
    OneTap,
    /// Channels last.
    ChannelsLast,
    /// Channels before taps.
    ChannelsFirst,
}

impl Gemm {
    /// Chooses the matrix product for a convolution without a norm, from dense NHWC to dense NHWC of elements
    /// of `element_bytes`, with channels-last filters, on a device with warpgroup MMA. The tile has the least
    /// estimated time.
    ///
    /// Only tiles of [`LISTED_PIXELS`] pixels apply lists.
    ///
    /// # Errors
    /// As [`in_tiles`](Self::in_tiles).
    pub fn new(
        (conv, element_bytes): (&ConvGeometry, u32),
        (adds_residual, has_list): (bool, bool),
        device: &GemmDevice,
    ) -> Result<Self, Refusal> {
        let mut best: Result<Self, Refusal> = Err(Refusal::Needs("a tile"));
        let listed = |tile: &WarpgroupTile| !has_list || tile.pixels == LISTED_PIXELS;
        for tile in tiles(element_bytes).iter().copied().filter(listed) {
            for schedule in [Schedule::PING_PONG, Schedule::COOPERATIVE] {
                let gemm = Self::in_tiles(
                    (conv, element_bytes),
                    (tile, schedule),
                    device.multiprocessors,
                    device.shared_bytes,
                );
                let gemm = gemm.map(|gemm| Self {
                    cycles: Some(gemm.estimate(adds_residual, device.rates())),
                    ..gemm
                });
                best = match (best, gemm) {
                    (Ok(best), Ok(gemm)) if gemm.cycles < best.cycles => Ok(gemm),
                    (Ok(best), _) => Ok(best),
                    (Err(_), gemm) => gemm,
                };
            }
        }
        best
    }

    /// Returns the matrix product of [`new`](Self::new) with the given tile and schedule.
    ///
    /// # Errors
    /// Several groups; filters that are no whole vectors of 16 bytes; windows or pixels that a tensor map
    /// cannot describe; too little shared memory.
    pub fn in_tiles(
        (conv, element_bytes): (&ConvGeometry, u32),
        (tile, schedule): (WarpgroupTile, Schedule),
        multiprocessors: u32,
        shared_bytes: u32,
    ) -> Result<Self, Refusal> {
        let filters_of = match conv.taps() {
            1 => FilterOrder::OneTap,
            _ => FilterOrder::ChannelsFirst,
        };
        let few_channels = FewChannels::of(conv, element_bytes)?;
        let conv = &few_channels.map_or(*conv, |few| few.conv);
        let [strides, pads] = [
            [conv.stride_d, conv.stride_h, conv.stride_w],
            [conv.pad_d, conv.pad_h, conv.pad_w],
        ];
        if conv.groups != 1 {
            return Err(Refusal::Needs("one group"));
        }
        let is_dense = few_channels.is_none_or(|few| few.is_dense());
        let is_pixel = is_dense && conv.taps() == 1 && strides == [1; 3] && pads == [0; 3];
        let rows = if is_pixel {
            Rows::PIXELS
        } else {
            AxisWindows::of(conv)?;
            Rows::WINDOWS
        };
        let filters = conv.group_k;
        if !filters.is_multiple_of(UNIT_BYTES / element_bytes) {
            return Err(Refusal::Needs("filters in whole vectors of 16 bytes"));
        }
        let pixels = (conv.n).checked_mul(conv.output_pixels().into());
        let pixels = pixels.filter(|&pixels| pixels < 1 << 31);
        let pixels = pixels.ok_or(Refusal::Needs("less than 2^31 pixels"))? as u32;
        let warpgroups = WARPGROUPS >> schedule.shift();
        let tile_pixels = warpgroups * tile.pixels;
        let filter_tiles = filters.div_ceil(tile.filters);
        let tiles = pixels.div_ceil(tile_pixels).checked_mul(filter_tiles);
        let geometry = GemmGeometry {
            conv: *conv,
            element_bytes,
            rows,
            pixels,
            tile_pixels,
            filter_tiles,
            tiles: tiles.ok_or(Refusal::Needs("less than 2^32 tiles"))?,
            k_blocks: 0,
            unit_shift: 0,
            stages: MIN_STAGES,
            schedule,
            residency: Residency::RESIDENT,
            buffers: 1,
            tile_skip: Skip::NONE,
        };
        let geometry = geometry.with_fewest_stages();
        let geometry = geometry.ok_or(Refusal::Needs("less than 2^32 stages of a tile"))?;
        let launched = geometry.launched(tile, multiprocessors, shared_bytes);
        let launched = launched.ok_or(Refusal::Needs("a tile that fits shared memory"))?;
        Ok(Self {
            filters: filters_of,
            few_channels,
            ..launched
        })
    }

    /// Returns the same product of an NCHW input, if it has a copy of the input.
    #[must_use]
    pub fn of_channels_first(self) -> Option<Self> {
        let few_channels = Some(self.few_channels?.of_channels_first());
        Some(Self {
            few_channels,
            ..self
        })
    }

    /// Returns the same product with channels-last filters.
    #[must_use]
    pub fn with_channels_last_filters(self) -> Self {
        let filters = match self.filters {
            FilterOrder::OneTap => FilterOrder::OneTap,
            _ => FilterOrder::ChannelsLast,
        };
        Self { filters, ..self }
    }

    /// Whether half of the smallest tile's filters do not exist, and products decide the time. An implicit
    /// GEMM then takes less time; in f32 there is none that writes NHWC.
    #[must_use]
    pub fn is_half_empty(&self) -> bool {
        let g = &self.geometry;
        g.element_bytes == 2
            && g.conv.taps() > 1
            && 2 * g.filters() <= TILES[0].filters
            && g.k_blocks > FEW_STAGES
    }
}

impl GemmGeometry {
    /// Returns the product with as many stages as shared memory has room for, if these are enough, and with
    /// its launch. There is at most one block for each multiprocessor. All tiles of a block have the same
    /// filters, if there are enough multiprocessors.
    fn launched(
        self,
        tile: WarpgroupTile,
        multiprocessors: u32,
        shared_bytes: u32,
    ) -> Option<Gemm> {
        let whole = multiprocessors - multiprocessors % self.filter_tiles;
        let blocks = self
            .tiles
            .min(if whole > 0 { whole } else { multiprocessors });
        // The parts start on a multiple of a swizzled tile's alignment.
        let end = |g: &GemmGeometry| g.layout([tile.pixels, tile.filters]).end + TILE_BYTES;
        let with_stages = |residency, buffers, least: u32| {
            let of = |stages| GemmGeometry {
                stages,
                residency,
                buffers,
                tile_skip: Skip::of(self.k_blocks, stages),
                ..self
            };
            let mut all = (least..=MAX_STAGES).rev().map(of);
            all.find(|g| end(g) <= shared_bytes)
        };
        // A block with several tiles of the same filters loads the filters once.
        let stay = whole > 0 && self.tiles > blocks;
        let resident = |buffers: u32| {
            let least = RESIDENT_STAGES[buffers as usize - 1];
            let geometry = stay.then(|| with_stages(Residency::RESIDENT, buffers, least));
            geometry.flatten()
        };
        let streamed = |buffers, least| with_stages(Residency::STREAMED, buffers, least);
        // A warpgroup with only one tile has no use for a second buffer.
        let mut geometry = None;
        if self.k_blocks <= FEW_STAGES && self.tiles > blocks << self.schedule.shift() {
            geometry = resident(2).or_else(|| streamed(2, RESIDENT_STAGES[0]));
        }
        let geometry = geometry.or_else(|| resident(1));
        let geometry = geometry.or_else(|| streamed(1, MIN_STAGES))?;
        Some(Gemm {
            geometry,
            tile,
            shape: LaunchShape::linear(blocks.into(), BLOCK_THREADS)?.with_shared(end(&geometry)),
            filters: FilterOrder::ChannelsFirst,
            few_channels: None,
            cycles: None,
        })
    }
}

/// The configuration in words.
impl fmt::Display for Gemm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (g, tile) = (&self.geometry, self.tile);
        let schedule = match g.schedule.is_ping_pong() {
            true => "ping-pong",
            false => "cooperative",
        };
        write!(
            f,
            "tiles of {} pixels x {} filters for each warpgroup, {schedule}, {} stages{}",
            tile.pixels,
            tile.filters,
            g.stages,
            if g.residency.is_resident() {
                ", resident filters"
            } else {
                ""
            }
        )?;
        let rows = match g.rows == Rows::WINDOWS {
            true => "windows by im2col",
            false => "a matrix of pixels",
        };
        let results = if g.buffers > 1 {
            ", double-buffered results"
        } else {
            ""
        };
        write!(f, ", {rows}{results}")?;
        if let Some(cycles) = self.cycles {
            write!(f, ", about {cycles} cycles")?;
        }
        match self.few_channels {
            Some(few) => write!(
                f,
                ", lines of {} values of a copy of the input",
                few.conv.group_c
            ),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
