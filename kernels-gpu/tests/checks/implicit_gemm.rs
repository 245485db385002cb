//! Implicit GEMM: convolutions, moments, and pooling in the epilogue.

use cuda_std::{bf16, f16};
use launch_config::Arch;
use launch_config::implicit_gemm::{
    GemmConfig, GemmDevice, GemmTile, OperandFormat, TILES, W64N128, WARP_SPECIALIZED,
};
use launch_config::norm::COUNTED_ELEMENTS;
use op_spec::ConvSpec;

use super::convolved::{Bf16x3, Convolution, F16x2, Format, ScaledF16};
use super::implicit_gemm_launch::{Ended, multiply, multiply_warp_specialized, prepare};
use super::{Loaded, Outcome, Run, Tensor, combine, compare, same_bits};

/// A device on which a block has several tiles to do.
pub(super) const DEVICE: GemmDevice = GemmDevice {
    multiprocessors: 1,
    shared_bytes: 227 * 1024,
    arch: Arch::Sm90,
    multiply_adds_per_cycle: 0,
};

/// One on which warp-specialized tiles come alone or in twos.
pub(super) const FOR_WARP_SPECIALIZED_TILES: GemmDevice = GemmDevice {
    multiprocessors: 2,
    ..DEVICE
};

/// One with more multiprocessors than tiles.
pub(super) const FOR_SINGLE_TILES: GemmDevice = GemmDevice {
    multiprocessors: 1000,
    ..DEVICE
};

/// One that multiplies warp by warp.
const WITHOUT_WARPGROUPS: GemmDevice = GemmDevice {
    arch: Arch::Sm80,
    multiply_adds_per_cycle: 0,
    ..DEVICE
};

/// `[n, c, k]`, extents of input and filter, attributes, the pool behind it, and what the input is multiplied
/// by.
pub(super) type Row = (
    [usize; 3],
    [usize; 3],
    [usize; 3],
    ConvSpec<3>,
    Option<[u32; 2]>,
    f32,
);

pub(super) fn spec(
    stride: [usize; 3],
    padding: [usize; 3],
    dilation: [usize; 3],
    groups: usize,
) -> ConvSpec<3> {
    ConvSpec {
        stride,
        padding: padding.into(),
        dilation,
        groups,
        ..ConvSpec::default()
    }
}

/// More terms than this make a long sum.
const LONG: u32 = 1024;

fn rows() -> Vec<Row> {
    let plain = ConvSpec::default();
    let mut rows = vec![
        // Several columns of the filter in a K-vector; tiles that are not whole; windows that are not.
        ([2, 3, 20], [1, 14, 21], [1, 3, 3], plain, Some([4, 4]), 1.0),
        // K blocks; a last one that is not full; a scale other than the optimistic one.
        (
            [1, 37, 9],
            [1, 15, 19],
            [1, 3, 3],
            spec([1; 3], [0, 1, 2], [1, 5, 5], 1),
            None,
            1e6,
        ),
        // Residues, groups, padding.
        (
            [2, 6, 10],
            [1, 19, 16],
            [1, 3, 5],
            spec([1, 2, 3], [0, 1, 2], [1, 2, 1], 2),
            Some([2, 2]),
            1e-3,
        ),
        // Groups each of which has more filters than a tile.
        (
            [1, 6, 140],
            [1, 5, 9],
            [1, 1, 2],
            spec([1; 3], [0; 3], [1; 3], 2),
            None,
            1.0,
        ),
        // Depth; more filters than a tile has.
        ([1, 4, 70], [4, 6, 9], [2, 3, 3], plain, None, 1.0),
        (
            [1, 2, 33],
            [5, 8, 9],
            [3, 1, 2],
            spec([2, 1, 1], [1, 0, 0], [1; 3], 1),
            None,
            1.0,
        ),
        // A sample whose largest magnitude is not known beforehand.
        ([1, 9, 4], [1, 42, 47], [1, 1, 1], plain, Some([3, 5]), 30.0),
        // Samples that are reformatted a second time: at the optimistic scale their largest values exceed
        // f16, by little and by far.
        ([1, 9, 4], [1, 42, 47], [1, 1, 1], plain, None, 200.0),
        ([1, 9, 4], [1, 42, 47], [1, 1, 1], plain, None, 1e4),
        // A long sum, of positive terms.
        ([1, 8192, 3], [1, 2, 5], [1, 1, 1], plain, None, 1.0),
        // Rows of an even and of an odd length, and pooled ones, with every tile.
        ([2, 9, 19], [3, 7, 12], [2, 2, 3], plain, None, 1.0),
        ([1, 9, 19], [1, 9, 11], [1, 3, 3], plain, None, 1.0),
        // Rows of a tile that are a multiple of two pixels apart, and slices that are not, of rows of eight.
        (
            [1, 8, 19],
            [2, 5, 9],
            [1, 1, 2],
            spec([1, 2, 1], [0; 3], [1; 3], 1),
            None,
            1.0,
        ),
        ([1, 9, 19], [1, 13, 16], [1, 3, 3], plain, Some([2, 2]), 1.0),
        // Filters of three warp-specialized tiles, and rows of a multiple of eight pixels.
        ([1, 20, 140], [1, 9, 18], [1, 3, 3], plain, None, 1.0),
        // Halo tiles of which shared memory holds two, and more K blocks.
        ([1, 72, 9], [3, 33, 10], [3, 3, 3], plain, None, 1.0),
        // One plane of K-vectors, whose neighbouring columns make the steps of warpgroups: an even and an odd
        // number of them; strides, dilation, depth.
        (
            [1, 3, 9],
            [1, 13, 30],
            [1, 7, 7],
            spec([1, 2, 2], [0, 3, 3], [1; 3], 1),
            None,
            1.0,
        ),
        (
            [2, 8, 20],
            [3, 9, 14],
            [2, 3, 5],
            spec([1; 3], [0, 1, 2], [1, 1, 3], 1),
            None,
            1.0,
        ),
        // More windows than threads.
        ([1, 8, 16], [1, 18, 34], [1, 3, 3], plain, Some([1, 1]), 1.0),
    ];
    // Square windows, and pixels that are left over. Depending on the tile, rows are a multiple of 1, 2 or 4
    // apart.
    rows.extend((2..=8).map(|extent| {
        let input = [1, 2 * extent + 3, 3 * extent + 4];
        let pool = Some([extent as u32; 2]);
        ([1, 12, 18], input, [1, 3, 3], plain, pool, 1.0)
    }));
    rows
}

/// The tiles that a row is computed with: that of its config without warpgroups, and the warpgroups'; all of
/// them if it has 19 filters.
fn tiles(&([_, _, k], .., pool, _): &Row) -> impl Iterator<Item = Option<GemmTile>> + use<> {
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

/// What a long sum of positive terms may be off by, in parts of it. Of 16 terms and a sum tensor cores cut
/// off what is below the second bit behind an f32's last, and then what is below that: less than 5.25 units
/// in the last place. They do so with three instructions a step and at most 17 steps in a row; these sums are
/// added with roundings of `2^-24`; and the factors are off by `2^-22`, as is the product of their low parts.
fn long_rounding(reduction: u32) -> f64 {
    let mma_steps = f64::from(reduction) / 16.0;
    let cut = (1.0 + 17.0 / 4.0) * f64::exp2(-23.0);
    17.0 * 3.0 * cut + mma_steps / 16.0 * f64::exp2(-24.0) + 3.0 * f64::exp2(-22.0)
}

/// How a format's operands are reformatted.
pub(crate) trait Operand: Format {
    const OPERANDS: OperandFormat;
}

impl Operand for F16x2 {
    const OPERANDS: OperandFormat = OperandFormat::F16X2;
}

impl Operand for ScaledF16 {
    const OPERANDS: OperandFormat = OperandFormat::SCALED_F16;
}

impl Operand for Bf16x3 {
    const OPERANDS: OperandFormat = OperandFormat::BF16X3;
}

impl Operand for f16 {
    const OPERANDS: OperandFormat = OperandFormat::STORED;
}

impl Operand for bf16 {
    const OPERANDS: OperandFormat = OperandFormat::STORED;
}

/// All rows, from filters to combined moments.
pub(crate) fn matches<F: Operand>(run: &Run) -> Outcome {
    for (number, row) in rows().into_iter().enumerate() {
        for tile in tiles(&row) {
            check_row::<F>(run, number, row, tile, 1)?;
        }
    }
    Ok(())
}

/// Rows that use all of what warp-specialized tiles have, in few blocks.
pub(crate) fn warp_specialized<F: Operand>(run: &Run) -> Outcome {
    let plain = ConvSpec::default();
    let mut rows: Vec<Row> = vec![
        // Seven tiles of filters, two a block, and several tiles of pixels for it; a last K block that is not
        // full.
        ([2, 72, 390], [1, 7, 18], [1, 1, 3], plain, None, 1.0),
        // One tile a block, of whose pixels each warpgroup has half; octets that are not eight K-vectors
        // apart.
        ([3, 32, 9], [3, 33, 10], [3, 3, 3], plain, None, 1.0),
        // Strips of octets side by side, which share a row of pixels.
        ([2, 20, 70], [1, 18, 18], [1, 3, 3], plain, None, 1.0),
        // Octets of several slices, all strides, a slice of the filter a K block, and rows of the halo tile
        // that nobody reads.
        (
            [1, 24, 70],
            [9, 17, 18],
            [3, 3, 3],
            spec([2; 3], [1; 3], [1, 2, 1], 1),
            None,
            1.0,
        ),
        // Octets of several slices, and all of the filter's in a K block.
        ([1, 24, 9], [9, 9, 9], [2, 2, 2], plain, None, 1.0),
        // Two tiles a block, whose rows are a multiple of four pixels, and of an odd number.
        ([1, 8, 140], [1, 4, 12], [1, 1, 1], plain, None, 1.0),
        ([1, 8, 140], [1, 3, 11], [1, 1, 1], plain, None, 1.0),
        // More steps in the one K block than a block has threads.
        ([1, 8, 9], [1, 31, 38], [1, 29, 31], plain, None, 1.0),
    ];
    if F::OPERANDS.parts == 1 {
        // Halo tiles of which shared memory has fewer than there are warps to load them. In two parts the row
        // above has such.
        let far = spec([1; 3], [0; 3], [1, 40, 20], 1);
        rows.push(([2, 96, 9], [1, 60, 40], [1, 2, 2], far, None, 1.0));
    }
    for (number, row) in rows.into_iter().enumerate() {
        check_row::<F>(run, number, row, Some(WARP_SPECIALIZED), 1)?;
    }
    Ok(())
}

/// Rows whose sums the blocks of clusters split, which have several tiles each.
pub(crate) fn split<F: Operand>(run: &Run) -> Outcome {
    let plain = ConvSpec::default();
    let rows: [Row; 2] = [
        // Two tiles of filters, in one block or in two, and several tiles of pixels.
        ([2, 70, 100], [1, 14, 30], [1, 3, 3], plain, None, 1.0),
        // One tile a block, and fewer K blocks than blocks of the largest cluster.
        ([3, 32, 9], [3, 17, 10], [3, 3, 3], plain, None, 1.0),
    ];
    for (number, row) in rows.into_iter().enumerate() {
        for split_k in [2, 4] {
            check_row::<F>(run, number, row, Some(WARP_SPECIALIZED), split_k)?;
        }
    }
    Ok(())
}

fn check_row<F: Operand>(
    run: &Run,
    number: usize,
    row: Row,
    tile: Option<GemmTile>,
    split_k: u32,
) -> Outcome {
    let (channels, input, filter, spec, pool, factor) = row;
    let mut conv = Convolution::new::<F::Stored>(channels, input, filter, spec);
    let reduction = conv.geometry.reduction();
    let long = reduction > LONG;
    if long && F::OPERANDS.parts == 1 {
        return Ok(());
    }
    if F::OPERANDS.scaled {
        conv.case = conv.case.scaled(factor);
    }
    let what = format!("row {number}");
    let mut products = F::PRODUCTS;
    if long {
        conv.case.x.mapv_inplace(f32::abs);
        conv.case.parameters[0].mapv_inplace(f32::abs);
        products = long_rounding(reduction) / (4.0 + f64::from(reduction).sqrt());
    }
    check_convolution::<F>(run, &what, &conv, products, pool, tile, split_k)
}

/// Products may be off by `products`.
pub(super) fn check_convolution<F: Operand>(
    run: &Run,
    what: &str,
    conv: &Convolution,
    products: f64,
    pool: Option<[u32; 2]>,
    tile: Option<GemmTile>,
    split_k: u32,
) -> Outcome {
    let config = match tile {
        Some(tile) => GemmConfig::with_tile(&conv.geometry, pool, F::OPERANDS, &DEVICE, tile),
        None => {
            let device = &WITHOUT_WARPGROUPS;
            GemmConfig::new(&conv.geometry, pool, F::OPERANDS, device, None).ok()
        }
    };
    let config = GemmConfig {
        split_k,
        ..config.expect("a config")
    };
    check_config::<F>(run, what, conv, products, pool, &config)
}

/// The same with `config`.
pub(super) fn check_config<F: Operand>(
    run: &Run,
    what: &str,
    conv: &Convolution,
    products: f64,
    pool: Option<[u32; 2]>,
    config: &GemmConfig,
) -> Outcome {
    let [n, k] = [
        conv.geometry.n as usize,
        conv.geometry.output_channels() as usize,
    ];
    let values = conv.values(products);
    let wanted_moments = conv.moments::<F::Stored>(&values, config.geometry.moment_channels);
    let wanted = conv.results::<F::Stored>(values, pool);

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
                .map(|mainloop| (mainloop.tiles, mainloop.ping_pong))
        };
        let mut seen = vec![blocks(&FOR_WARP_SPECIALIZED_TILES)];
        for device in [&DEVICE, &FOR_SINGLE_TILES] {
            // However a block's warpgroups share tiles, the bits are the same.
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
