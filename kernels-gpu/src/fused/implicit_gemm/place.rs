//! The work of a block: its filters, and one tile of pixels after another.

use cuda_std::shared::Shared;
use launch_config::implicit_gemm::{GemmGeometry, TILE_WORDS};

use super::tile::TileShape;
use crate::parts::index::div_rem;
use crate::parts::unroll::unroll;

/// Pixels that a block computes: a tile of one sample.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) sample: u32,
    /// The number of the tile.
    pub(super) tile: u32,
    /// Depth, row and column of its first pixel.
    pub(super) z: u32,
    pub(super) p: u32,
    pub(super) q: u32,
}

impl Place {
    /// Tile `work_tile` of all samples.
    #[inline(always)]
    pub(super) unsafe fn of(work_tile: u32, g: &GemmGeometry) -> Self {
        let (sample, tile) = div_rem(work_tile, g.pixel_tiles());
        let (row, tile_w) = div_rem(tile, g.tiles_w);
        let (tile_d, tile_h) = div_rem(row, g.tiles_h);
        Self {
            sample,
            tile,
            z: tile_d * g.tile_d,
            p: tile_h * g.tile_h,
            q: tile_w * g.tile_w,
        }
    }

    /// Stores it in entry `entry` of the table of tiles, next to the filters.
    #[inline(always)]
    pub(super) unsafe fn store(&self, tiles: Shared<u32>, entry: u32) {
        let at = entry * TILE_WORDS;
        tiles.store_vec(at, [self.sample, self.tile, self.z, self.p]);
        tiles.store(at + 4, self.q);
    }
}

/// The filters of a block: the existing ones of a tile.
#[derive(Clone, Copy)]
pub(super) struct FilterSet {
    /// The output channel of the first one. Those of the others follow.
    pub(super) first_channel: u32,
    pub(super) count: u32,
}

impl FilterSet {
    /// Tile `tile` of the filters of group `group`.
    #[inline(always)]
    pub(super) fn of<S: TileShape>(group: u32, tile: u32, g: &GemmGeometry) -> Self {
        let first = tile * S::TILE.filters();
        Self {
            first_channel: group * g.conv.group_k + first,
            count: (g.conv.group_k - first).min(S::TILE.filters()),
        }
    }

    /// Stores them in both entries of the table of tiles.
    #[inline(always)]
    pub(super) unsafe fn store(&self, tiles: Shared<u32>) {
        unroll!(2, |entry| {
            let at = entry as u32 * TILE_WORDS;
            tiles.store_vec(at + 6, [self.first_channel, self.count]);
        });
    }
}

/// Loads an entry of the table of tiles: the block's tile. It is uniform and not needed in the mainloop, so
/// shared memory saves registers.
pub(super) unsafe fn load_tile(tiles: Shared<u32>, entry: u32) -> (Place, FilterSet) {
    let at = entry * TILE_WORDS;
    let [sample, tile, z, p] = tiles.load_vec::<4>(at);
    let [first_channel, count] = tiles.load_vec::<2>(at + 6);
    let place = Place {
        sample,
        tile,
        z,
        p,
        q: tiles.load(at + 4),
    };
    (
        place,
        FilterSet {
            first_channel,
            count,
        },
    )
}
