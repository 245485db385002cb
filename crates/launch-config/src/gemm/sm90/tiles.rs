//! The tiles of warpgroups.

/// The tile of a warpgroup. M is pixels and N is filters, since a row of accumulators is a row of NHWC. In
/// the tiles of [`implicit_gemm`](crate::implicit_gemm), M is filters and N is pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarpgroupTile {
    /// Pixels, a multiple of the 64 rows of an MMA.
    pub pixels: u32,
    /// Filters, a multiple of the values of any line.
    pub filters: u32,
    /// The kernel's label: `m` pixels, `n` filters.
    pub label: &'static str,
}

/// The tiles of the kernels.
pub const TILES: [WarpgroupTile; 4] = [
    WarpgroupTile {
        pixels: 64,
        filters: 64,
        label: "m64n64",
    },
    WarpgroupTile {
        pixels: 64,
        filters: 128,
        label: "m64n128",
    },
    WarpgroupTile {
        pixels: 128,
        filters: 64,
        label: "m128n64",
    },
    WarpgroupTile {
        pixels: 128,
        filters: 128,
        label: "m128n128",
    },
];

/// The tiles of an element type. Results of f32 of the largest tile leave too little shared memory.
#[must_use]
pub fn tiles(element_bytes: u32) -> &'static [WarpgroupTile] {
    match element_bytes {
        2 => &TILES,
        _ => &TILES[..3],
    }
}

/// Pixels of the tiles that apply lists of functions. Lists beside the accumulators of other tiles were not
/// tried.
pub const LISTED_PIXELS: u32 = 64;
