//! Warp-specialized tiles of two outputs for each filter, those of the ping-pong schedule, and moments of
//! several channels.

use launch_config::implicit_gemm::{GemmConfig, WARP_SPECIALIZED};
use op_spec::ConvSpec;

use super::convolved::Convolution;
use super::implicit_gemm::{DEVICE, FOR_WARP_SPECIALIZED_TILES, Operand, Row, check_config, spec};
use super::{Outcome, Run};

/// Rows whose tiles have two neighbouring outputs in depth for each place of a pixel.
pub(crate) fn two_outputs<F: Operand>(run: &Run) -> Outcome {
    let plain = ConvSpec::default();
    let padded = spec([1; 3], [1; 3], [1; 3], 1);
    let rows: [Row; 6] = [
        // An even number of outputs in depth, in tiles of one slice, that share filters which stay; padding
        // on all sides.
        ([1, 16, 32], [4, 17, 10], [3, 3, 3], padded, None, 1.0),
        // An odd number, of which tiles of several slices have the last alone; fewer filters than half a
        // tile.
        ([1, 24, 25], [9, 9, 9], [3, 3, 3], padded, None, 1.0),
        // All slices of the filter in a K block; more rows and columns than tiles have.
        ([1, 16, 27], [4, 18, 10], [2, 2, 2], plain, None, 1.0),
        // Groups, strides and dilation along the rows and columns; filters that come round.
        (
            [2, 32, 52],
            [3, 11, 14],
            [4, 3, 3],
            spec([1, 2, 2], [2, 1, 0], [1, 2, 1], 2),
            None,
            1.0,
        ),
        // One plane, whose neighbouring columns make a step.
        (
            [2, 8, 30],
            [3, 9, 14],
            [2, 3, 5],
            spec([1; 3], [0, 1, 2], [1, 1, 3], 1),
            None,
            1.0,
        ),
        // An odd number of slices, in tiles of one: half of the last ones' filters make nothing.
        ([1, 16, 32], [5, 10, 18], [3, 3, 3], plain, None, 1.0),
    ];
    for (number, row) in rows.into_iter().enumerate() {
        let (channels, input, filter, spec, ..) = row;
        let conv = Convolution::new::<F::Stored>(channels, input, filter, spec);
        for split_k in [1, 2].into_iter().take(1 + number % 2) {
            let config = GemmConfig::with_two_outputs(&conv.geometry, F::OPERANDS, &DEVICE);
            let config =
                config.and_then(|config| config.split_by(split_k, &FOR_WARP_SPECIALIZED_TILES));
            let Some(config) = config else {
                assert!(split_k > 1, "row {number}");
                continue;
            };
            let what = format!("row {number}, {split_k} blocks a sum");
            check_config::<F>(run, &what, &conv, F::PRODUCTS, None, &config)?;
        }
    }
    Ok(())
}

/// Rows of the ping-pong schedule, with numbers of tiles that leave one warpgroup one more than the other.
pub(crate) fn ping_pong<F: Operand>(run: &Run) -> Outcome {
    let plain = ConvSpec::default();
    let rows: [Row; 6] = [
        // One K block a tile, fewer than there are pipeline stages; resident filters.
        ([5, 16, 40], [1, 9, 12], [1, 1, 1], plain, None, 1.0),
        // Both pipelines wrap within a tile and from one to the next.
        ([1, 72, 60], [5, 18, 20], [3, 3, 3], plain, None, 1.0),
        // Two groups of one tile, whose filters stay; halo tiles come round.
        (
            [1, 48, 80],
            [1, 35, 20],
            [1, 3, 3],
            spec([1; 3], [0, 1, 1], [1; 3], 2),
            None,
            1.0,
        ),
        // Strides.
        (
            [2, 24, 48],
            [7, 11, 19],
            [3, 3, 3],
            spec([1, 1, 2], [1; 3], [1; 3], 1),
            None,
            1.0,
        ),
        // A first layer: one plane, in which two columns are a K-vector and neighbouring K-vectors a step,
        // and strides.
        (
            [2, 3, 48],
            [1, 37, 41],
            [1, 7, 7],
            spec([1, 2, 2], [0, 3, 3], [1; 3], 1),
            None,
            1.0,
        ),
        // That of a volume, with slices.
        (
            [1, 4, 60],
            [5, 9, 18],
            [3, 3, 3],
            spec([1; 3], [1; 3], [1; 3], 1),
            None,
            1.0,
        ),
    ];
    for (number, row) in rows.into_iter().enumerate() {
        let (channels, input, filter, spec, ..) = row;
        let conv = Convolution::new::<F::Stored>(channels, input, filter, spec);
        let config =
            GemmConfig::with_tile(&conv.geometry, None, F::OPERANDS, &DEVICE, WARP_SPECIALIZED);
        let config = config.expect("a config");
        let mainloop = config.mainloop_config(&DEVICE).expect("a wide tile");
        assert_eq!(mainloop.ping_pong, 1, "row {number}: {mainloop:?}");
        let what = format!("row {number}, ping-pong");
        check_config::<F>(run, &what, &conv, F::PRODUCTS, None, &config)?;
    }
    Ok(())
}

/// Rows whose moments are those of several neighbouring channels, 2 to 16 of them, which differ as channels
/// do: of halves of tiles and whole ones, of groups whose last warp has fewer filters than others, of tiles
/// that are not whole, two outputs, and sums that are split.
pub(crate) fn moments_together<F: Operand>(run: &Run) -> Outcome {
    let plain = ConvSpec::default();
    let grouped = spec([1; 3], [0, 1, 1], [1; 3], 2);
    let padded = spec([1; 3], [1; 3], [1; 3], 1);
    // What is convolved; how many channels have one moment, how many blocks split a sum, how many outputs in
    // depth a tile makes.
    type Together = ([usize; 3], [usize; 3], [usize; 3], ConvSpec<3>, [u32; 3]);
    let rows: [Together; 7] = [
        ([2, 8, 160], [1, 9, 18], [1, 1, 1], plain, [16, 1, 1]),
        ([1, 16, 72], [1, 9, 33], [1, 3, 3], plain, [8, 1, 1]),
        ([1, 16, 72], [1, 9, 33], [1, 3, 3], plain, [4, 1, 1]),
        // Of a group of 24 filters the second warp has eight.
        ([1, 16, 48], [1, 10, 20], [1, 3, 3], grouped, [8, 1, 1]),
        ([1, 16, 36], [1, 10, 20], [1, 3, 3], grouped, [2, 1, 1]),
        ([1, 16, 32], [5, 10, 18], [3, 3, 3], padded, [16, 1, 2]),
        ([2, 96, 64], [1, 7, 10], [1, 3, 3], plain, [16, 2, 1]),
    ];
    for (number, (channels, input, filter, spec, of_row)) in rows.into_iter().enumerate() {
        let [together, split_k, outputs_d] = of_row;
        let conv = Convolution::new::<F::Stored>(channels, input, filter, spec);
        let (geometry, format) = (&conv.geometry, F::OPERANDS);
        let config = match outputs_d {
            1 => GemmConfig::with_tile(geometry, None, format, &DEVICE, WARP_SPECIALIZED),
            _ => GemmConfig::with_two_outputs(geometry, format, &DEVICE),
        };
        let config = config.expect("a config");
        let mut config = match split_k {
            1 => config,
            _ => (config.split_by(split_k, &FOR_WARP_SPECIALIZED_TILES)).expect("a sum to split"),
        };
        config.geometry.moment_channels = together;
        let what = format!("row {number}, moments of {together} channels");
        check_config::<F>(run, &what, &conv, F::PRODUCTS, None, &config)?;
    }
    Ok(())
}
