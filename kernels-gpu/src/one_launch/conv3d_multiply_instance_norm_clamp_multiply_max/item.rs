//! An item: 16 rows by 10 columns of the convolution, with an epilogue for each column.

use cuda_std::shared::Shared;
use cuda_std::{math, opaque, warp};
use launch_config::one_launch::conv3d_multiply_instance_norm_clamp_multiply_max::{
    FILTER, OneLaunch3dGeometry, PLANE_WORDS, RECIPROCAL_SHIFT, ROW_PITCH, STRIP_COLUMNS, STRIPS,
    TILE_ROWS,
};

use super::format::{Format, quartet_offsets};
use crate::parts::unroll::unroll;

/// Filter operands of all horizontal taps, for the format with the most steps. Unused ones take no registers.
pub(super) type Filters = [[[u32; 4]; MAX_STEPS]; FILTER as usize];

/// The most sets of filter operands of a horizontal tap.
pub(super) const MAX_STEPS: usize = 5;

/// Accumulators of one column, of lane `quad_lane` of quad `quad`: rows `quad` and `quad + 8`, filters
/// `2 * quad_lane`, `2 * quad_lane + 1` and the same plus 8.
pub(super) type Column = [[f32; 4]; 2];

/// The epilogue of the columns of an item.
pub(super) trait Epilogue {
    /// Starts an item: this lane has `rows` of the output, and the first column is `column`. A row beyond the
    /// output's rows repeats the last one.
    unsafe fn start(&mut self, g: &OneLaunch3dGeometry, rows: [u32; 2], column: u32);
    /// Takes column `I` of the item.
    unsafe fn column<const I: usize>(&mut self, column: &Column);
    /// Ends the item with these rows.
    unsafe fn finish(&mut self, g: &OneLaunch3dGeometry, rows: [u32; 2]);
}

/// The inputs of an item.
#[derive(Clone, Copy)]
pub(super) struct Operands<'a> {
    /// The planes.
    pub(super) planes: Shared<u32>,
    /// The filters.
    pub(super) filters: &'a Filters,
    /// Start values of the accumulators, for the lane's four filters.
    pub(super) start: [f32; 4],
    /// The geometry.
    pub(super) g: &'a OneLaunch3dGeometry,
}

/// Convolves item `item` and passes its columns to `epilogue`.
///
/// Input column `i` is loaded once and serves the output columns `i`, `i - 1` and `i - 2`, whose accumulators
/// rotate through three register sets.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
pub(super) unsafe fn convolve<F: Format, E: Epilogue>(
    item: u32,
    operands: Operands<'_>,
    epilogue: &mut E,
) {
    let g = operands.g;
    let (tile, first) = (item / STRIPS, item % STRIPS * STRIP_COLUMNS);
    let lane = warp::lane_id();
    let row = tile * TILE_ROWS + lane / 4;
    let rows = [row, row + 8];
    let offsets = quartet_offsets::<F>(lane % 4, ROW_PITCH, g.slice_words, PLANE_WORDS);
    let pixel = |row: u32| {
        let row = row.min(g.out_rows - 1);
        let z = (row * g.out_height_reciprocal) >> RECIPROCAL_SHIFT;
        z * g.slice_words + (row - z * g.out_height) * ROW_PITCH + first
    };
    let pixels = [pixel(rows[0]), pixel(rows[1])];
    let at = |quartet: usize| [pixels[0] + offsets[quartet], pixels[1] + offsets[quartet]];
    let quartets = [at(0), at(1), at(2), at(3)];

    epilogue.start(g, rows, first);
    let mut accumulators = [[[0.0; 4]; 2]; FILTER as usize];
    macro_rules! columns {
        ($($i:literal)*) => {
            $(column::<F, E, $i>(&quartets, operands, &mut accumulators, epilogue);)*
        };
    }
    columns!(0 1 2 3 4 5 6 7 8 9 10 11);
    epilogue.finish(g, rows);
}

const LAST: usize = (STRIP_COLUMNS + FILTER - 1) as usize;
const _: () = assert!(LAST == 12);

/// Input column `I`.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
unsafe fn column<F: Format, E: Epilogue, const I: usize>(
    quartets: &[[u32; 2]; 4],
    operands: Operands<'_>,
    accumulators: &mut [Column; FILTER as usize],
    epilogue: &mut E,
) {
    // Keeps the assembler from loading many columns ahead, for which there are no registers.
    if !I.is_multiple_of(2) {
        warp::sync_warp(warp::ALL_LANES);
    }
    let planes = operands.planes;
    let load = |quartet: usize, plane: u32| {
        let at = I as u32 + plane * PLANE_WORDS;
        [
            planes.load(quartets[quartet][0] + at),
            planes.load(quartets[quartet][1] + at),
        ]
    };
    if I < STRIP_COLUMNS as usize {
        let [a, b, c, d] = operands.start;
        accumulators[I % 3] = [[a, b, a, b], [c, d, c, d]];
    }
    macro_rules! tap {
        ($a:ident, $step:literal, $s:literal) => {
            if I + 1 > $s && I < $s + STRIP_COLUMNS as usize {
                let filter = &operands.filters[$s][$step];
                let d = &mut accumulators[(I + 3 - $s) % 3];
                d[0] = F::multiply_add(d[0], $a, [filter[0], filter[1]]);
                d[1] = F::multiply_add(d[1], $a, [filter[2], filter[3]]);
            }
        };
    }
    macro_rules! step {
        ($low:expr, $high:expr, $step:literal) => {{
            let (low, high): ([u32; 2], [u32; 2]) = ($low, $high);
            let a = [low[0], low[1], high[0], high[1]];
            tap!(a, $step, 2);
            tap!(a, $step, 1);
            tap!(a, $step, 0);
        }};
    }
    if F::F16X2 {
        let channels = [load(0, 0), load(1, 0)];
        let low_parts = [load(0, 1), load(1, 1)];
        let third = [load(0, 2), load(1, 2)];
        let rest = load(2, 0);
        // Loaded once more, because an operand's four registers are consecutive: a value that is used in two
        // positions would be copied for each MMA.
        let repeated = [
            opaque::load(planes, quartets[2][0] + I as u32),
            opaque::load(planes, quartets[2][1] + I as u32),
        ];
        step!(channels[0], channels[1], 0);
        step!(low_parts[0], low_parts[1], 0);
        step!(third[0], third[1], 1);
        step!(channels[0], channels[1], 2);
        step!(third[0], third[1], 3);
        step!(rest, repeated, 4);
    } else {
        step!(load(0, 0), load(1, 0), 0);
        step!(load(2, 0), load(3, 0), 1);
    }
    macro_rules! hand_over {
        ($($column:literal)*) => {$(
            if I == $column + 2 {
                epilogue.column::<$column>(&accumulators[$column % 3]);
            }
        )*};
    }
    hand_over!(0 1 2 3 4 5 6 7 8 9);
}

/// A butterfly exchange of two values: the lane keeps `low` if `bit` of its index is clear, else `high`, and
/// gives the other one to the lane with that bit flipped. Returns the kept and the received value.
///
/// Selected by bits and not by `if`: the compiler must not move a shuffle into a branch that only some lanes
/// take.
///
/// # Safety
/// All lanes of the warp make this call.
#[inline(always)]
pub(super) unsafe fn exchange(lane: u32, bit: u32, low: f32, high: f32) -> [f32; 2] {
    let upper = 0u32.wrapping_sub(u32::from(lane & bit != 0));
    let (low, high) = (low.to_bits(), high.to_bits());
    let kept = (low & !upper) | (high & upper);
    let given = (high & !upper) | (low & upper);
    let (received, _) = warp::warp_shuffle_xor(warp::ALL_LANES, given, bit, 32);
    [f32::from_bits(kept), f32::from_bits(received)]
}

/// Sums and sums of squares of the lane's filters.
///
/// After each item the eight quads of the warp exchange: of the eight totals of a quad lane, each
/// quad keeps one. `total` in quad `quad` is the sum (0 to 3) or the sum of squares (4 to 7) of the
/// quad lane's filter `quad % 4`.
pub(super) struct PowerSums {
    /// The total that this lane keeps.
    pub(super) total: f32,
    sums: [[f32; 8]; 2],
}

impl PowerSums {
    /// Sums of no items.
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self {
            total: 0.0,
            sums: [[0.0; 8]; 2],
        }
    }
}

impl Epilogue for PowerSums {
    #[inline(always)]
    unsafe fn start(&mut self, _g: &OneLaunch3dGeometry, _rows: [u32; 2], _column: u32) {
        self.sums = [[0.0; 8]; 2];
    }

    #[inline(always)]
    unsafe fn column<const I: usize>(&mut self, column: &Column) {
        unroll!(2, |row| {
            let sums = &mut self.sums[row];
            unroll!(4, |filter| {
                let value = column[filter / 2][row * 2 + filter % 2];
                sums[filter] += value;
                sums[filter + 4] = math::fma(value, value, sums[filter + 4]);
            });
        });
    }

    #[inline(always)]
    unsafe fn finish(&mut self, g: &OneLaunch3dGeometry, rows: [u32; 2]) {
        let [a, b] = self.sums;
        let weight = |row: u32| if row < g.out_rows { 1.0 } else { 0.0 };
        let (weight_a, weight_b) = (weight(rows[0]), weight(rows[1]));
        let lane = warp::lane_id();
        let both = |i: usize| math::fma(a[i], weight_a, b[i] * weight_b);
        let all = [
            both(0),
            both(1),
            both(2),
            both(3),
            both(4),
            both(5),
            both(6),
            both(7),
        ];
        let keep = |bit: u32, low: f32, high: f32| {
            let [kept, received] = exchange(lane, bit, low, high);
            kept + received
        };
        let four = [
            keep(16, all[0], all[4]),
            keep(16, all[1], all[5]),
            keep(16, all[2], all[6]),
            keep(16, all[3], all[7]),
        ];
        let two = [keep(8, four[0], four[2]), keep(8, four[1], four[3])];
        self.total += keep(4, two[0], two[1]);
    }
}
