//! The limits of launches: the last number that a kernel takes, and the first that it refuses.

use launch_config::conv_mean::Convolved;
use launch_config::conv_nhwc::ConvNhwcGeometry;
use launch_config::pool_rows::PoolRowsGeometry;
use launch_config::series::SeriesGeometry;
use launch_config::{KernelGeometry, LaunchShape};
use op_spec::{AvgPoolSpec, Conv3dSpec, ConvProblem};

use crate::conv;

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

const LIMITS: [Limit; 9] = [
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
];

#[test]
fn the_last_numbers_within_limits_are_taken_and_the_next_are_refused() {
    for (name, last, next, takes) in LIMITS {
        assert!(takes(last), "{name}: {last} is refused");
        assert!(!takes(next), "{name}: {next} is taken");
    }
}
