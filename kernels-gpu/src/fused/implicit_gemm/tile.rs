//! Tiles as types, and their accumulators.

use launch_config::implicit_gemm::{self, GemmTile};

/// A tile as a type.
pub(super) trait TileShape {
    const TILE: GemmTile;
}

macro_rules! tile {
    ($($name:ident)*) => {$(
        pub(super) struct $name;
        impl TileShape for $name {
            const TILE: GemmTile = implicit_gemm::$name;
        }
    )*};
}

tile!(M64N128 M32N128 M16N256 M64N32 M16N64);
#[cfg(hopper)]
tile!(W64N128);

/// The largest numbers of operands and of pixel octets of a warp in any tile. Unused elements take no
/// registers.
pub(super) const MAX_OPERANDS: usize = 4;
pub(super) const MAX_PIXEL_OCTETS: usize = 16;

/// The accumulators of a lane, by operand and octet of pixels, in the fragment layout of `cuda_std::mma`.
pub(super) type Sums = [[[f32; 4]; MAX_PIXEL_OCTETS]; MAX_OPERANDS];

/// Accumulators of zeros.
pub(super) const NO_SUMS: Sums = [[[0.0; 4]; MAX_PIXEL_OCTETS]; MAX_OPERANDS];
