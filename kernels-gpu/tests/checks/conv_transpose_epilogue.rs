//! Transposed convolutions with the epilogue of the interleave kernels.

use cuda_std::Storage;
use launch_config::Presence;
use launch_config::implicit_gemm::Epilogue;
use launch_config::pointwise::Step;
use op_spec::graph::Layer;
use op_spec::{Layout, PointwiseSpec};
use oracle::Case;

use super::conv_transpose::{Convolved, OutputEpilogue, Row, problem, row};
use super::implicit_gemm_without_norm::folded;
use super::rows::{ADD, HARDSWISH, Listed, SILU, residual_list};
use super::{Outcome, Run, case, compare, precision, same_numbers, stored};

/// A transposed convolution, followed by an optional batch norm and function, and by a list.
struct Ended {
    of: Row,
    batch_norm: bool,
    function: Option<PointwiseSpec>,
    list: &'static [Listed],
    /// Whether a scale of each channel follows the list.
    scale: bool,
}

impl Ended {
    /// A transposed convolution without an epilogue.
    fn of(of: Row) -> Self {
        Self {
            of,
            batch_norm: false,
            function: None,
            list: &[],
            scale: false,
        }
    }
}

/// Checks epilogues in the interleave launch, with the same bits in both layouts.
pub(crate) fn matches<T: Storage>(run: &Run) -> Outcome {
    let two_classes = Row {
        padding: [0, 1, 1],
        output_padding: [0, 1, 1],
        ..row([2, 3, 1, 5, 7], 8, [1, 3, 3], [1, 2, 2])
    };
    // Outputs without taps, and rows that end within a vector.
    let gaps = Row {
        output_padding: [0, 0, 2],
        ..row([2, 2, 1, 3, 5], 6, [1, 1, 2], [1, 2, 3])
    };
    for row in [
        Ended {
            batch_norm: true,
            function: Some(PointwiseSpec::Relu {}),
            ..Ended::of(two_classes)
        },
        Ended {
            batch_norm: true,
            list: &[SILU, ADD],
            ..Ended::of(gaps)
        },
        Ended {
            batch_norm: true,
            list: &[ADD],
            ..Ended::of(Row {
                bias: false,
                ..gaps
            })
        },
        Ended {
            function: Some(PointwiseSpec::LeakyRelu {
                negative_slope: 0.25,
            }),
            list: &[ADD, HARDSWISH],
            scale: true,
            ..Ended::of(two_classes)
        },
        Ended {
            scale: true,
            ..Ended::of(gaps)
        },
        // Groups of whole vectors of channels; volumes.
        Ended {
            batch_norm: true,
            function: Some(PointwiseSpec::Relu {}),
            list: &[HARDSWISH, ADD],
            ..Ended::of(Row {
                groups: 2,
                ..row([2, 4, 2, 3, 3], 8, [2, 3, 2], [2, 2, 1])
            })
        },
        // A class whose convolution has the output itself; more outputs than a block writes, and a partial
        // last vector.
        Ended {
            batch_norm: true,
            list: &[HARDSWISH],
            ..Ended::of(row([1, 2, 1, 33, 35], 5, [1, 2, 3], [1, 1, 1]))
        },
        Ended {
            list: &[ADD],
            ..Ended::of(row([1, 1, 1, 3, 5], 1, [1; 3], [1, 1, 3]))
        },
    ] {
        let mut layers = vec![row.of.layer()];
        if row.batch_norm {
            let norm = Layer::batch_norm("norm").eps(1e-3).affine(true);
            layers.push(norm.into());
        }
        layers.extend(row.function.map(Layer::Pointwise));
        layers.extend(row.list.iter().map(Listed::layer));
        if row.scale {
            layers.push(Layer::scale("behind").into());
        }
        let mut case = case::<T>(layers, &row.of.input);
        let of_layer = 1 + usize::from(row.of.bias);
        if row.batch_norm {
            case.parameters[of_layer + 1].mapv_inplace(|v| stored::<T>(v.abs() + 0.1));
        }
        check::<T>(run, &row, &case)?;
        check::<T>(run, &row, &case.special())?;
    }
    Ok(())
}

/// Checks one row.
fn check<T: Storage>(run: &Run, row: &Ended, case: &Case) -> Outcome {
    let [gain, shift] = match row.batch_norm {
        true => folded(case),
        false => [vec![], vec![]],
    };
    let function = row.function.map(|function| Step::of(&function));
    let epilogue = Epilogue {
        gain_and_shift: Presence::of(row.batch_norm),
        ..function.map_or(Epilogue::NONE, |step| {
            Epilogue::of(step).expect("a slope or a bound")
        })
    };
    let loaded = run.load::<T>(case)?;
    let convolved = Convolved::new(run, &problem(case), &loaded)?;
    let residual = loaded.parameters.get(case.parameters.len());
    let mut list = residual_list(row.list);
    let mut factors = vec![];
    if row.scale {
        list.affine_at = list.functions.len() as u32;
        factors = case
            .parameters
            .last()
            .expect("factors")
            .iter()
            .copied()
            .collect();
    }
    let shifts = vec![0.0; factors.len()];
    let behind = OutputEpilogue {
        behind: [run.tensor(&factors)?, run.tensor(&shifts)?],
        gain: run.tensor(&gain)?,
        shift: run.tensor(&shift)?,
        epilogue,
        list,
        residual,
    };
    let y = convolved.interleaved(run, Layout::Nchw, &behind)?;
    let wanted = case.expected(&precision::<T>());
    compare(
        &case.name,
        &y,
        &wanted.expect("layers that take this input"),
    )?;
    let (n, channels) = (convolved.g.n, convolved.g.channels);
    let residual = residual.map(|of| run.channels_last(of, n, channels));
    let residual = residual.transpose()?;
    let behind = OutputEpilogue {
        residual: residual.as_ref(),
        ..behind
    };
    let last = convolved.interleaved(run, Layout::Nhwc, &behind)?;
    let wanted = run.channels_last(&y, n, channels)?;
    same_numbers(&format!("{}, channels last", case.name), &last, &wanted)
}
