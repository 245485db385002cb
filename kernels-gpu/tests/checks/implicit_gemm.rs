//! The implicit matrix product: what it convolves, the moments that it takes, the windows that it pools.

use cuda_std::{Label, bf16, f16};
use op_spec::conv::ConvSpec;
use op_spec::launch::implicit_gemm::{
    GemmConfig, GemmDevice, GemmTile, OperandFormat, TILES, W64N128,
};
use op_spec::launch::norm::COUNTED_ELEMENTS;

use super::super::kernels::fused::implicit_gemm::*;
use super::convolved::{convolved, wanted_moments, wanted_results};
use super::{Outcome, Run, compare, signed};

/// A device on which a block has several tiles to do.
const DEVICE: GemmDevice = GemmDevice {
    multiprocessors: 1,
    shared_bytes: 227 * 1024,
    warpgroups: true,
};

/// One that multiplies warp by warp.
const WITHOUT_WARPGROUPS: GemmDevice = GemmDevice {
    warpgroups: false,
    ..DEVICE
};

/// `[n, c, k]`, extents of input and filter, attributes, the pool behind it, and what the input is multiplied by.
type Row = (
    [usize; 3],
    [usize; 3],
    [usize; 3],
    ConvSpec<3>,
    Option<[u32; 2]>,
    f32,
);

fn spec(
    stride: [usize; 3],
    padding: [usize; 3],
    dilation: [usize; 3],
    groups: usize,
) -> ConvSpec<3> {
    ConvSpec {
        stride,
        padding,
        dilation,
        groups,
    }
}

/// More terms than this make a long sum.
const LONG: u32 = 1024;

fn rows() -> Vec<Row> {
    let plain = ConvSpec::default();
    let mut rows = vec![
        // Several columns of the filter in a cell; tiles that are not whole; windows that are not.
        ([2, 3, 20], [1, 14, 21], [1, 3, 3], plain, Some([4, 4]), 1.0),
        // Stages; a last one that is not full; a scale that is not the usual one.
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
        // A sample that is not looked through beforehand.
        (
            [1, 9, 4],
            [1, 42, 47],
            [1, 1, 1],
            plain,
            Some([3, 5]),
            300.0,
        ),
        // A long sum, of positive terms.
        ([1, 8192, 3], [1, 2, 5], [1, 1, 1], plain, None, 1.0),
        // Rows of an even and of an odd length, and pooled ones, with every tile.
        ([2, 9, 19], [3, 7, 12], [2, 2, 3], plain, None, 1.0),
        ([1, 9, 19], [1, 9, 11], [1, 3, 3], plain, None, 1.0),
        ([1, 9, 19], [1, 13, 16], [1, 3, 3], plain, Some([2, 2]), 1.0),
        // More windows than threads.
        ([1, 8, 16], [1, 18, 34], [1, 3, 3], plain, Some([1, 1]), 1.0),
    ];
    // Square windows, and pixels that are left over. Depending on the tile, rows are a multiple of 1, 2 or 4 apart.
    rows.extend((2..=8).map(|extent| {
        let input = [1, 2 * extent + 3, 3 * extent + 4];
        let pool = Some([extent as u32; 2]);
        ([1, 12, 18], input, [1, 3, 3], plain, pool, 1.0)
    }));
    rows
}

/// The tiles that a row is computed with: that of its config without warpgroups, and the warpgroup's; all of them if it has
/// 19 filters.
fn tiles(&([_, _, k], ..): &Row) -> impl Iterator<Item = Option<GemmTile>> + use<> {
    let planned = [None, Some(W64N128)];
    let all = TILES.map(Some);
    let every = k == 19;
    planned
        .into_iter()
        .filter(move |_| !every)
        .chain(all.into_iter().filter(move |_| every))
}

/// What a long sum of positive terms may be off by, in parts of it. Of 16 terms and a sum tensor cores cut off what is
/// below the second bit behind an f32's last, and then what is below that: less than 5.25 units in the last place. They
/// do so with three instructions a step and at most 17 steps in a row; these sums are added with roundings
/// of `2^-24`; and the factors are off by `2^-22`, as is the product of their low parts.
fn long_rounding(reduction: u32) -> f64 {
    let steps = f64::from(reduction) / 16.0;
    let cut = (1.0 + 17.0 / 4.0) * f64::exp2(-23.0);
    17.0 * 3.0 * cut + steps / 16.0 * f64::exp2(-24.0) + 3.0 * f64::exp2(-22.0)
}

macro_rules! product {
    ($name:ident, $T:ident, $format:literal, $operands:ident, $rounding:expr) => {
        /// All rows, from filters to combined moments.
        pub(crate) fn $name(run: &Run) -> Outcome {
            for (number, ([n, c, k], input, filter, spec, pool, factor), tile) in rows()
                .into_iter()
                .enumerate()
                .flat_map(|(number, row)| tiles(&row).map(move |tile| (number, row, tile)))
            {
                let [t, r, s] = filter;
                let x_shape = [n, c, input[0], input[1], input[2]];
                let w_shape = [k, c / spec.groups, t, r, s];
                let conv = spec
                    .problem(&x_shape, &w_shape, Some(&[k]))
                    .expect("a sound problem");
                let conv = conv.geometry().expect("a small problem");
                let long = conv.reduction() > LONG;
                if long && OperandFormat::$operands.parts == 1 {
                    continue;
                }
                let config = match tile {
                    Some(tile) => {
                        GemmConfig::with_tile(&conv, pool, OperandFormat::$operands, &DEVICE, tile)
                    }
                    None => GemmConfig::new(
                        &conv,
                        pool,
                        OperandFormat::$operands,
                        &WITHOUT_WARPGROUPS,
                        None,
                    )
                    .ok(),
                };
                let config = config.expect("a config");
                let g = config.geometry;

                let mut values = signed::<$T>(1, x_shape.iter().product());
                if OperandFormat::$operands.scaled {
                    values.iter_mut().for_each(|x| *x *= factor);
                }
                let mut weight = signed::<$T>(2, w_shape.iter().product());
                if long {
                    values.iter_mut().for_each(|x| *x = x.abs());
                    weight.iter_mut().for_each(|w| *w = w.abs());
                }
                let (bias, scale) = (signed::<$T>(3, k), signed::<$T>(4, k));
                let (x, w) = (run.tensor::<$T>(&values)?, run.tensor::<$T>(&weight)?);
                let (b, f) = (run.tensor::<$T>(&bias)?, run.tensor::<$T>(&scale)?);
                let operands = run.empty::<f32>(config.filter_words() as usize)?;
                let filter_descales = run.empty::<f32>(k)?;
                let packed = run.empty::<f32>(config.packed_words() as usize)?;
                let descales = run.empty::<f32>(n)?;
                let largest = run.empty::<f32>(n * g.sample_blocks() as usize)?;
                let windows = (g.pooled_h * g.pooled_w) as usize;
                let pixels = conv.output_pixels() as usize;
                let y = run.empty::<$T>(n * k * if pool.is_some() { windows } else { pixels })?;
                let moments = run.empty::<f32>(g.moment_elements() as usize)?;
                let combined = run.empty::<f32>(n * k * COUNTED_ELEMENTS)?;

                let format = Label::Name($format);
                run.launch(
                    &IMPLICIT_GEMM_FILTERS,
                    &[format],
                    config.filters_shape(),
                    (
                        w.source(),
                        operands.ptr(),
                        filter_descales.ptr(),
                        g,
                        config.tile,
                    ),
                )?;
                run.launch(
                    &IMPLICIT_GEMM_PACK,
                    &[format],
                    g.pack_shape(),
                    (x.source(), packed.ptr(), descales.ptr(), largest.ptr(), g),
                )?;
                if OperandFormat::$operands.scaled && g.scans == 0 {
                    let arguments = (
                        x.source(),
                        packed.ptr(),
                        descales.ptr(),
                        largest.source(),
                        g,
                    );
                    run.launch(
                        &IMPLICIT_GEMM_REPACK,
                        &[format],
                        g.repack_shape(),
                        arguments,
                    )?;
                }
                let tile = config.tile.name().expect("a tile with kernels");
                run.launch(
                    &IMPLICIT_GEMM,
                    &[tile.into(), format],
                    config.shape(&DEVICE),
                    (
                        packed.source(),
                        descales.source(),
                        operands.source(),
                        filter_descales.source(),
                        b.source(),
                        std::ptr::null(),
                        f.source(),
                        y.ptr(),
                        moments.ptr(),
                        g,
                    ),
                )?;
                let tiles = u64::from(g.pixel_tiles());
                run.launch(
                    &IMPLICIT_GEMM_COMBINE,
                    &[],
                    op_spec::launch::implicit_gemm::GemmGeometry::combine_shape((n * k) as u64),
                    (moments.source(), combined.ptr(), (n * k) as u64, tiles),
                )?;

                let all = convolved(&conv, &values, &weight, &bias);
                let planes: Vec<_> = all.chunks_exact(pixels).collect();
                let rounding: f64 = if long {
                    long_rounding(conv.reduction())
                } else {
                    $rounding * (4.0 + f64::from(conv.reduction()).sqrt())
                };
                let what = format!("row {number}, {:?}", config.tile);
                compare(
                    &format!("{what}, moments"),
                    &combined,
                    &wanted_moments(&planes, rounding),
                )?;
                let pool = pool.map(|[h, v]| [h, v, g.pooled_h, g.pooled_w]);
                // Of a long sum, magnitude and value are the same.
                let rounding = if long { rounding / 2.0 } else { rounding };
                let wanted = wanted_results(&planes, &conv, pool, &scale, rounding);
                compare(&what, &y, &wanted)?;
            }
            Ok(())
        }
    };
}

product!(split_f32, f32, "split_f32", SPLIT, f64::exp2(-22.0));
product!(rounded_f32, f32, "rounded_f32", ROUNDED, f64::exp2(-11.0));
product!(f16, f16, "f16", STORED, f64::exp2(-22.0));
product!(bf16, bf16, "bf16", STORED, f64::exp2(-22.0));
