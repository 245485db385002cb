//! Implicit GEMM without a norm: infinities and NaN stay within their windows, and the epilogue applies a
//! batch norm and a function before the store.

use launch_config::implicit_gemm::{
    Epilogue, EpilogueKind, GemmConfig, GemmTile, M32N128, OperandFormat, Prescale, TILES, W64N128,
    WARP_SPECIALIZED,
};
use launch_config::pointwise::Step;
use launch_config::{KernelGeometry, Presence};
use ndarray::s;
use op_spec::graph::{Layer, LayerProblem};
use oracle::{Case, Expected, Precision};

use super::convolved::{DEVICE, Factors, Operand};
use super::implicit_gemm::{FOR_SINGLE_TILES, FOR_WARP_SPECIALIZED_TILES};
use super::implicit_gemm_launch::{Ended, multiply, multiply_warp_specialized, prepare};
use super::implicit_gemm_lists::{Lists, listed, nhwc};
use super::rows::{Row, rows};
use super::{Loaded, Outcome, Run, compare, precision, same_bits};

/// Rows with leftover filters, MMA steps, K blocks and K-vectors, and one of whole steps.
fn table() -> [Row; 18] {
    rows! {
        // Whole steps; a group of infinities and NaN.
        [2, 16, 20], [1, 7, 9], [1, 3, 3], padding([0, 1, 1]);
        // A column of the K-vectors and a step of the taps left over; with strides.
        [1, 3, 9], [1, 17, 22], [1, 5, 7], stride([1, 2, 2]), padding([0, 2, 3]), batch_norm(), relu();
        // Channels left over, in groups; a batch norm alone.
        [2, 20, 6], [1, 7, 11], [1, 3, 3], padding([0, 1, 0]), dilation([1, 1, 2]), groups(2), batch_norm();
        // Depth; planes of a K block left over; a function alone.
        [1, 37, 19], [3, 5, 7], [2, 3, 3], padding([1, 0, 1]), leaky_relu(0.25);
        // A stride of the depth that is not its dilation; bounds.
        [1, 3, 9], [6, 3, 9], [2, 1, 3], stride([2, 1, 1]), dilation([3, 1, 1]), clamp(-0.25, 0.5);
        // A promoted sum of parts.
        [1, 130, 3], [1, 3, 6], [1, 2, 3], padding([0, 1, 1]);
        // A depth that no tile covers.
        [1, 4, 9], [9, 9, 18], [2, 2, 3];
        // Filters of three warp-specialized tiles, pixels of several.
        [1, 9, 140], [1, 20, 40], [1, 1, 3], padding([0, 1, 1]), batch_norm(), relu();
        // Like the row before, with so few pixels that a block has two tiles. In both halves of a tile,
        // pixels meet values beside their windows.
        [1, 8, 140], [1, 11, 19], [1, 1, 3], padding([0, 1, 1]), batch_norm(), relu();
        // Whole vectors of filters: fewer than a warp has, and some that pad a tile.
        [2, 16, 24], [1, 13, 20], [1, 3, 3], padding([0, 1, 1]), batch_norm(), relu();
        // In groups, with pixels of several tiles.
        [1, 32, 144], [1, 19, 36], [1, 1, 1], groups(2), leaky_relu(0.25);
        // Two neighbouring outputs in depth for each filter.
        [2, 8, 16], [3, 5, 7], [2, 3, 3], padding([1, 0, 1]), batch_norm();
        // Three planes of channels, and more taps than an MMA batch has steps.
        [1, 24, 70], [3, 5, 12], [3, 1, 5], stride([2, 1, 1]), padding([1, 0, 2]), batch_norm();
        // Slices of the filter that are K blocks.
        [1, 24, 72], [9, 17, 18], [3, 3, 3], stride([2; 3]), padding([1; 3]), dilation([1, 2, 1]);
        // One MMA step less in a K block than an MMA batch has.
        [1, 64, 40], [1, 9, 31], [1, 1, 1], padding([0, 1, 0]), leaky_relu(0.25);
        // More filters than are resident, in several K blocks.
        [1, 136, 72], [1, 6, 10], [1, 3, 3], padding([0, 1, 1]), clamp(-0.25, 0.5);
        // Output rows of several runs each, with any alignment.
        [1, 16, 20], [1, 2, 301], [1, 1, 3], relu();
        // Runs from which a warp takes few values at a time.
        [1, 16, 9], [1, 20, 37], [1, 1, 2], dilation([1, 1, 30]);
    }
}

/// The tiles for a row.
fn tiles<F: Operand>(row: &Row) -> Vec<Option<GemmTile>> {
    if F::OPERANDS.passes > 1 {
        return vec![Some(M32N128), Some(WARP_SPECIALIZED)];
    }
    match row.channels[2] {
        19 => {
            let epilogue = TILES
                .into_iter()
                .filter(|tile| tile.has_store_epilogue(F::OPERANDS));
            epilogue.map(Some).collect()
        }
        _ => vec![None, Some(W64N128), Some(WARP_SPECIALIZED)],
    }
}

/// A case of the row's layers, with non-finite values in the input.
pub(super) fn case_of<F: Operand>(row: &Row) -> Case {
    let mut case = row.case::<F::Stored>();
    // At the end of each row, so that every part of a tile meets some of these beside its windows.
    for (index, x) in case.x.indexed_iter_mut() {
        if index[1] + 1 == row.channels[1] && index[4] + 1 == row.input[2] {
            *x = f32::INFINITY;
        }
    }
    let values = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
    let all = case.x.len();
    // At both ends, where windows begin and end, and far apart.
    for (index, value) in [0, all / 2 + 3, all - 1].into_iter().zip(values) {
        *case.x.iter_mut().nth(index).expect("an element") = value;
    }
    // An infinity that meets 0 is NaN.
    let filters = &mut case.parameters[0];
    filters.iter_mut().step_by(5).for_each(|w| *w = 0.0);
    case
}

/// The expected output of the row's layers, with the tolerance of the format's products.
pub(super) fn wanted<F: Operand>(case: &Case) -> Expected {
    let precision_of_products = match F::OPERANDS.scaled {
        true => Precision::TF32,
        false => Precision {
            products: F::PRODUCTS,
            ..Precision::F32
        },
    };
    let precision = precision::<F::Stored>();
    let bounded = case.bounded_of_one_kernel(&precision_of_products);
    let bounded = bounded.expect("layers that take this input");
    Expected::new(bounded.stored(&precision), &precision)
}

/// The gain and shift of a case's batch norm, its second layer. No later layer has parameters.
pub(super) fn folded(case: &Case) -> [Vec<f32>; 2] {
    let problem = case.problem().expect("a sound problem").steps[1].problem;
    let LayerProblem::BatchNorm(problem) = problem else {
        unreachable!("a batch norm behind the convolution")
    };
    let (_, of_norm) = case.parameters.split_at(case.parameters.len() - 4);
    let channels = of_norm[0].len();
    let each = |which: usize| {
        let value = |c| {
            let parameters = [0, 1, 2, 3].map(|index: usize| f64::from(of_norm[index][c]));
            problem.gain_and_shift(parameters, f64::sqrt)[which] as f32
        };
        (0..channels).map(value).collect()
    };
    [each(0), each(1)]
}

/// Checks all rows in all kinds of tiles.
pub(crate) fn matches<F: Operand>(run: &Run) -> Outcome {
    for (number, row) in table().iter().enumerate() {
        let case = case_of::<F>(row);
        check::<F>(run, &format!("row {number}"), row, &case)?;
    }
    Ok(())
}

/// Checks whole vectors of filters in warp-specialized tiles, to NCHW and to NHWC, and with filters read in
/// place.
pub(crate) fn nhwc_and_in_place<F: Operand>(run: &Run) -> Outcome {
    for (number, row) in table().iter().enumerate() {
        let [_, channels, filters] = row.channels;
        if channels % 8 == 0 && channels > 8 && filters % 8 == 0 {
            let (name, case) = (format!("row {number}"), case_of::<F>(row));
            check_tiles::<F>(run, &name, row, &case, vec![Some(WARP_SPECIALIZED)], 1)?;
        }
    }
    Ok(())
}

/// Checks f32 values of any magnitude: a window's result is accurate, however large the values of other
/// windows. Where values are too small for all three bf16 parts, the missing rest is below `2^-134`, an
/// absolute error beside the format's relative one.
pub(crate) fn magnitudes<F: Operand>(run: &Run) -> Outcome {
    let row = Row::new([1, 20, 9], [1, 9, 31], [1, 3, 3]);
    let mut case = case_of::<F>(&row);
    let plain = case.x.mapv(|x| if x.is_finite() { x } else { 0.25 });
    // By columns: some windows lie within one range of columns, and some see two.
    let factors = [1.0, 1e30, 1e-30, f32::MAX / 64.0, 1e-39];
    case.x = plain.clone();
    for (index, x) in case.x.indexed_iter_mut() {
        *x *= factors[index[4] / 7];
    }
    // Beyond the largest number that bf16 rounds to a finite one, though not beyond f32; a small filter
    // brings the product back.
    case.x[[0, 0, 0, 4, 3]] = f32::MAX;
    case.parameters[0].mapv_inplace(|w| w / 16.0);
    check::<F>(run, "magnitudes", &row, &case)?;
    // The same magnitudes for filters.
    case.x = plain;
    let filters = case.parameters[0].len() / 9;
    for (index, w) in case.parameters[0].iter_mut().enumerate() {
        *w *= factors[index / filters % 5];
    }
    check::<F>(run, "magnitudes of filters", &row, &case)?;
    // Results within f32's range whose partial sums exceed it: partial sums go by channels, where f32 goes by
    // taps.
    case.x.fill(1.5 * 2f32.powi(127));
    case.parameters.iter_mut().for_each(|of| of.fill(0.0));
    for (channel, tap, w) in [(0, 0, 1.0), (0, 1, 1.0), (8, 0, -1.0)] {
        case.parameters[0]
            .slice_mut(s![.., channel, 0, 0, tap])
            .fill(w);
    }
    check::<F>(run, "sums of parts beyond f32", &row, &case)
}

/// Checks f32 samples and filters with different scales, up to scales whose product has no normal reciprocal.
/// Results below f32's range are the bias, and results above it are infinite. The last sample has values of
/// several magnitudes, and the first has non-finite ones.
pub(crate) fn scales<F: Operand>(run: &Run) -> Outcome {
    let row = Row::new([6, 9, 10], [1, 7, 12], [1, 3, 3]);
    let mut case = case_of::<F>(&row);
    let factors = [1.0, 1e30, 1e-30, f32::MAX / 64.0, 1e-39];
    for (index, x) in case.x.indexed_iter_mut() {
        let plain = if x.is_finite() { *x } else { 0.25 };
        let of_columns = [1.0, 1e6, 1e9][index[4] / 4];
        *x = plain * factors.get(index[0]).copied().unwrap_or(of_columns);
    }
    case.x[[3, 2, 0, 5, 5]] = f32::MAX;
    case.x[[0, 2, 0, 5, 5]] = f32::NEG_INFINITY;
    case.x[[0, 1, 0, 0, 9]] = f32::NAN;
    let [weight, bias] = &mut case.parameters[..] else {
        unreachable!("a weight and a bias")
    };
    for (index, w) in weight.indexed_iter_mut() {
        *w *= factors[index[0] % 5];
    }
    bias.iter_mut().take(5).for_each(|bias| *bias = 0.0);
    check::<F>(run, "scales", &row, &case)
}

/// Checks results of 0 with slopes that are not finite or negative. Values not above 0 are multiplied by the
/// slope: the first gives NaN, the second a zero.
pub(crate) fn zeros<F: Operand>(run: &Run) -> Outcome {
    for slope in [f64::INFINITY, -0.5] {
        let row = Row::new([1, 8, 9], [1, 3, 9], [1, 1, 3]).leaky_relu(slope);
        let mut case = case_of::<F>(&row);
        case.x.fill(0.5);
        case.parameters[0].fill(0.0);
        let bias = case.parameters[1].iter_mut().enumerate();
        bias.for_each(|(k, b)| *b = (k % 3) as f32);
        check::<F>(run, &format!("zeros, slope {slope}"), &row, &case)?;
    }
    Ok(())
}

/// Checks a random row followed by a function, in every tile that supports it.
pub(super) fn drawn<F: Operand>(run: &Run, row: Row) -> Outcome {
    let row = row.leaky_relu(0.25);
    check::<F>(run, &format!("{row:?}"), &row, &case_of::<F>(&row))
}

fn check<F: Operand>(run: &Run, name: &str, row: &Row, case: &Case) -> Outcome {
    // In f32, a store to NHWC applies only the first list, which is empty.
    let lists = if size_of::<F::Stored>() == 2 { 6 } else { 1 };
    check_tiles::<F>(run, name, row, case, tiles::<F>(row), lists)
}

/// The config without a norm.
pub(super) fn storing(mut config: GemmConfig) -> GemmConfig {
    config.geometry.epilogue = EpilogueKind::STORE;
    config
}

/// Checks the row with these tiles, and with the first `lists` lists after a store to NHWC.
fn check_tiles<F: Operand>(
    run: &Run,
    name: &str,
    row: &Row,
    case: &Case,
    tiles: Vec<Option<GemmTile>>,
    lists: usize,
) -> Outcome {
    // With one kind of tile, only lists that need no other kernel.
    let most = match tiles.len() > 1 {
        true => Lists::All,
        false => Lists::Affine,
    };
    let wanted = wanted::<F>(case);
    let problem = case.problem().expect("a sound problem").steps[0].problem;
    let LayerProblem::Conv3d(conv) = problem else {
        unreachable!("a convolution of volumes")
    };
    let geometry = conv.geometry().expect("a small problem");
    let Loaded { x, parameters } = run.load::<F::Stored>(case)?;
    // Treats samples as large: the producer converts no others.
    let is_dense = F::OPERANDS == OperandFormat::SCALED_F16 && geometry.w.is_multiple_of(4);
    let of_function = row
        .function
        .and_then(|function| Epilogue::of(Step::of(&function)));
    let mut epilogue = of_function.unwrap_or(Epilogue::NONE);
    epilogue.gain_and_shift = Presence::of(row.batch_norm);
    let [gain, shift] = match row.batch_norm {
        true => folded(case),
        false => [vec![], vec![]],
    };
    let [gain, shift] = [run.tensor::<f32>(&gain)?, run.tensor::<f32>(&shift)?];
    let ended = Ended {
        x: x.source::<F::Stored>(),
        weight: parameters[0].source(),
        gain: gain.source(),
        shift: shift.source(),
        epilogue,
        ..Ended::NONE
    };
    let of_tile = |tile: Option<GemmTile>| {
        let config = match tile {
            Some(tile) => {
                let config = GemmConfig::with_tile(&geometry, None, F::OPERANDS, &DEVICE, tile);
                config.map(storing)
            }
            None => {
                let epilogue = EpilogueKind::STORE;
                GemmConfig::new_without_norm(&geometry, F::OPERANDS, &DEVICE, None, epilogue).ok()
            }
        };
        // Shared memory does not hold two stages of three parts of two planes with stride phases.
        let is_large = F::OPERANDS.parts == 3 && row.attributes.stride != [1; 3];
        let may_lack = tile == Some(WARP_SPECIALIZED) && is_large;
        assert!(config.is_some() || may_lack, "{name}, {tile:?}");
        config.map(|mut config| {
            if is_dense {
                config.geometry.prescale = Prescale::OPTIMISTIC;
            }
            config
        })
    };
    let all_lists = [
        vec![],
        vec![Layer::silu()],
        vec![Layer::hardswish()],
        vec![Layer::add("residual")],
        vec![Layer::add("residual"), Layer::relu()],
        vec![
            Layer::silu(),
            Layer::add("residual"),
            Layer::leaky_relu(0.25),
        ],
    ];
    // With two outputs, one output's zeros also meet non-finite values of the other's window.
    let two_outputs = GemmConfig::with_two_outputs(&geometry, F::OPERANDS, &DEVICE);
    let two_outputs = two_outputs.map(storing);
    let is_deep = geometry.z > 1 && geometry.stride_d == 1;
    assert_eq!(two_outputs.is_some(), is_deep, "{name}");
    for config in (tiles.into_iter()).filter_map(of_tile).chain(two_outputs) {
        assert_eq!(config.moment_elements(), 0);
        let operands = prepare::<F>(run, &config, &x, &parameters[0])?;
        let bias = &parameters[1];
        let elements = wanted.shape().iter().product();
        let y = run.empty::<F::Stored>(elements)?;
        let none = run.empty::<f32>(0)?;
        let outputs = config.geometry.outputs_d;
        let what = format!("{name}, {:?} of {outputs}", config.tile);
        if config.tile.is_warp_specialized() {
            let multiply = |config: &_, device: &_, operands: &_, ended: &_, y: &_| {
                multiply_warp_specialized::<F>(run, config, device, operands, bias, ended, y, &none)
            };
            let tiles = multiply(&config, &FOR_WARP_SPECIALIZED_TILES, &operands, &ended, &y)?;
            if tiles == 2 {
                let other = run.empty::<F::Stored>(elements)?;
                let device = &FOR_SINGLE_TILES;
                assert_eq!(multiply(&config, device, &operands, &ended, &other)?, 1);
                same_bits(&what, &other, &y)?;
            }
            let devices = [&FOR_WARP_SPECIALIZED_TILES, &FOR_SINGLE_TILES];
            let with_lists = |what: &str, config: &_, device: &_, operands: &_, lists| {
                listed::<F>(run, what, (&geometry, lists), &ended, &y, |ended| {
                    let y = run.empty::<F::Stored>(elements)?;
                    multiply(config, device, operands, ended, &y)?;
                    y.values()
                })
            };
            for (device, lists) in devices.into_iter().zip([most, Lists::Affine]) {
                with_lists(&what, &config, device, &operands, lists)?;
                // A residual is loaded as vectors.
                if config.geometry.neighbours().is_multiple_of(4) {
                    with_lists(&what, &config, device, &operands, Lists::WithResidual)?;
                }
            }
            let tensors = (&operands, bias, &ended);
            nhwc::<F>(
                run,
                &what,
                (&config, &devices),
                tensors,
                &y,
                &all_lists[..lists],
            )?;
            if is_dense && outputs == 1 {
                let operands = prepare::<F>(run, &config, &x, &parameters[0])?;
                let operands = operands.without_input(run, geometry.n as usize)?;
                for (device, lists) in devices.into_iter().zip([most, Lists::Affine]) {
                    let dense = config.dense_in_place(device);
                    let dense = dense.unwrap_or_else(|| panic!("{what} is not converted"));
                    let other = run.empty::<F::Stored>(elements)?;
                    multiply(&dense, device, &operands, &ended, &other)?;
                    same_bits(&format!("{what}, dense"), &other, &y)?;
                    let what = format!("{what}, dense");
                    with_lists(&what, &dense, device, &operands, lists)?;
                    if config.geometry.neighbours().is_multiple_of(4) {
                        with_lists(&what, &dense, device, &operands, Lists::WithResidual)?;
                    }
                }
            }
        } else {
            let factors = Factors {
                norm_weight: None,
                scale: run.empty(0)?,
            };
            multiply::<F>(run, &config, &operands, bias, &factors, &ended, &y, &none)?;
            listed::<F>(run, &what, (&geometry, Lists::All), &ended, &y, |ended| {
                let y = run.empty::<F::Stored>(elements)?;
                multiply::<F>(run, &config, &operands, bias, &factors, ended, &y, &none)?;
                y.values()
            })?;
        }
        compare(&what, &y, &wanted)?;
        if let Some(config) = config.with_filters_in_place() {
            let (filters, channels) = (geometry.output_channels(), geometry.group_c);
            let weight = run.channels_last(&parameters[0], filters.into(), channels)?;
            let ended = Ended {
                weight: weight.source(),
                ..ended
            };
            let operands = operands.without_filters(run)?;
            for device in [&FOR_WARP_SPECIALIZED_TILES, &FOR_SINGLE_TILES] {
                let other = run.empty::<F::Stored>(elements)?;
                multiply_warp_specialized::<F>(
                    run, &config, device, &operands, bias, &ended, &other, &none,
                )?;
                same_bits(&format!("{what}, filters in place"), &other, &y)?;
            }
        }
    }
    Ok(())
}
