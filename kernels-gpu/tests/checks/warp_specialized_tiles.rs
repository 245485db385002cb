//! Warp-specialized tiles: two outputs for each filter, the ping-pong schedule, and moments of several
//! channels.

use launch_config::implicit_gemm::{GemmConfig, WARP_SPECIALIZED};

use super::convolved::{Convolution, DEVICE, Operand};
use super::implicit_gemm::{FOR_WARP_SPECIALIZED_TILES, check_config};
use super::rows::{Row, rows};
use super::{Outcome, Run};

/// Checks rows whose tiles have two neighbouring outputs in depth for each pixel place.
pub(crate) fn two_outputs<F: Operand>(run: &Run) -> Outcome {
    let rows = rows! {
        // An even number of outputs in depth, in tiles of one slice, with resident filters; padding on all
        // sides.
        [1, 16, 32], [4, 17, 10], [3, 3, 3], padding([1; 3]);
        // An odd number of outputs in depth: tiles of several slices have the last one alone; fewer filters
        // than half a tile.
        [1, 24, 25], [9, 9, 9], [3, 3, 3], padding([1; 3]);
        // All slices of the filter in a K block; more rows and columns than tiles have.
        [1, 16, 27], [4, 18, 10], [2, 2, 2];
        // Groups, strides and dilation along the rows and columns; filters that wrap around the pipeline.
        [2, 32, 52], [3, 11, 14], [4, 3, 3], stride([1, 2, 2]), padding([2, 1, 0]), dilation([1, 2, 1]), groups(2);
        // One plane, whose neighbouring columns form an MMA step.
        [2, 8, 30], [3, 9, 14], [2, 3, 5], padding([0, 1, 2]), dilation([1, 1, 3]);
        // An odd number of slices, in tiles of one slice: half of the last tiles' filters compute nothing.
        [1, 16, 32], [5, 10, 18], [3, 3, 3];
    };
    for (number, row) in rows.into_iter().enumerate() {
        let conv = Convolution::new::<F::Stored>(row);
        for split_k in [1, 2].into_iter().take(1 + number % 2) {
            let config = GemmConfig::with_two_outputs(&conv.geometry, F::OPERANDS, &DEVICE);
            let config =
                config.and_then(|config| config.split_by(split_k, &FOR_WARP_SPECIALIZED_TILES));
            let Some(config) = config else {
                assert!(split_k > 1, "row {number}");
                continue;
            };
            let what = format!("row {number}, {split_k} blocks a sum");
            check_config::<F>(run, &what, &conv, &config)?;
        }
    }
    Ok(())
}

/// Checks rows of the ping-pong schedule, with numbers of tiles that leave one tile more to one warpgroup
/// than to the other.
pub(crate) fn ping_pong<F: Operand>(run: &Run) -> Outcome {
    let rows = rows! {
        // One K block a tile, fewer than there are pipeline stages; resident filters.
        [5, 16, 40], [1, 9, 12], [1, 1, 1];
        // Both pipelines wrap around within a tile and from one to the next.
        [1, 72, 60], [5, 18, 20], [3, 3, 3];
        // Two groups of one tile, with resident filters; halo tiles wrap around.
        [1, 48, 80], [1, 35, 20], [1, 3, 3], padding([0, 1, 1]), groups(2);
        // Strides.
        [2, 24, 48], [7, 11, 19], [3, 3, 3], stride([1, 1, 2]), padding([1; 3]);
        // A first layer: one plane with two columns a K-vector and neighbouring K-vectors a step, and
        // strides.
        [2, 3, 48], [1, 37, 41], [1, 7, 7], stride([1, 2, 2]), padding([0, 3, 3]);
        // A first layer of a volume, with slices.
        [1, 4, 60], [5, 9, 18], [3, 3, 3], padding([1; 3]);
    };
    for (number, row) in rows.into_iter().enumerate() {
        let conv = Convolution::new::<F::Stored>(row);
        let config =
            GemmConfig::with_tile(&conv.geometry, None, F::OPERANDS, &DEVICE, WARP_SPECIALIZED);
        let config = config.expect("a config");
        let mainloop = config.mainloop_config(&DEVICE).expect("a wide tile");
        let is_ping_pong = mainloop.schedule.is_ping_pong();
        assert!(is_ping_pong, "row {number}: {mainloop:?}");
        let what = format!("row {number}, alternating");
        check_config::<F>(run, &what, &conv, &config)?;
    }
    Ok(())
}

/// Checks rows with moments of several neighbouring channels together, 2 to 16 of different magnitudes: of
/// halves of tiles and whole ones, of groups whose last warp has fewer filters, of partial tiles, of two
/// outputs, and of split-K.
pub(crate) fn moments_together<F: Operand>(run: &Run) -> Outcome {
    let rows = rows! {
        [2, 8, 160], [1, 9, 18], [1, 1, 1];
        [1, 16, 72], [1, 9, 33], [1, 3, 3];
        [1, 16, 72], [1, 9, 33], [1, 3, 3];
        // In a group of 24 filters, the second warp has eight.
        [1, 16, 48], [1, 10, 20], [1, 3, 3], padding([0, 1, 1]), groups(2);
        [1, 16, 36], [1, 10, 20], [1, 3, 3], padding([0, 1, 1]), groups(2);
        [1, 16, 32], [5, 10, 18], [3, 3, 3], padding([1; 3]);
        [2, 96, 64], [1, 7, 10], [1, 3, 3], split(2);
    };
    // For each row, the number of channels of a moment, and of outputs in depth of a tile.
    let of_rows = [[16, 1], [8, 1], [4, 1], [8, 1], [2, 1], [16, 2], [16, 1]];
    for (number, (row, [together, outputs_d])) in rows.into_iter().zip(of_rows).enumerate() {
        let conv = Convolution::new::<F::Stored>(row);
        let (geometry, format) = (&conv.geometry, F::OPERANDS);
        let config = match outputs_d {
            1 => GemmConfig::with_tile(geometry, None, format, &DEVICE, WARP_SPECIALIZED),
            _ => GemmConfig::with_two_outputs(geometry, format, &DEVICE),
        };
        let config = config.expect("a config");
        let mut config = match row.split_k {
            1 => config,
            split_k => {
                (config.split_by(split_k, &FOR_WARP_SPECIALIZED_TILES)).expect("a sum to split")
            }
        };
        config.geometry.moment_channels = together;
        let what = format!("row {number}, moments of {together} channels");
        check_config::<F>(run, &what, &conv, &config)?;
    }
    Ok(())
}
