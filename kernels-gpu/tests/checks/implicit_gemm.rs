//! Implicit GEMM: convolutions, moments, and pooling in the epilogue.

use launch_config::Arch;
use launch_config::implicit_gemm::{
    GemmConfig, GemmDevice, GemmTile, TILES, W64N128, WARP_SPECIALIZED,
};
use launch_config::norm::COUNTED_ELEMENTS;

use super::convolved::{Convolution, DEVICE, Operand};
use super::implicit_gemm_launch::{Ended, multiply, multiply_warp_specialized, prepare};
use super::rows::{Row, rows};
use super::{Loaded, Outcome, Run, Tensor, combine, compare, same_bits};

/// A device on which a block has one or two warp-specialized tiles.
pub(super) const FOR_WARP_SPECIALIZED_TILES: GemmDevice = GemmDevice {
    multiprocessors: 2,
    ..DEVICE
};

/// A device with more multiprocessors than tiles.
pub(super) const FOR_SINGLE_TILES: GemmDevice = GemmDevice {
    multiprocessors: 1000,
    ..DEVICE
};

/// A device without warpgroup MMAs.
const WITHOUT_WARPGROUPS: GemmDevice = GemmDevice {
    arch: Arch::Sm80,
    tensor_rates: None,
    ..DEVICE
};

/// The most terms of a sum that is not long.
const LONG: u32 = 1024;

fn rows() -> Vec<Row> {
    let mut rows = rows! {
        // Several columns of the filter in a K-vector; partial tiles; partial windows.
        [2, 3, 20], [1, 14, 21], [1, 3, 3], pool(4, 4);
        // Several K blocks, the last one partial; a scale other than the optimistic one.
        [1, 37, 9], [1, 15, 19], [1, 3, 3], padding([0, 1, 2]), dilation([1, 5, 5]), times(1e6);
        // Residues, groups, padding.
        [2, 6, 10], [1, 19, 16], [1, 3, 5], stride([1, 2, 3]), padding([0, 1, 2]), dilation([1, 2, 1]), groups(2), pool(2, 2), times(1e-3);
        // Groups with more filters than a tile.
        [1, 6, 140], [1, 5, 9], [1, 1, 2], groups(2);
        // Depth; more filters than a tile has.
        [1, 4, 70], [4, 6, 9], [2, 3, 3];
        [1, 2, 33], [5, 8, 9], [3, 1, 2], stride([2, 1, 1]), padding([1, 0, 0]);
        // A sample whose magnitudes are not searched beforehand.
        [1, 9, 4], [1, 42, 47], [1, 1, 1], pool(3, 5), times(30.0);
        // Samples that are reformatted again: at the optimistic scale f16 would not hold their largest
        // values, by a small and by a large factor.
        [1, 9, 4], [1, 42, 47], [1, 1, 1], times(200.0);
        [1, 9, 4], [1, 42, 47], [1, 1, 1], times(1e4);
        // A long sum, of positive terms.
        [1, 8192, 3], [1, 2, 5], [1, 1, 1];
        // Rows of even and odd length, and pooled ones, with every tile.
        [2, 9, 19], [3, 7, 12], [2, 2, 3];
        [1, 9, 19], [1, 9, 11], [1, 3, 3];
        // Tile rows at a distance of a multiple of two pixels, and slices at other distances, with rows of
        // eight.
        [1, 8, 19], [2, 5, 9], [1, 1, 2], stride([1, 2, 1]);
        [1, 9, 19], [1, 13, 16], [1, 3, 3], pool(2, 2);
        // Filters of three warp-specialized tiles, and rows of a multiple of eight pixels.
        [1, 20, 140], [1, 9, 18], [1, 3, 3];
        // Halo tiles of which shared memory holds two; more K blocks than that.
        [1, 72, 9], [3, 33, 10], [3, 3, 3];
        // One plane of K-vectors, whose neighbouring columns form the MMA steps of warpgroups: an even and an
        // odd number of columns; strides, dilation, depth.
        [1, 3, 9], [1, 13, 30], [1, 7, 7], stride([1, 2, 2]), padding([0, 3, 3]);
        [2, 8, 20], [3, 9, 14], [2, 3, 5], padding([0, 1, 2]), dilation([1, 1, 3]);
        // More windows than threads.
        [1, 8, 16], [1, 18, 34], [1, 3, 3], pool(1, 1);
    }
    .to_vec();
    // Square windows, and leftover pixels. Depending on the tile, rows are at distances of a multiple of 1, 2
    // or 4.
    rows.extend((2..=8).map(|extent| {
        let input = [1, 2 * extent + 3, 3 * extent + 4];
        Row::new([1, 12, 18], input, [1, 3, 3]).pool(extent as u32, extent as u32)
    }));
    rows
}

/// The tiles for a row: that of its config without warpgroups, and the warpgroup tiles; all tiles if it has
/// 19 filters.
fn tiles(
    &Row {
        channels: [_, _, k],
        pool,
        ..
    }: &Row,
) -> impl Iterator<Item = Option<GemmTile>> + use<> {
    let planned = [None, Some(W64N128), Some(WARP_SPECIALIZED)];
    let all = TILES.map(Some);
    let every = k == 19;
    planned
        .into_iter()
        .filter(move |_| !every)
        .chain(all.into_iter().filter(move |_| every))
        // Warp-specialized tiles do not pool.
        .filter(move |&tile| tile != Some(WARP_SPECIALIZED) || pool.is_none())
}

/// The tolerance of a long sum of positive terms, relative to the sum. From 16 terms and a sum, tensor cores
/// cut off the bits below the second one after f32's last, and then the rest below that: less than 5.25 units
/// in the last place. This happens for three instructions a step and at most 17 steps in a row. These sums
/// are added with roundings of `2^-24`. The factors have an error of `2^-22`, as has the product of their low
/// parts.
fn long_rounding(reduction: u32) -> f64 {
    let mma_steps = f64::from(reduction) / 16.0;
    let cut = (1.0 + 17.0 / 4.0) * f64::exp2(-23.0);
    17.0 * 3.0 * cut + mma_steps / 16.0 * f64::exp2(-24.0) + 3.0 * f64::exp2(-22.0)
}

/// Checks all rows, from filters to combined moments.
pub(crate) fn matches<F: Operand>(run: &Run) -> Outcome {
    for (number, row) in rows().into_iter().enumerate() {
        for tile in tiles(&row) {
            check_row::<F>(run, number, row, tile)?;
        }
    }
    Ok(())
}

/// Checks rows that use all features of warp-specialized tiles, in few blocks.
pub(crate) fn warp_specialized<F: Operand>(run: &Run) -> Outcome {
    let mut rows = rows! {
        // Seven tiles of filters, two a block, and several tiles of pixels for each; a partial last K block.
        [2, 72, 390], [1, 7, 18], [1, 1, 3];
        // One tile a block, with half of its pixels for each warpgroup; octets at distances other than eight
        // K-vectors.
        [3, 32, 9], [3, 33, 10], [3, 3, 3];
        // Adjacent strips of octets, which share a row of pixels.
        [2, 20, 70], [1, 18, 18], [1, 3, 3];
        // Octets of several slices, all strides, one slice of the filter a K block, and halo tile rows that
        // no window reads.
        [1, 24, 70], [9, 17, 18], [3, 3, 3], stride([2; 3]), padding([1; 3]), dilation([1, 2, 1]);
        // Octets of several slices, with all slices of the filter in one K block.
        [1, 24, 9], [9, 9, 9], [2, 2, 2];
        // Two tiles a block, with rows of a multiple of four pixels, and of an odd number.
        [1, 8, 140], [1, 4, 12], [1, 1, 1];
        [1, 8, 140], [1, 3, 11], [1, 1, 1];
        // More MMA steps in a single K block than a block has threads.
        [1, 8, 9], [1, 31, 38], [1, 29, 31];
    }
    .to_vec();
    if F::OPERANDS.parts == 1 {
        // Three tiles of filters, two a block. The halo tiles are so large that each is loaded for both.
        rows.extend(rows! { [1, 64, 130], [1, 30, 40], [1, 2, 2], dilation([1, 20, 16]); });
        // Shared memory holds fewer halo tiles than there are warps to load them. In two parts, the row above
        // has this property.
        rows.extend(rows! { [2, 96, 9], [1, 60, 40], [1, 2, 2], dilation([1, 40, 20]); });
    }
    for (number, row) in rows.into_iter().enumerate() {
        check_row::<F>(run, number, row, Some(WARP_SPECIALIZED))?;
    }
    Ok(())
}

/// Checks rows with split-K over the blocks of a cluster, with several tiles each.
pub(crate) fn split<F: Operand>(run: &Run) -> Outcome {
    let rows = rows! {
        // Two tiles of filters, in one block or in two, and several tiles of pixels.
        [2, 70, 100], [1, 14, 30], [1, 3, 3];
        // One tile a block, and shares of the K blocks that differ.
        [3, 70, 9], [3, 17, 10], [3, 3, 3];
    };
    for (number, row) in rows.into_iter().enumerate() {
        for split_k in [2, 4] {
            check_row::<F>(run, number, row.split(split_k), Some(WARP_SPECIALIZED))?;
        }
    }
    Ok(())
}

fn check_row<F: Operand>(run: &Run, number: usize, row: Row, tile: Option<GemmTile>) -> Outcome {
    let mut conv = Convolution::new::<F::Stored>(row);
    let reduction = conv.geometry.reduction();
    let long = reduction > LONG;
    if long && F::OPERANDS.parts == 1 {
        return Ok(());
    }
    if F::OPERANDS.scaled {
        conv.case = conv.case.scaled(row.factor);
    }
    if long {
        conv.case.x.mapv_inplace(f32::abs);
        conv.case.parameters[0].mapv_inplace(f32::abs);
        conv.products = Some(long_rounding(reduction) / (4.0 + f64::from(reduction).sqrt()));
    }
    check_convolution::<F>(run, &format!("row {number}"), &conv, tile)
}

/// The config of a convolution with a tile, or the config without warpgroups.
pub(super) fn config_of<F: Operand>(conv: &Convolution, tile: Option<GemmTile>) -> GemmConfig {
    let (geometry, pool) = (&conv.geometry, conv.row.pool);
    let config = match tile {
        Some(tile) => GemmConfig::with_tile(geometry, pool, F::OPERANDS, &DEVICE, tile),
        None => GemmConfig::new(geometry, pool, F::OPERANDS, &WITHOUT_WARPGROUPS, None).ok(),
    };
    GemmConfig {
        split_k: conv.row.split_k,
        ..config.expect("a config")
    }
}

/// Checks a convolution with a tile, or with the config without warpgroups.
pub(super) fn check_convolution<F: Operand>(
    run: &Run,
    what: &str,
    conv: &Convolution,
    tile: Option<GemmTile>,
) -> Outcome {
    check_config::<F>(run, what, conv, &config_of::<F>(conv, tile))
}

/// Checks a convolution with `config`.
pub(super) fn check_config<F: Operand>(
    run: &Run,
    what: &str,
    conv: &Convolution,
    config: &GemmConfig,
) -> Outcome {
    let [n, k] = [
        conv.geometry.n as usize,
        conv.geometry.output_channels() as usize,
    ];
    let values = conv.values(conv.products.unwrap_or(F::PRODUCTS));
    let wanted_moments = conv.moments::<F::Stored>(&values, config.geometry.moment_channels);
    let wanted = conv.results::<F::Stored>(values, conv.row.pool);

    let Loaded { x, parameters } = run.load::<F::Stored>(&conv.case)?;
    let factors = conv.factors::<F::Stored>(run)?;
    let y = run.empty::<F::Stored>(wanted.shape().iter().product())?;
    let moments = run.empty::<f32>(config.moment_elements() as usize)?;
    let combined = n * k / config.geometry.moment_channels as usize;
    let combined = run.empty::<f32>(combined * COUNTED_ELEMENTS)?;

    let operands = prepare::<F>(run, config, &x, &parameters[0])?;
    let without_norm = Ended::NONE;
    let none = run.empty::<F::Stored>(0)?;
    let bias = parameters.get(1).unwrap_or(&none);
    if config.tile.is_warp_specialized() {
        let multiply = |device: &GemmDevice, y: &Tensor<F::Stored>, moments: &Tensor<f32>| {
            multiply_warp_specialized::<F>(
                run,
                config,
                device,
                &operands,
                bias,
                &without_norm,
                y,
                moments,
            )
        };
        multiply(&FOR_WARP_SPECIALIZED_TILES, &y, &moments)?;
        let blocks = |device| {
            config
                .mainloop_config(device)
                .map(|mainloop| (mainloop.tiles, mainloop.schedule))
        };
        let mut seen = vec![blocks(&FOR_WARP_SPECIALIZED_TILES)];
        for device in [&DEVICE, &FOR_SINGLE_TILES] {
            // The bits do not depend on how a block's warpgroups share tiles.
            if !seen.contains(&blocks(device)) {
                seen.push(blocks(device));
                let other = run.empty::<F::Stored>(wanted.shape().iter().product())?;
                let other_moments = run.empty::<f32>(config.moment_elements() as usize)?;
                multiply(device, &other, &other_moments)?;
                same_bits(what, &other, &y)?;
                same_bits(&format!("{what}, moments"), &other_moments, &moments)?;
            }
        }
    } else {
        multiply::<F>(
            run,
            config,
            &operands,
            bias,
            &factors,
            &without_norm,
            &y,
            &moments,
        )?;
    }
    combine::whole(run, &moments, config.moment_parts(), &combined)?;

    let what = format!("{what}, {:?}, split by {}", config.tile, config.split_k);
    compare(&format!("{what}, moments"), &combined, &wanted_moments)?;
    compare(&what, &y, &wanted)
}
