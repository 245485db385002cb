//! The mainloop: a tile of 64 rows of the convolution, pair of columns by pair of columns.

use cuda_std::shared::Shared;
use cuda_std::warp;
use cuda_std::wgmma::{MatrixDescriptor, UNIT_BYTES};
use launch_config::one_launch::conv3d_multiply_instance_norm_clamp_multiply_max::warpgroup::{
    BLOCK_WORDS, ONES, PLANE_PITCH, PRODUCT_COLUMNS, ZEROS,
};
use launch_config::one_launch::conv3d_multiply_instance_norm_clamp_multiply_max::{
    OneLaunch3dGeometry, RECIPROCAL_SHIFT, ROW_PITCH,
};

use super::WarpgroupFormat;

/// The position of a pair of columns in the unrolled loop.
pub(super) enum Which {
    /// The first of two pairs in an iteration.
    First,
    /// The second of two pairs; the number of the first.
    Second(u32),
    /// The last pair of an odd number; its number.
    Last(u32),
}

/// The epilogue of the columns of a tile.
pub(super) trait Epilogue {
    /// Takes a pair of columns, with eight accumulators each: filters `2 * quad_lane` and `2 * quad_lane + 1`
    /// of row `quad` and of row `quad + 8`, and the same for the filters 8 further.
    unsafe fn pair(&mut self, which: Which, sums: [f32; 16]);
}

/// Distance of two blocks in descriptor units.
const BLOCK_UNITS: u32 = BLOCK_WORDS * 4 / UNIT_BYTES;

/// Words of a pair of input columns: three steps, and half a step.
type Set = ([[u32; 4]; 3], [u32; 2]);

/// A warp's share of a tile.
pub(super) struct Tile {
    /// First row of the share.
    pub(super) first_row: u32,
    /// First pair of columns.
    pub(super) first_pair: u32,
    /// End of the pairs of columns.
    pub(super) end: u32,
}

/// The words of the pair of input columns from `column` on, in two rows that start at `upper` and `lower`.
#[inline(always)]
unsafe fn load(words: Shared<u32>, upper: &[u32; 3], lower: &[u32; 3], column: u32) -> Set {
    let step = |column: u32| {
        [
            words.load(upper[0] + column),
            words.load(lower[0] + column),
            words.load(upper[1] + column),
            words.load(lower[1] + column),
        ]
    };
    let steps = [step(column), step(column + 1), step(PLANE_PITCH + column)];
    let rest = [words.load(upper[2] + column), words.load(lower[2] + column)];
    (steps, rest)
}

/// Convolves a tile, together with the other warps of the warpgroup.
#[inline(always)]
pub(super) unsafe fn walk<F: WarpgroupFormat, E: Epilogue>(
    words: Shared<u32>,
    filters: u32,
    g: &OneLaunch3dGeometry,
    tile: &Tile,
    epilogue: &mut E,
) {
    let lane = warp::lane_id();
    let quad_lane = lane % 4;
    let line = |line: u32| {
        // line / 3 for line < 9.
        let t = (line * 11) >> 5;
        t * g.slice_words + (line - 3 * t) * ROW_PITCH
    };
    let [low, high] = [line(quad_lane), line(4 + quad_lane)];
    let rest = line(8)
        + if quad_lane == 2 {
            PLANE_PITCH
        } else {
            quad_lane
        };
    let at = |row: u32| {
        let z = (row * g.out_height_reciprocal) >> RECIPROCAL_SHIFT;
        let pixel = z * g.slice_words
            + (row - z * g.out_height) * ROW_PITCH
            + tile.first_pair * PRODUCT_COLUMNS;
        let rest = if quad_lane == 3 { ONES } else { pixel + rest };
        if row < g.out_rows {
            [pixel + low, pixel + high, rest]
        } else {
            [ZEROS; 3]
        }
    };
    let row = tile.first_row + lane / 4;
    let (mut upper, mut lower) = (at(row), at(row + 8));
    let step = |block: u32| MatrixDescriptor::new(filters + block * BLOCK_UNITS, BLOCK_UNITS);
    let multiply = |a: &Set, b: &Set, [first, second]: [[u32; 2]; 2], rest: u32| {
        let rests = [first[0], first[1], second[0], second[1]];
        let ([a0, a1, a2], [b0, b1, b2]) = (a.0, b.0);
        F::multiply(
            &[a0, a1, a2, b0, b1, b2, rests],
            &[
                step(0),
                step(2),
                step(4),
                step(6),
                step(8),
                step(10),
                step(rest),
            ],
        )
    };
    let mut even = load(words, &upper, &lower, 0);
    let mut pair = tile.first_pair;
    loop {
        let odd = load(words, &upper, &lower, 2);
        let sums = multiply(&even, &odd, [even.1, odd.1], 12);
        if pair + 1 == tile.end {
            epilogue.pair(Which::Last(pair - tile.first_pair), sums);
            break;
        }
        epilogue.pair(Which::First, sums);
        even = load(words, &upper, &lower, 4);
        let sums = multiply(&odd, &even, [even.1, odd.1], 13);
        epilogue.pair(Which::Second(pair - tile.first_pair), sums);
        pair += 2;
        if pair == tile.end {
            break;
        }
        upper = upper.map(|at| at + 2 * PRODUCT_COLUMNS);
        lower = lower.map(|at| at + 2 * PRODUCT_COLUMNS);
    }
}
