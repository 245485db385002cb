//! Implicit GEMMs that reduce their results before the store, against GEMMs that store all of them.

use cuda_std::Storage;
use launch_config::conv::ConvGeometry;
use launch_config::implicit_gemm::{
    Epilogue, EpilogueKind, GemmConfig, OperandFormat, PixelShuffle, Prescale, ReducedResults,
    ResultReduction,
};
use launch_config::pointwise::{Function, OperandList, PointwiseList, Step};
use launch_config::{KernelGeometry, Presence};
use op_spec::graph::LayerProblem;
use oracle::Case;

use super::convolved::{DEVICE, Operand};
use super::implicit_gemm::{FOR_SINGLE_TILES, FOR_WARP_SPECIALIZED_TILES};
use super::implicit_gemm_launch::{Ended, multiply_reduced, multiply_warp_specialized, prepare};
use super::implicit_gemm_without_norm::{case_of, folded};
use super::rows::{Row, rows};
use super::{Failure, Loaded, Outcome, Run};

const MAX: ResultReduction = ResultReduction::MAX;
const MIN: ResultReduction = ResultReduction::MIN;
const SUM: ResultReduction = ResultReduction::SUM;

/// The reduction of results: the operation, filters, rows and columns of windows, and whether partial windows
/// are kept.
type Reduction = (ResultReduction, u32, [u32; 2], bool);

/// Convolutions, and the reductions of their results.
fn table() -> [(Row, Reduction); 8] {
    let [a, b, c, d, e, f, g, h] = rows! {
        // Partial windows that are dropped.
        [2, 16, 48], [1, 13, 20], [1, 3, 4], padding([0, 1, 0]), batch_norm(), relu();
        // Partial windows that are kept; windows of several loads.
        [1, 16, 48], [1, 13, 21], [1, 3, 3], padding([0, 1, 1]), clamp(-0.25, 0.5);
        // Filters of several tiles, pixels of several tiles; wide windows.
        [1, 24, 150], [1, 20, 44], [1, 1, 3], padding([0, 1, 1]), batch_norm(), relu();
        // Slices.
        [2, 16, 48], [5, 6, 12], [3, 3, 3], padding([1, 0, 1]), leaky_relu(0.25);
        // Windows of neighbouring filters, the last one partial.
        [1, 16, 56], [1, 9, 12], [1, 3, 3];
        // In groups, filters and pixels together.
        [1, 32, 128], [1, 7, 12], [1, 3, 3], padding([0, 1, 1]), groups(2);
        // Two neighbouring outputs in depth.
        [1, 16, 32], [5, 9, 8], [3, 3, 3], padding([0, 1, 1]), batch_norm();
        // Strides.
        [1, 16, 64], [1, 17, 30], [1, 3, 3], stride([1, 2, 2]), leaky_relu(-0.5);
    };
    [
        (a, (MAX, 1, [2, 2], false)),
        (b, (MIN, 1, [4, 8], true)),
        (c, (SUM, 1, [1, 4], false)),
        (d, (SUM, 1, [2, 2], true)),
        (e, (MIN, 16, [1, 1], false)),
        (f, (SUM, 4, [2, 1], true)),
        (g, (MAX, 2, [8, 2], true)),
        (h, (MAX, 1, [1, 2], true)),
    ]
}

/// Checks every row, with NaN and infinities, and also through a list.
pub(crate) fn matches<F: Operand>(run: &Run) -> Outcome {
    for (number, (row, reduction)) in table().iter().enumerate() {
        let case = case_of::<F>(row);
        for is_listed in [false, true] {
            check::<F>(
                run,
                &format!("row {number}"),
                row,
                (&case, is_listed),
                reduction,
            )?;
        }
    }
    Ok(())
}

/// Reduces all results on the host.
fn reduced(all: &[f32], conv: &ConvGeometry, of: &ReducedResults) -> Vec<f32> {
    let [n, k, z, p, q] = [
        conv.n as u32,
        conv.output_channels(),
        conv.z,
        conv.p,
        conv.q,
    ];
    let [rows, columns] = of.window();
    let filters = 1 << of.log_filters;
    let mut results = Vec::new();
    let mut push = |sample: u32, group: u32, slice: u32, row: u32, column: u32| {
        let mut values = Vec::new();
        for filter in group * filters..k.min((group + 1) * filters) {
            for y in row * rows..p.min((row + 1) * rows) {
                for x in column * columns..q.min((column + 1) * columns) {
                    let at = (((sample * k + filter) * z + slice) * p + y) * q + x;
                    values.push(all[at as usize]);
                }
            }
        }
        let has_nan = values.iter().any(|value| value.is_nan());
        let values = values.into_iter();
        results.push(match of.operation {
            _ if has_nan => f32::NAN,
            ResultReduction::MAX => values.fold(f32::NEG_INFINITY, f32::max),
            ResultReduction::MIN => values.fold(f32::INFINITY, f32::min),
            _ => (values.map(f64::from).sum::<f64>() / f64::from(of.divisor)) as f32,
        });
    };
    for sample in 0..n {
        for group in 0..k.div_ceil(filters) {
            for slice in 0..z {
                for row in 0..of.height {
                    for column in 0..of.width {
                        push(sample, group, slice, row, column);
                    }
                }
            }
        }
    }
    results
}

/// The number of windows along an axis.
fn extent(results: u32, window: u32, keeps_partial: bool) -> u32 {
    match keeps_partial {
        true => results.div_ceil(window),
        false => results / window,
    }
}

fn check<F: Operand>(
    run: &Run,
    what: &str,
    row: &Row,
    (case, is_listed): (&Case, bool),
    &(operation, filters, window, keeps_partial): &Reduction,
) -> Outcome {
    let problem = case.problem().expect("a sound problem");
    let LayerProblem::Conv3d(problem) = problem.steps[0].problem else {
        unreachable!("a convolution of volumes")
    };
    let conv = problem.geometry().expect("a small case");
    let [height, width] = [(conv.p, window[0]), (conv.q, window[1])]
        .map(|(results, window)| extent(results, window, keeps_partial));
    let of = ReducedResults::new(operation, filters, window, [height, width], 3.0);
    let of = of.expect("a reduction of tiles");

    let has_norm = case.graph.layers().len() > 1 && case.parameters.len() > 2;
    let [gain, shift] = match has_norm {
        true => folded(case),
        false => [vec![], vec![]],
    };
    let [gain, shift] = [run.tensor::<f32>(&gain)?, run.tensor::<f32>(&shift)?];
    let Loaded { x, parameters } = run.load::<F::Stored>(case)?;
    let none = run.empty::<f32>(0)?;
    let no_bias = run.empty::<F::Stored>(0)?;
    let bias = match conv.bias.is_present() {
        true => &parameters[1],
        false => &no_bias,
    };
    let of_function = row
        .function
        .and_then(|function| Epilogue::of(Step::of(&function)));
    // Behind the list's first step. A 0 stays 0.
    let channels = conv.output_channels() as usize;
    let gain_behind = (0..channels).map(|channel| 0.5 + channel as f32 / 256.0);
    let gain_behind = run.tensor::<f32>(&gain_behind.collect::<Vec<_>>())?;
    let shift_behind = run.tensor::<f32>(&vec![0.0; channels])?;
    let mut ended = Ended {
        x: x.source(),
        weight: parameters[0].source(),
        gain: gain.source(),
        shift: shift.source(),
        epilogue: of_function.unwrap_or(Epilogue::NONE),
        gain_behind: gain_behind.source(),
        shift_behind: shift_behind.source(),
        ..Ended::NONE
    };
    ended.epilogue.gain_and_shift = Presence::of(has_norm);
    if is_listed {
        // All results are above 0, the value that absent filters would give.
        let steps = [
            Step::plain(Function::Tanh),
            Step::new(Function::LeakyRelu, [-0.5, 0.0, 0.0]),
        ];
        ended.list = OperandList {
            functions: PointwiseList::take(&mut steps.into_iter()),
            affine_at: 1,
            ..OperandList::EMPTY
        };
    }

    let is_wide = |config: &GemmConfig| config.tile.is_warp_specialized();
    let format = F::OPERANDS;
    let all = GemmConfig::new_without_norm(&conv, format, &DEVICE, None, EpilogueKind::STORE);
    let all = all.expect("a small case");
    if !is_wide(&all) {
        // With few filters in parts, the GEMM that stores all results has another tile.
        assert!(format.passes > 1, "{what} suits tiles of warpgroups");
        return Ok(());
    }
    let operands = prepare::<F>(run, &all, &x, &parameters[0])?;
    let elements = (all.geometry.results()) as usize;
    let y = run.empty::<F::Stored>(elements)?;
    let wide = &FOR_WARP_SPECIALIZED_TILES;
    multiply_warp_specialized::<F>(run, &all, wide, &operands, bias, &ended, &y, &none)?;
    let wanted = reduced(&y.values()?, &conv, &of);

    let config = GemmConfig::new_reduced(&conv, (&of, PixelShuffle::NONE), format, &DEVICE, None);
    let mut config = config.unwrap_or_else(|error| panic!("{what}: {error}"));
    let devices = [wide, &DEVICE, &FOR_SINGLE_TILES];
    let mut launches = devices.map(|device| (config, device)).to_vec();
    if F::OPERANDS == OperandFormat::SCALED_F16 {
        // Treats samples as large: the producer converts no others.
        config.geometry.prescale = Prescale::OPTIMISTIC;
        let dense = |&device: &&'static _| Some((config.dense_in_place(device)?, device));
        launches.extend(devices.iter().filter_map(dense));
        assert_eq!(launches.len() > 3, conv.w.is_multiple_of(4), "{what}");
    }
    for (config, device) in launches {
        let mut operands = prepare::<F>(run, &config, &x, &parameters[0])?;
        if config.geometry.k_vectors.loader.is_dense_f32() {
            operands = operands.without_input(run, conv.n as usize)?;
        }
        let y = run.empty::<F::Stored>(wanted.len())?;
        multiply_reduced::<F>(run, &config, device, &operands, bias, &ended, &of, &y)?;
        let got = y.values()?;
        let largest = wanted.iter().filter(|value| value.is_finite());
        let largest = largest.fold(1.0f32, |most, value| most.max(value.abs()));
        for (at, (&got, &wanted)) in got.iter().zip(&wanted).enumerate() {
            let wanted = F::Stored::from_f32(wanted).to_f32();
            // The fix-up pass recomputes windows with a NaN as a whole, from values that are not rounded to
            // operands. For 16-bit types, the last place may differ.
            let tolerance = match size_of::<F::Stored>() {
                4 if F::OPERANDS.scaled => 2e-3,
                4 => 2e-5,
                _ => 1e-2,
            };
            let is_same = got == wanted
                || got.is_nan() && wanted.is_nan()
                || (got - wanted).abs() <= tolerance * largest;
            if !is_same {
                return Err(Failure(format!(
                    "{what}: result {at} is {got}, not {wanted}"
                )));
            }
        }
    }
    Ok(())
}
