//! Implicit GEMM, cases that the other checks leave out: K-vectors of few channels, no bias, windows in
//! every tile, magnitudes at their ends, what is not finite.

use launch_config::implicit_gemm::{GemmTile, M64N32, TILES, W64N128, WARP_SPECIALIZED};
use ndarray::Axis;

use super::convolved::Convolution;
use super::implicit_gemm::{Operand, check_convolution};
use super::rows::{Row, rows};
use super::{Outcome, Run};

/// Tiles that no norm but also moments are taken with: that of the config without warpgroups, and the
/// warpgroups'.
const USUAL: [Option<GemmTile>; 3] = [None, Some(W64N128), Some(WARP_SPECIALIZED)];

/// K-vectors of one and of two channels, with columns of the filter's reach beside each other; and no bias.
pub(crate) fn few_channels<F: Operand>(run: &Run) -> Outcome {
    let rows = rows! {
        [2, 1, 5], [1, 6, 20], [1, 2, 7], padding([0, 1, 3]);
        [1, 1, 9], [3, 5, 17], [2, 2, 5], stride([1, 1, 2]);
        [2, 2, 9], [1, 7, 14], [1, 3, 3];
        [1, 2, 4], [2, 6, 11], [1, 2, 4], groups(2);
        [1, 1, 17], [1, 9, 13], [1, 3, 3], stride([1, 1, 2]);
    };
    for (number, row) in rows.into_iter().enumerate() {
        let conv = Convolution::new::<F::Stored>(row.without_bias());
        for tile in USUAL {
            let what = format!("row {number} of few channels");
            check_convolution::<F>(run, &what, &conv, tile)?;
        }
    }
    Ok(())
}

/// Sums that are promoted more than once, in every tile that does; and rows of an odd number of pixels in two
/// warp-specialized tiles a block.
pub(crate) fn sums_and_rows<F: Operand>(run: &Run) -> Outcome {
    // More steps than sums take before they are promoted, three times over.
    let long = Convolution::new::<F::Stored>(Row::new([1, 1040, 9], [1, 2, 5], [1, 1, 1]));
    let kept = TILES.into_iter().filter(|tile| tile.promotes());
    for tile in kept.filter(|_| F::OPERANDS.step_parts() == 2) {
        check_convolution::<F>(run, "a long sum", &long, Some(tile))?;
    }
    let odd = Convolution::new::<F::Stored>(Row::new([1, 8, 70], [1, 6, 13], [1, 3, 3]));
    check_convolution::<F>(run, "odd rows", &odd, Some(WARP_SPECIALIZED))
}

/// Windows of every extent, in every tile that pools; square ones and such as are not, with rows of vectors
/// and of single elements.
pub(crate) fn windows<F: Operand>(run: &Run) -> Outcome {
    let squares = (2..=8).map(|extent| [extent; 2]);
    let others = [[3, 4], [4, 2], [2, 3]];
    // In other orders of threads two will do: windows differ in where they lie alone.
    let count = if run.seed.is_none() { 10 } else { 2 };
    for pool in others.into_iter().chain(squares).take(count) {
        let [h, w] = pool.map(|extent| extent as usize);
        // Two rows of windows, and pixels that are left over.
        let input = [1, 2 * h + 3, 2 * w + 3];
        let row = Row::new([1, 8, 9], input, [1, 3, 3]).pool(pool[0], pool[1]);
        let conv = Convolution::new::<F::Stored>(row);
        let has_room =
            |tile: &GemmTile| tile.pixels() as usize >= h * w && *tile != WARP_SPECIALIZED;
        for tile in TILES.into_iter().filter(has_room) {
            let what = format!("windows {pool:?}");
            check_convolution::<F>(run, &what, &conv, Some(tile))?;
        }
    }
    Ok(())
}

/// f32 so small that what undoes both scales is no normal number, the input's being the smaller one and the
/// filters'; nothing but zeros, in the input, in a filter; an input that f16 does not hold; and one of which
/// a block among many does not.
pub(crate) fn magnitudes<F: Operand>(run: &Run) -> Outcome {
    for (of_input, of_filters) in [(-60, -70), (-75, -55), (-10_000, 0), (20, 0)] {
        let mut conv = Convolution::new::<F::Stored>(Row::new([1, 9, 20], [1, 8, 13], [1, 2, 2]));
        conv.case = conv.case.scaled(f32::exp2(of_input as f32));
        let [weight, bias] = &mut conv.case.parameters[..] else {
            unreachable!("a weight and a bias")
        };
        weight.mapv_inplace(|w| w * f32::exp2(of_filters as f32));
        weight.index_axis_mut(Axis(0), 3).fill(0.0);
        bias.fill(0.0);
        for tile in USUAL.into_iter().chain([Some(M64N32)]) {
            let what = format!("input of 2^{of_input}, filters of 2^{of_filters}");
            check_convolution::<F>(run, &what, &conv, tile)?;
        }
    }
    // More blocks reformat a sample than a block has threads, and the last one has what is largest. Few terms
    // of a sum are not 0.
    let mut conv = Convolution::new::<F::Stored>(Row::new([1, 2064, 3], [1, 3, 3], [1, 1, 1]));
    for (channel, mut plane) in conv.case.x.axis_iter_mut(Axis(1)).enumerate() {
        let factor = match channel {
            0..16 => 1.0,
            2063 => 1e4,
            _ => 0.0,
        };
        plane.mapv_inplace(|value| value * factor);
    }
    check_convolution::<F>(run, "many blocks", &conv, None)
}

/// Samples that are too large for a search of their largest magnitude before the reformat. One, another or
/// two of them need another scale than the optimistic one.
pub(crate) fn samples_apart<F: Operand>(run: &Run) -> Outcome {
    for exponents in [[0, 20, -20], [30, 0, 0]] {
        let row = Row::new([3, 9, 4], [1, 42, 47], [1, 1, 1]).without_bias();
        let mut conv = Convolution::new::<F::Stored>(row);
        for (mut sample, exponent) in conv.case.x.outer_iter_mut().zip(exponents) {
            sample.mapv_inplace(|value| value * f32::exp2(exponent as f32));
        }
        let what = format!("samples of 2^{exponents:?}");
        check_convolution::<F>(run, &what, &conv, None)?;
    }
    Ok(())
}

/// A NaN of the input, one of a filter and an infinity spoil what they are multiplied with, and no scale.
pub(crate) fn not_a_number<F: Operand>(run: &Run) -> Outcome {
    let row = Row::new([2, 16, 20], [1, 5, 9], [1, 1, 1]);
    let mut conv = Convolution::new::<F::Stored>(row);
    conv.case.x[[1, 3, 0, 2, 4]] = f32::NAN;
    conv.case.parameters[0][[2, 5, 0, 0, 0]] = f32::NAN;
    for tile in USUAL {
        check_convolution::<F>(run, "NaN", &conv, tile)?;
    }
    // An infinity is no largest value either: what it does not meet, of another group, f16 holds only scaled.
    let mut conv = Convolution::new::<F::Stored>(row.groups(2));
    if F::OPERANDS.scaled {
        conv.case = conv.case.scaled(f32::exp2(20.0));
    }
    // With a NaN beside it, so that whatever meets it is NaN and nothing else.
    conv.case.x[[1, 3, 0, 2, 4]] = f32::INFINITY;
    conv.case.x[[1, 4, 0, 2, 4]] = f32::NAN;
    for tile in USUAL {
        check_convolution::<F>(run, "infinity", &conv, tile)?;
    }
    Ok(())
}
