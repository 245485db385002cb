//! Tiles of `mma.sync` (sm_80 and later): each warp issues its own MMAs, with filters in registers.
//!
//! M is filters and N is pixels, since a row of accumulators is a row of NCHW.

use super::{GemmConfig, GemmDevice, GemmTile};
use crate::TensorRates;
use crate::arch::Costs;

/// 64 filters by 128 pixels.
pub const M64N128: GemmTile = GemmTile::new(64, 128);

/// 32 filters by 128 pixels.
pub const M32N128: GemmTile = GemmTile::new(32, 128);

/// 16 filters by 256 pixels.
pub const M16N256: GemmTile = GemmTile::new(16, 256);

/// 64 filters by 32 pixels, for problems that have few pixels.
pub const M64N32: GemmTile = GemmTile::new(64, 32).with_warps_along_filters();

/// 16 filters by 64 pixels, for problems that have few pixels.
pub const M16N64: GemmTile = GemmTile::new(16, 64);

/// The tiles of `mma.sync`, from which a config is chosen.
pub const TILES: [GemmTile; 5] = [M64N128, M32N128, M16N256, M64N32, M16N64];

/// Pipeline stages of the halo tile.
pub const STAGES: u32 = 2;

/// The rate at which [`step_cost`] was fitted, an H200's: multiply-adds per cycle of a multiprocessor.
pub(super) const FITTED_RATE: u64 = 2048;

/// Constants of the cost model, measured on an H200.
pub(crate) const COSTS: Costs = Costs {
    result: 3_000,
    copied_per_cycle: 16,
    tile_cycles: 3_000,
};

/// The rates of an A100.
pub(crate) const USUAL_RATES: TensorRates = TensorRates::of_f16(1024);

/// The rates of compute capability 8, by its minor number.
pub(crate) const fn rates(minor: u32) -> Option<TensorRates> {
    match minor {
        0 => Some(USUAL_RATES),
        6 | 9 => Some(TensorRates::of_f16(512)),
        _ => None,
    }
}

/// Whether the tile of a config may be the fastest for its problem: any may.
pub(crate) const fn suits(_: &GemmConfig, _: &GemmDevice) -> bool {
    true
}

/// Blocks that a multiprocessor should hold for values of `parts` parts: as many as registers allow.
pub(super) const fn blocks_per_processor(tile: GemmTile, parts: u32) -> u32 {
    match (tile.operands, tile.pixel_octets) {
        (4, _) => 3,
        (1, 8) if parts == 2 => 3,
        _ => 4,
    }
}

/// Returns the cost of an MMA step for each output, in ten-thousandths of a cycle, on a device of
/// [`FITTED_RATE`]. An output's 16 multiply-adds cost 78 at best. The fewer outputs a warp has, the more
/// operands it loads for each.
pub(super) const fn step_cost(tile: GemmTile) -> u64 {
    match (tile.operands, tile.pixel_octets) {
        (4, _) => 130,
        (2, _) => 150,
        (_, 8) => 170,
        _ => 300,
    }
}
