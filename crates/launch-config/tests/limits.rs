//! The limits of launches: the last number that a kernel takes, and the first that it refuses.

use launch_config::conv_mean::Convolved;
use launch_config::conv_nhwc::ConvNhwcGeometry;
use launch_config::copy_rows::{RowsGeometry, RowsOf};
use launch_config::implicit_gemm::{GemmConfig, OperandFormat, WARP_SPECIALIZED};
use launch_config::nhwc::RunBlocks;
use launch_config::norm::NormGeometry;
use launch_config::pool_rows::PoolRowsGeometry;
use launch_config::series::SeriesGeometry;
use launch_config::{KernelGeometry, LaunchShape};
use op_spec::{AvgPoolSpec, Conv3dSpec, ConvProblem, UpsampleSpec};

use crate::{HOPPER, conv};

/// A limit: its name, the last number within it, the next number that there is, and whether a kernel takes a
/// number.
type Limit = (&'static str, usize, usize, fn(usize) -> bool);

/// A convolution of one image with this filter.
fn problem(image: [usize; 2], [r, s]: [usize; 2]) -> ConvProblem<3> {
    let [h, w] = image;
    let spec = Conv3dSpec::default();
    let problem = spec.problem(&[1, 1, 1, h, w], &[1, 1, 1, r, s], None);
    problem.expect("a sound problem")
}

fn has_mean(image: [usize; 2], filter: [usize; 2]) -> bool {
    Convolved::from(&problem(image, filter)).tap_sums().is_ok()
}

/// Whether the kernel for few filters takes an image of one row.
fn takes_few(columns: usize, [channels, filters]: [usize; 2]) -> bool {
    let input = [1, channels, 1, 1, columns];
    let conv = conv(input, [filters, channels, 1, 1, 1], Conv3dSpec::default());
    ConvNhwcGeometry::new(&conv, true).is_ok()
}

/// Whether a pool of rows with this many taps has segments in shared memory.
fn has_segments(taps: usize) -> bool {
    let pool = AvgPoolSpec::<3>::new([1, 1, taps]).stride([1; 3]);
    let problem = pool.problem(&[1, 1, 1, 1, 1 << 20]).expect("a sound pool");
    let windows = problem.pool.geometry().expect("a small pool");
    PoolRowsGeometry::in_segments(&windows).is_some()
}

const LIMITS: [Limit; 12] = [
    ("taps of a mean along an axis", 8, 9, |taps| {
        has_mean([99, 99], [1, taps])
    }),
    // The next products of two numbers up to 8.
    ("taps of a mean", 32, 35, |taps| match taps {
        32 => has_mean([99, 99], [4, 8]),
        _ => has_mean([99, 99], [5, 7]),
    }),
    (
        "elements of a mean's plane",
        (1 << 31) - 1,
        1 << 31,
        |columns| has_mean([1, columns], [1, 1]),
    ),
    ("filters of a pixel", 8, 9, |filters| {
        takes_few(9, [8, filters])
    }),
    ("values of few filters", 6144, 6144 + 8 * 8, |values| {
        takes_few(9, [values / 8, 8])
    }),
    (
        "pixels with few filters",
        (1 << 31) - 1,
        1 << 31,
        |columns| {
            let mut geometry = conv([1, 8, 1, 1, 9], [2, 8, 1, 1, 1], Conv3dSpec::default());
            (geometry.w, geometry.q) = (columns as u32, columns as u32);
            ConvNhwcGeometry::new(&geometry, true).is_ok()
        },
    ),
    // A segment has 1024 outputs, and its windows at most 8192 elements.
    (
        "taps of a row's segments",
        8192 - 1023,
        8193 - 1023,
        has_segments,
    ),
    ("values of a series", (1 << 31) - 1, 1 << 31, |count| {
        SeriesGeometry::of("softmax", [1, count, 1]).is_ok()
    }),
    ("blocks of a grid", (1 << 31) - 1, 1 << 31, |blocks| {
        LaunchShape::linear(blocks as u64, 32).is_some()
    }),
    // A sample of two rows of one pixel: the distance of the rows, and the second pixel.
    (
        "K-vectors of a sample",
        (1 << 30) - 1,
        1 << 30,
        |k_vectors| {
            let conv = conv([1, 8, 1, 2, 1], [64, 8, 1, 1, 1], Conv3dSpec::default());
            let tile = WARP_SPECIALIZED;
            let config = GemmConfig::with_tile(&conv, None, OperandFormat::STORED, &HOPPER, tile);
            let row = 8 * (k_vectors as i64 - 1);
            let config = config.expect("a tile");
            config.channels_last([0, 1, 0, row, 0], &HOPPER).is_some()
        },
    ),
    (
        "elements of a row of runs",
        0xffff << 16,
        1 << 32,
        |elements| {
            let (columns, channels) = ((elements >> 16) as u32, 1 << 16);
            RunBlocks::new((1, channels), 1, [1, 1, columns], 4, 16).is_ok()
        },
    ),
    (
        "vectors of an upsampled image",
        (1 << 31) - 2,
        1 << 31,
        |vectors| {
            let problem = UpsampleSpec::size([1, vectors / 2]).problem(&[1, 8, 1, 1]);
            let geometry = problem.expect("a sound problem").geometry();
            geometry.expect("small planes").channels_last(8).is_ok()
        },
    ),
];

#[test]
fn the_last_numbers_within_limits_are_taken_and_the_next_are_refused() {
    for (name, last, next, takes) in LIMITS {
        assert!(takes(last), "{name}: {last} is refused");
        assert!(!takes(next), "{name}: {next} is taken");
    }
}

#[test]
fn warps_take_rows_of_statistics_up_to_their_limit() {
    for (elements, blocks) in [
        (1, 3),
        (1023, 3),
        (1024, 3),
        (1025, 17),
        (8192, 17),
        (8193, 34),
    ] {
        let shape = NormGeometry::new(17, 1, 1, elements, 0.0).stats_shape();
        assert_eq!(shape.map(|shape| shape.grid[0]), Some(blocks), "{elements}");
    }
}

#[test]
fn rows_are_copied_in_vectors_if_every_number_is_whole_vectors() {
    for odd in 0..6 {
        let mut numbers = [8, 16, 4, 24, 12];
        if let Some(number) = numbers.get_mut(odd) {
            *number += 2;
        }
        let [elements, from_pitch, from, to_pitch, to] = numbers;
        let of = |pitch, start| RowsOf { pitch, start };
        let g = RowsGeometry::new(3, elements, of(from_pitch, from), of(to_pitch, to));
        assert_eq!(g.unit_elements, if odd == 5 { 4 } else { 1 }, "{numbers:?}");
    }
}
