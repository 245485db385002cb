//! Implicit GEMM, corner cases: K-vectors of few channels, no bias, windows in every tile, extreme
//! magnitudes, non-finite values.

use launch_config::implicit_gemm::{GemmTile, M64N32, Prescale, TILES, W64N128, WARP_SPECIALIZED};
use ndarray::{ArrayViewMutD, Axis};
use oracle::numbers;

use super::convolved::{Convolution, Operand};
use super::implicit_gemm::{check_config, check_convolution, config_of};
use super::rows::{Row, rows};
use super::{Outcome, Run};

/// The tiles that take moments: that of the config without warpgroups, and the warpgroup tiles.
const USUAL: [Option<GemmTile>; 3] = [None, Some(W64N128), Some(WARP_SPECIALIZED)];

/// Checks K-vectors of one and of two channels, with several filter columns each; and no bias.
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

/// Checks sums that are promoted more than once, in every tile that promotes, and rows of an odd number of
/// pixels in two warp-specialized tiles a block.
pub(crate) fn sums_and_rows<F: Operand>(run: &Run) -> Outcome {
    // Three times as many MMA steps as sums take before a promotion.
    let long = Convolution::new::<F::Stored>(Row::new([1, 1040, 9], [1, 2, 5], [1, 1, 1]));
    let kept = TILES.into_iter().filter(|tile| tile.promotes());
    for tile in kept.filter(|_| F::OPERANDS.step_parts() == 2) {
        check_convolution::<F>(run, "a long sum", &long, Some(tile))?;
    }
    let odd = Convolution::new::<F::Stored>(Row::new([1, 8, 70], [1, 6, 13], [1, 3, 3]));
    check_convolution::<F>(run, "odd rows", &odd, Some(WARP_SPECIALIZED))
}

/// Checks windows of every extent, in every tile that pools: square and other windows, with rows of vectors
/// and of single elements.
pub(crate) fn windows<F: Operand>(run: &Run) -> Outcome {
    let squares = (2..=8).map(|extent| [extent; 2]);
    let others = [[3, 4], [4, 2], [2, 3]];
    // Two suffice in other thread orders: windows differ only in their position.
    let count = if run.seed.is_none() { 10 } else { 2 };
    for pool in others.into_iter().chain(squares).take(count) {
        let [h, w] = pool.map(|extent| extent as usize);
        // Two rows of windows, and leftover pixels.
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

/// Checks f32 values so small that the reciprocal of both scales is not a normal number, with the smaller
/// scale on the input or on the filters; zeros throughout the input and a filter; an input beyond f16's
/// range; and one in which only one block among many is beyond it.
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
    // More blocks reformat a sample than a block has threads, and the last one has the largest value. Few
    // terms of a sum are not 0.
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

/// Checks samples that are too large for a search of their largest magnitude before the reformat. One,
/// another or two of them need a scale other than the optimistic one.
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

/// Checks samples, and filters, whose largest magnitudes are at the bounds between scales and beside them.
/// Their other values are much smaller: a scale that is too small would lose them, and one that is too large
/// gives infinity. Every other sample has an infinity, which is no largest magnitude, in another group.
pub(crate) fn peaks<F: Operand>(run: &Run) -> Outcome {
    // The moments have squares of the results.
    let usual = f32::exp2(-50.0)..f32::exp2(50.0);
    let all: Vec<f32> = numbers::peaks()
        .into_iter()
        .filter(|peak| usual.contains(peak))
        .collect();
    let rise = |values: ArrayViewMutD<'_, f32>, peak| {
        let mut values: Vec<&mut f32> = values.into_iter().collect();
        for small in values.iter_mut().skip(1).step_by(2) {
            **small *= f32::exp2(-12.0);
        }
        numbers::scale_to(values.into_iter(), peak);
    };
    for of_samples in [true, false] {
        let channels = match of_samples {
            true => [all.len(), 4, 4],
            false => [1, 4, all.len().next_multiple_of(2)],
        };
        let row = Row::new(channels, [1, 2, 3], [1, 1, 1])
            .groups(2)
            .without_bias();
        let mut conv = Convolution::new::<F::Stored>(row);
        let tensor = match of_samples {
            true => &mut conv.case.x,
            false => &mut conv.case.parameters[0],
        };
        for ((number, mut values), &peak) in tensor.outer_iter_mut().enumerate().zip(&all) {
            if of_samples {
                let (mut first, second) = values.view_mut().split_at(Axis(0), 2);
                rise(second, peak);
                first.fill(0.0);
                // With a NaN beside it, so that any result that reads it is NaN.
                let specials = [[0.0; 2], [f32::INFINITY, f32::NAN]][number % 2];
                first
                    .iter_mut()
                    .step_by(6)
                    .zip(specials)
                    .for_each(|(x, of)| *x = of);
            } else {
                rise(values, peak);
            }
        }
        // Scales do not depend on tiles, and those of filters not on the search.
        let searches = [Prescale::SCANNED, Prescale::OPTIMISTIC];
        for prescale in searches.into_iter().take(1 + usize::from(of_samples)) {
            let what = format!("peaks, of samples: {of_samples}, {prescale:?}");
            let mut config = config_of::<F>(&conv, None);
            config.geometry.prescale = prescale;
            check_config::<F>(run, &what, &conv, &config)?;
        }
    }
    Ok(())
}

/// Checks that a NaN of the input, a NaN of a filter and an infinity spoil their products, but no scale.
pub(crate) fn not_a_number<F: Operand>(run: &Run) -> Outcome {
    let row = Row::new([2, 16, 20], [1, 5, 9], [1, 1, 1]);
    let mut conv = Convolution::new::<F::Stored>(row);
    conv.case.x[[1, 3, 0, 2, 4]] = f32::NAN;
    conv.case.parameters[0][[2, 5, 0, 0, 0]] = f32::NAN;
    for tile in USUAL {
        check_convolution::<F>(run, "NaN", &conv, tile)?;
    }
    // An infinity does not count as the largest value either: f16 holds the values of the other group, which
    // do not meet it, only scaled.
    let mut conv = Convolution::new::<F::Stored>(row.groups(2));
    if F::OPERANDS.scaled {
        conv.case = conv.case.scaled(f32::exp2(20.0));
    }
    // With a NaN beside it, so that any result that reads it is NaN.
    conv.case.x[[1, 3, 0, 2, 4]] = f32::INFINITY;
    conv.case.x[[1, 4, 0, 2, 4]] = f32::NAN;
    for tile in USUAL {
        check_convolution::<F>(run, "infinity", &conv, tile)?;
    }
    Ok(())
}
