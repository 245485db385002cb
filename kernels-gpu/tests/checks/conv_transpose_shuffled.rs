//! Transposed convolutions by implicit GEMMs that shuffle their results into the output.

use launch_config::conv_transpose::shuffled;
use launch_config::implicit_gemm::{GemmConfig, K_VECTOR_BYTES};
use launch_config::{KernelGeometry, Presence};
use op_spec::graph::Layer;
use oracle::Case;

use super::super::kernels::conv_transpose::CONV_TRANSPOSE_FILTERS;
use super::conv_transpose::{Row, problem, row};
use super::convolved::{DEVICE, Operand};
use super::implicit_gemm::{FOR_SINGLE_TILES, FOR_WARP_SPECIALIZED_TILES};
use super::implicit_gemm_launch::{Ended, multiply_warp_specialized, prepare};
use super::implicit_gemm_lists::{Lists, listed};
use super::implicit_gemm_without_norm::{folded, wanted};
use super::{Failure, Loaded, Outcome, Run, case, compare, label, same_bits};

/// Outputs with rows of whole vectors, also in 16 bits, and at the end with other rows.
fn rows() -> Vec<Row> {
    vec![
        // Two phases of rows, of one and two taps; a warp with fewer filters than it has room for.
        Row {
            padding: [0, 1, 1],
            output_padding: [0, 0, 1],
            ..row([2, 16, 1, 5, 12], 22, [1, 3, 3], [1, 2, 2])
        },
        // Rows of several tiles; more filters than a tile has.
        Row {
            padding: [0, 1, 1],
            output_padding: [0, 1, 1],
            ..row([1, 8, 1, 2, 280], 40, [1, 3, 3], [1, 2, 2])
        },
        // Volumes; without a bias.
        Row {
            padding: [1, 1, 1],
            output_padding: [0, 0, 1],
            bias: false,
            ..row([1, 16, 3, 4, 8], 32, [3; 3], [2; 3])
        },
        // One tap for each phase, in groups.
        Row {
            groups: 2,
            ..row([1, 32, 1, 3, 20], 64, [1, 2, 2], [1, 2, 2])
        },
        // Four columns of a pixel, of which some have no taps.
        Row {
            output_padding: [0, 0, 1],
            ..row([2, 16, 1, 3, 18], 16, [1, 1, 3], [1, 1, 4])
        },
        // More padding than taps in front; four phases of rows.
        Row {
            padding: [0, 2, 2],
            ..row([1, 8, 1, 4, 36], 16, [1, 7, 8], [1, 4, 4])
        },
        // Taps in front of the input and behind it; channels of several K blocks.
        Row {
            padding: [0, 1, 1],
            ..row([1, 40, 1, 7, 44], 24, [1, 4, 4], [1, 2, 2])
        },
        // One column of a filter.
        Row {
            output_padding: [0, 0, 1],
            ..row([1, 16, 1, 2, 28], 32, [1, 1, 1], [1, 1, 2])
        },
        // An output of fewer rows than phases.
        Row {
            padding: [0, 1, 0],
            output_padding: [0, 0, 1],
            ..row([1, 8, 1, 1, 34], 32, [1, 3, 5], [1, 2, 2])
        },
        // Rows of 69 columns, and of 46; a warp whose filters are not all there.
        Row {
            padding: [0, 1, 1],
            ..row([2, 16, 1, 3, 35], 22, [1, 3, 3], [1, 2, 2])
        },
        row([1, 16, 1, 2, 22], 32, [1, 4, 4], [1, 2, 2]),
        // Volumes of odd rows, and four columns of a pixel, of which the last one lacks two.
        Row {
            padding: [1, 1, 1],
            ..row([1, 16, 2, 3, 6], 32, [3; 3], [2; 3])
        },
        row([1, 16, 1, 2, 9], 24, [1, 2, 6], [1, 2, 4]),
        // Few channels: a K-vector could hold all columns of a filter. A quarter of the tile's filters.
        Row {
            padding: [1, 1, 1],
            ..row([1, 3, 2, 4, 7], 16, [3; 3], [2; 3])
        },
        Row {
            padding: [0, 1, 1],
            output_padding: [0, 1, 1],
            ..row([2, 1, 1, 5, 14], 8, [1, 3, 3], [1, 2, 2])
        },
    ]
}

/// Checks every row, with NaN and infinities, and some with a batch norm and lists.
pub(crate) fn matches<F: Operand>(run: &Run) -> Outcome {
    for (number, row) in rows().iter().enumerate() {
        let mut layers = vec![row.layer()];
        if number % 3 == 1 {
            layers.push(Layer::from(Layer::batch_norm("norm")));
        }
        let case = case::<F::Stored>(layers, &row.input);
        check::<F>(run, &case, number)?;
        if number % 2 == 0 {
            check::<F>(run, &case.special(), number)?;
        }
    }
    Ok(())
}

fn check<F: Operand>(run: &Run, case: &Case, number: usize) -> Outcome {
    let problem = problem(case);
    let wanted = wanted::<F>(case);
    let elements = wanted.shape().iter().product();
    let has_norm = case.problem().expect("a sound problem").steps.len() > 1;
    let [gain, shift] = match has_norm {
        true => folded(case),
        false => [vec![], vec![]],
    };
    let [gain, shift] = [run.tensor::<f32>(&gain)?, run.tensor::<f32>(&shift)?];
    let Loaded { x, parameters } = run.load::<F::Stored>(case)?;
    let none = run.empty::<f32>(0)?;

    let mut classes = Vec::new();
    let of_form = shuffled(&problem).expect("a form that is shuffled");
    for class in of_form.into_iter().flatten() {
        let g = class.filters;
        let filters = run.empty::<F::Stored>((g.filters() * g.filter_elements()) as usize)?;
        let of_bias = if problem.bias { g.filters() } else { 0 };
        let bias = run.empty::<F::Stored>(of_bias as usize)?;
        let of_layer = match problem.bias {
            true => parameters[1].source(),
            false => std::ptr::null(),
        };
        let arguments = (
            parameters[0].source(),
            of_layer,
            filters.ptr(),
            bias.ptr(),
            g,
        );
        let labels = [label::<F::Stored>()];
        run.launch(&CONV_TRANSPOSE_FILTERS, &labels, g.shape(), arguments)?;

        let conv = class.convolution.geometry().expect("a small case");
        let config = GemmConfig::new_shuffled(&conv, class.shuffle, F::OPERANDS, &DEVICE, None);
        let config = config.unwrap_or_else(|error| panic!("row {number}: {error}"));
        let operands = prepare::<F>(run, &config, &x, &filters)?;
        classes.push((config, operands, filters, bias));
    }
    // The classes together write every element.
    let multiply = |device, ended: &Ended<F::Stored>| {
        let y = run.empty::<F::Stored>(elements)?;
        for (config, operands, filters, bias) in &classes {
            let ended = Ended {
                weight: filters.source(),
                ..*ended
            };
            let y = &y;
            multiply_warp_specialized::<F>(run, config, device, operands, bias, &ended, y, &none)?;
        }
        Ok::<_, Failure>(y)
    };
    let mut ended = Ended {
        x: x.source(),
        gain: gain.source(),
        shift: shift.source(),
        ..Ended::NONE
    };
    ended.epilogue.gain_and_shift = Presence::of(has_norm);
    let what = format!("row {number}, {}", case.name);
    let y = multiply(&FOR_WARP_SPECIALIZED_TILES, &ended)?;
    compare(&what, &y, &wanted)?;
    for device in [&DEVICE, &FOR_SINGLE_TILES] {
        same_bits(&what, &multiply(device, &ended)?, &y)?;
    }
    // Lists use the output's channels.
    let mut conv = classes[0].0.geometry.conv;
    conv.group_k = problem.k as u32;
    (conv.groups, conv.z, conv.p, conv.q) = (1, 1, 1, (elements / problem.n / problem.k) as u32);
    // A residual is for rows of whole vectors.
    let row_bytes = problem.output[2] * size_of::<F::Stored>();
    let lists = match row_bytes.is_multiple_of(K_VECTOR_BYTES as usize) {
        true => Lists::WithResidual,
        false => Lists::Affine,
    };
    listed::<F>(run, &what, (&conv, lists), &ended, &y, |ended| {
        multiply(&FOR_WARP_SPECIALIZED_TILES, ended)?.values()
    })
}
