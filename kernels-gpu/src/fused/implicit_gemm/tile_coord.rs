//! The work of a block: its filters, and one tile of pixels after another.

use cuda_std::opaque;
use cuda_std::shared::Shared;
use launch_config::implicit_gemm::{ImplicitGemmGeometry, TILE_WORDS};

use super::tile::TileShape;
use crate::parts::index::div_rem;
use crate::parts::unroll::unroll;

/// The coordinates of a tile of pixels: its sample and its first pixel.
#[derive(Clone, Copy)]
pub(super) struct TileCoord {
    pub(super) sample: u32,
    /// The index of the tile in its sample.
    pub(super) tile: u32,
    /// Depth, row and column of the tile's first pixel.
    pub(super) z: u32,
    pub(super) p: u32,
    pub(super) q: u32,
}

impl TileCoord {
    /// Returns the coordinates of tile `work_tile`, counted over all samples.
    #[inline(always)]
    pub(super) unsafe fn of(work_tile: u32, g: &ImplicitGemmGeometry) -> Self {
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

    /// The same coordinates, of which the compiler does not know that they are the same: what is computed
    /// from them here and there is not kept in between.
    #[cfg(hopper)]
    #[inline(always)]
    pub(super) fn anew(&self) -> Self {
        Self {
            sample: opaque::to_compiler(self.sample),
            tile: self.tile,
            z: opaque::to_compiler(self.z),
            p: opaque::to_compiler(self.p),
            q: opaque::to_compiler(self.q),
        }
    }

    /// Stores the coordinates in entry `entry` of the table of tiles, next to the filters.
    #[inline(always)]
    pub(super) unsafe fn store(&self, tiles: Shared<u32>, entry: u32) {
        let at = entry * TILE_WORDS;
        tiles.store_vec(at, [self.sample, self.tile, self.z, self.p]);
        tiles.store(at + 4, self.q);
    }
}

/// The filters of a block: the filters of a tile that exist.
#[derive(Clone, Copy)]
pub(super) struct FilterSet {
    /// The output channel of the first filter. The channels of the other filters follow.
    pub(super) first_channel: u32,
    pub(super) count: u32,
}

impl FilterSet {
    /// Returns the filters of tile `tile` of group `group`.
    #[inline(always)]
    pub(super) fn of<S: TileShape>(group: u32, tile: u32, g: &ImplicitGemmGeometry) -> Self {
        let first = tile * S::TILE.filters();
        Self {
            first_channel: group * g.conv.group_k + first,
            count: (g.conv.group_k - first).min(S::TILE.filters()),
        }
    }

    /// Stores the filter set in both entries of the table of tiles.
    #[inline(always)]
    pub(super) unsafe fn store(&self, tiles: Shared<u32>) {
        unroll!(2, |entry| {
            let at = entry as u32 * TILE_WORDS;
            tiles.store_vec(at + 6, [self.first_channel, self.count]);
        });
    }
}

/// Loads the block's tile from an entry of the table of tiles. The tile is uniform over the block and the
/// mainloop does not need it, so keeping it in shared memory saves registers.
pub(super) unsafe fn load_tile(tiles: Shared<u32>, entry: u32) -> (TileCoord, FilterSet) {
    let at = entry * TILE_WORDS;
    let [sample, tile, z, p] = tiles.load_vec::<4>(at);
    let [first_channel, count] = tiles.load_vec::<2>(at + 6);
    let place = TileCoord {
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
