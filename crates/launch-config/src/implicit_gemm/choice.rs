//! The choice of the configuration of an implicit GEMM: its tile and its K blocks.

use super::k_blocks::MAX_K_BLOCK_K_VECTORS;
use super::pixels::{choose_pixels, reach};
use super::reformatted::k_vector_channels;
use super::{
    ASSUMED_BATCH, BLOCK_THREADS, EpilogueKind, FilterLoader, GemmConfig, GemmDevice, GemmTile,
    ImplicitGemmGeometry, K_VECTOR_VALUES, KVectorStrides, MmaOperands, OperandFormat,
    PixelShuffle, Prescale, SCANNED_ELEMENTS, SPREAD_THREADS, StagedTiles, WARP_SPECIALIZED, sm90,
};
use crate::conv::ConvGeometry;
use crate::norm::{COMBINED_BY_WARP, COUNTED_ELEMENTS};
use crate::{LaunchShape, Refusal};

/// Shared memory that the system reserves in each block, in bytes.
const BLOCK_RESERVE: u32 = 1024;

impl GemmConfig {
    /// Chooses the config of a convolution in `format` on a device. `pool` has the rows and columns of
    /// windows that lie side by side. With it, only the maximum (or minimum) of each whole window is kept.
    ///
    /// The tile takes the least time for a batch of `batch` samples, or of [`ASSUMED_BATCH`] without `batch`.
    /// Tiles differ in the order of their sums. Therefore a sample's results are the same bits in any batch
    /// only without `batch`.
    ///
    /// # Errors
    /// A problem that no config fits: a halo tile larger than shared memory, windows larger than a tile, a
    /// filter of more than a thousand taps, indices beyond 32 bits.
    pub fn new(
        conv: &ConvGeometry,
        pool: Option<[u32; 2]>,
        format: OperandFormat,
        device: &GemmDevice,
        batch: Option<u64>,
    ) -> Result<Self, Refusal> {
        let suits = |config: &Self| device.arch.suits(config, device);
        let results = (pool, EpilogueKind::MOMENTS);
        Self::of_tiles(conv, results, format, device, batch, suits)
    }

    /// Chooses as [`new`](Self::new) does, but only among the configs that `takes` accepts. Results are
    /// pooled in windows or stored as the epilogue says.
    pub(super) fn of_tiles(
        conv: &ConvGeometry,
        results: (Option<[u32; 2]>, EpilogueKind),
        format: OperandFormat,
        device: &GemmDevice,
        batch: Option<u64>,
        takes: impl Fn(&Self) -> bool,
    ) -> Result<Self, Refusal> {
        if conv.n == 0 || conv.output_pixels() == 0 {
            return Err(Refusal::Needs("an output with elements"));
        }
        let indexed = Refusal::Needs("indices of 32 bits");
        let input = ReformattedInput::new(conv).ok_or(indexed)?;
        // Only tiles of warpgroups reduce or shuffle results.
        let input = match results.1.is_reduced() || results.1.is_shuffled() {
            true => input.with_pairs(),
            false => input,
        };
        let samples = batch.unwrap_or(ASSUMED_BATCH);
        (device.arch.tiles().iter())
            .flat_map(|&tile| [1, 2].map(|outputs_d| (tile, outputs_d)))
            .filter_map(|(tile, outputs_d)| input.config(tile, outputs_d, results, format, device))
            .filter(takes)
            .map(|config| config.with_split_k(device, samples))
            .filter_map(|config| Some((config.cost(device, samples)?, config)))
            .min_by_key(|(cost, _)| *cost)
            .map(|(_, config)| match batch {
                Some(_) => config,
                None => config.split_k_for_few(device),
            })
            .ok_or(Refusal::Needs(
                "a tile of whole windows whose halo tile fits shared memory",
            ))
            .and_then(|config| config.launched(device).ok_or(indexed))
    }

    /// Returns the config with a given tile, if it is possible.
    #[must_use]
    pub fn with_tile(
        conv: &ConvGeometry,
        pool: Option<[u32; 2]>,
        format: OperandFormat,
        device: &GemmDevice,
        tile: GemmTile,
    ) -> Option<Self> {
        let results = (pool, EpilogueKind::MOMENTS);
        ReformattedInput::new(conv)?.config(tile, 1, results, format, device)
    }

    /// The config with warp-specialized tiles that make two neighbouring outputs in depth, if that is
    /// possible.
    #[must_use]
    pub fn with_two_outputs(
        conv: &ConvGeometry,
        format: OperandFormat,
        device: &GemmDevice,
    ) -> Option<Self> {
        let results = (None, EpilogueKind::MOMENTS);
        ReformattedInput::new(conv)?.config(WARP_SPECIALIZED, 2, results, format, device)
    }

    /// Returns the config if all of its launches are possible.
    fn launched(self, device: &GemmDevice) -> Option<Self> {
        let launches = self.shape(device).is_some()
            && self.filters_shape().is_some()
            && self.geometry.reformat_shape().is_some()
            && self.geometry.rescale_shape().is_some();
        let counted = i32::try_from(self.geometry.work_tiles()).is_ok();
        (launches && counted).then_some(self)
    }

    /// Blocks that run at the same time on one multiprocessor.
    pub(super) fn blocks_per_processor(&self, device: &GemmDevice) -> u32 {
        // A multiprocessor has the maximum of one block and the reserve of one block.
        let all = device.shared_bytes + BLOCK_RESERVE;
        let each = self.shared_bytes(device) + BLOCK_RESERVE;
        let max = (self.tile).blocks_per_processor(self.format.step_parts());
        (all / each).clamp(1, max)
    }

    /// Launch of the implicit GEMM on the device that the config was chosen for. Blocks are persistent: each
    /// keeps its filters and takes tiles of pixels in turn. There are no more blocks than run at the same
    /// time, and all have about the same number of tiles.
    #[must_use]
    pub fn shape(&self, device: &GemmDevice) -> Option<LaunchShape> {
        let g = &self.geometry;
        let (sets, threads) = match self.tile.is_warp_specialized() {
            true => (
                g.warp_specialized_sets(self.warp_specialized_tiles(device)),
                sm90::BLOCK_THREADS,
            ),
            false => (g.filter_sets(), BLOCK_THREADS),
        };
        let (sets, work_tiles) = (u64::from(sets), g.work_tiles());
        if sets == 0 || work_tiles == 0 {
            return None;
        }
        let at_once = match self.tile.is_warp_specialized() {
            true => self.warp_specialized_clusters(device),
            false => {
                let together = self.blocks_per_processor(device);
                u64::from(device.multiprocessors) * u64::from(together)
            }
        };
        let rows = (at_once / sets).clamp(1, work_tiles);
        let rounds = work_tiles.div_ceil(rows);
        let rows = work_tiles.div_ceil(rounds);
        let blocks = rows.checked_mul(sets)?.checked_mul(self.split_k.into())?;
        let shape = LaunchShape::linear(blocks, threads)?.in_clusters(self.split_k);
        Some(shape.with_shared(self.shared_bytes(device)))
    }

    /// Shared memory of a block of the implicit GEMM.
    #[must_use]
    pub fn shared_bytes(&self, device: &GemmDevice) -> u32 {
        let (g, parts) = (&self.geometry, self.format.parts);
        if !self.tile.is_warp_specialized() {
            return g.layout(self.tile, parts).end;
        }
        let layout = (self.mainloop_config(device))
            .map(|mainloop| g.warp_specialized_layout(self.format, mainloop));
        layout.map_or(u32::MAX, |layout| layout.end)
    }

    /// The number of moments of a sample for each channel, or for each set of channels that share moments.
    #[must_use]
    pub const fn moment_parts(&self) -> u32 {
        let g = &self.geometry;
        g.pixel_tiles() * g.outputs_d * self.tile.moments()
    }

    /// Returns the config for a norm whose rows have `row_channels` channels each. Blocks of the norm combine
    /// up to [`COMBINED_BY_WARP`] moments of a row. If a row has more, warps of warp-specialized tiles
    /// combine the moments of neighbouring channels, as few as bring the row within that limit. If no number
    /// of channels does, they combine none, because nothing overlaps the epilogue of a tile.
    #[must_use]
    pub const fn for_rows_of(mut self, row_channels: u32) -> Self {
        let of_group = self.geometry.conv.group_k;
        let mut channels = 1;
        // A warp's first filter in its group is a multiple of the filters of a warp.
        while self.tile.is_warp_specialized() && channels <= sm90::WARP_FILTERS {
            let are_alike =
                row_channels.is_multiple_of(channels) && of_group.is_multiple_of(channels);
            let of_row = self.moment_parts() as u64 * (row_channels / channels) as u64;
            if are_alike && of_row <= COMBINED_BY_WARP as u64 {
                self.geometry.moment_channels = channels;
                break;
            }
            channels *= 2;
        }
        self
    }

    /// f32 elements of the moments, `[n][k / moment_channels][part]`; none without a norm.
    #[must_use]
    pub fn moment_elements(&self) -> u64 {
        let g = &self.geometry;
        if g.epilogue.is_store() {
            return 0;
        }
        let channels = g.conv.n * u64::from(g.conv.output_channels());
        let moments = channels / u64::from(g.moment_channels) * u64::from(self.moment_parts());
        moments * COUNTED_ELEMENTS as u64
    }

    /// 32-bit words of the filters in operand layout.
    #[must_use]
    pub const fn filter_words(&self) -> u64 {
        let g = &self.geometry;
        g.conv.groups as u64 * g.filter_words(self.tile, self.format.step_parts())
    }

    /// Launch of the kernel that lays out the filters: a block for each, including those that pad a tile.
    #[must_use]
    pub fn filters_shape(&self) -> Option<LaunchShape> {
        let g = &self.geometry;
        let filters = u64::from(g.conv.groups) * u64::from(g.filter_tiles * self.tile.filters());
        LaunchShape::linear(filters, SPREAD_THREADS)
    }
}

/// The reformatted input of a convolution, before tiles are chosen.
struct ReformattedInput<'a> {
    conv: &'a ConvGeometry,
    k_vector_channels: u32,
    /// Columns of the padded input that some window touches.
    used_w: u32,
}

impl<'a> ReformattedInput<'a> {
    fn new(conv: &'a ConvGeometry) -> Option<Self> {
        if conv.n == 0 || conv.output_pixels() == 0 {
            return None;
        }
        let used_w = reach(conv.q, conv.stride_w, conv.s, conv.dilation_w)?;
        Some(Self {
            conv,
            k_vector_channels: k_vector_channels(conv),
            used_w,
        })
    }

    /// Uses K-vectors of single columns if one K-vector would hold all columns of a filter: MMA steps of
    /// warpgroups need two K-vectors.
    fn with_pairs(self) -> Self {
        let columns = K_VECTOR_VALUES / self.k_vector_channels;
        let has_one = self.conv.s > 1 && self.conv.s <= columns;
        Self {
            k_vector_channels: match has_one {
                true => K_VECTOR_VALUES,
                false => self.k_vector_channels,
            },
            ..self
        }
    }

    /// Returns the config with this tile and `outputs_d` neighbouring outputs in depth.
    fn config(
        &self,
        tile: GemmTile,
        outputs_d: u32,
        (pool, epilogue): (Option<[u32; 2]>, EpilogueKind),
        format: OperandFormat,
        device: &GemmDevice,
    ) -> Option<GemmConfig> {
        let asked = self.conv;
        let conv = match outputs_d {
            1 => *asked,
            _ => two_outputs(asked, tile)?,
        };
        if !device.arch.tiles().contains(&tile) {
            return None;
        }
        if format.passes > 1 && !tile.has_bf16x3() {
            return None;
        }
        // A warp-specialized tile's results are never all in shared memory.
        if pool.is_some() && tile.is_warp_specialized() != epilogue.is_reduced() {
            return None;
        }
        let stride_phases = conv.stride_w.min(self.used_w);
        let [pool_h, pool_w] = pool.unwrap_or([0, 0]);
        let sample = u64::from(conv.input_channels()) * u64::from(conv.input_pixels());
        let k_vector_columns = K_VECTOR_VALUES / self.k_vector_channels;
        let column_taps = conv.s.div_ceil(k_vector_columns);
        let mut geometry = ImplicitGemmGeometry {
            conv,
            k_vector_channels: self.k_vector_channels,
            k_vector_columns,
            column_taps,
            taps: conv.t.checked_mul(conv.r)?.checked_mul(column_taps)?,
            depth_k_blocks: 1,
            filter_slices: conv.t,
            planes: conv.group_c.div_ceil(self.k_vector_channels),
            reformatted_d: 1,
            reformatted_h: 1,
            used_w: self.used_w,
            stride_phases,
            stride_phase_columns: 1,
            tile_d: 1,
            tile_h: 1,
            tile_w: 1,
            tiles_d: conv.z,
            tiles_h: conv.p,
            tiles_w: conv.q,
            tile_pitch: 1,
            slice_pitch: 1,
            octet_k_vectors: 0,
            interleaved_octets: [0; 2],
            operands: MmaOperands::LDMATRIX,
            pair_k_vectors: 0,
            strips: 0,
            row_stride_phases: 1,
            stride_phase_rows: 1,
            halo_d: 1,
            halo_h: 1,
            halo_columns: 1,
            halo_k_vectors: 1,
            filter_tiles: conv.group_k.div_ceil(tile.filters()),
            k_block_planes: 1,
            slice_planes: 1,
            k_blocks: 1,
            mma_steps: 1,
            offsets: 1,
            pool_h,
            pool_w,
            windows_h: 0,
            windows_w: 0,
            pooled_h: conv.p.checked_div(pool_h).unwrap_or(0),
            pooled_w: conv.q.checked_div(pool_w).unwrap_or(0),
            prescale: if sample <= SCANNED_ELEMENTS {
                Prescale::SCANNED
            } else {
                Prescale::OPTIMISTIC
            },
            epilogue,
            k_vectors: KVectorStrides::REFORMATTED,
            staged_tiles: StagedTiles::NONE,
            filters: FilterLoader::PREPARED,
            outputs_d,
            moment_channels: 1,
            shuffle: PixelShuffle::NONE,
        };
        if geometry.taps > MAX_K_BLOCK_K_VECTORS {
            return None;
        }
        choose_pixels(&mut geometry, tile, format, device)?;
        geometry.choose_k_blocks(format);
        geometry.interleaved_octets = [geometry.octet_k_vectors, 2 * geometry.octet_k_vectors];
        geometry.conv = *asked;
        if format.step_parts() == 2 && !tile.allows_f16x2(geometry.k_blocks * geometry.mma_steps) {
            return None;
        }
        let config = GemmConfig {
            geometry,
            tile,
            format,
            split_k: 1,
        };
        (config.shared_bytes(device) <= device.shared_bytes).then_some(config)
    }
}

/// The convolution that computes two neighbouring outputs in depth of `conv` for each pixel of a tile. Half
/// of the tile's filters are those of `conv` with a slice of zeros behind them, the other half with one
/// before them. With filters of three slices, three quarters of the multiply-adds are useful, where a tile
/// that is half full of filters would use half.
///
/// Multiplying by those zeros changes a result only where the input is infinite or NaN. Each input slice is
/// in the window of one of the two outputs. So with a norm, such a value makes its sample NaN anyway, and
/// without a norm the fix-up pass recomputes the result.
fn two_outputs(conv: &ConvGeometry, tile: GemmTile) -> Option<ConvGeometry> {
    let overlaps = conv.stride_d == 1 && conv.dilation_d == 1 && conv.t > 1 && conv.z > 1;
    let are_half = 2 * conv.group_k <= tile.filters();
    (tile.is_warp_specialized() && overlaps && are_half).then(|| ConvGeometry {
        group_k: tile.filters(),
        t: conv.t + 1,
        z: conv.z.div_ceil(2),
        stride_d: 2,
        ..*conv
    })
}
