//! Layer norms of several rows of a sample, followed by lists.

use std::ffi::c_void;

use cuda_std::Storage;
use launch_config::AffineType;
use launch_config::layer_norm::LayerNormGeometry;
use launch_config::pointwise::OperandList;
use launch_config::series::SeriesGeometry;
use op_spec::graph::{Chain, Layer, LayerProblem};

use super::super::kernels::layer_norm::LAYER_NORM_ROWS;
use super::far::{blocks_are, far_blocks, number};
use super::pointwise::list;
use super::softmax::Operands;
use super::{Failure, Outcome, Run, Tensor, case, compare, expected, label, optional, same_bits};

/// Shapes, and the number of trailing axes that are normalised. Rows of single values, of about a vector, in
/// one thread and in several, with whole vectors and without, of a warp and of a block, in one batch and in
/// several. More rows than a block has.
const SHAPES: [(&[usize], usize); 13] = [
    (&[1, 3, 1], 1),
    (&[1, 70, 3], 1),
    (&[2, 150, 4], 1),
    (&[2, 37, 15], 1),
    (&[2, 3, 5, 64], 1),
    (&[1, 5, 77], 1),
    (&[1, 2, 3, 4, 43], 2),
    (&[2, 2, 1023], 1),
    (&[1, 2, 1024], 1),
    (&[1, 2, 5, 205], 2),
    (&[1, 2, 2048], 1),
    (&[1, 2, 8195], 1),
    (&[1, 2, 92, 92], 2),
];

/// A layer norm over the last `axes` axes.
fn layer(shape: &[usize], axes: usize) -> Layer {
    Layer::from(Layer::layer_norm("norm", &shape[shape.len() - axes..]))
}

fn geometry(layer: &Layer, input: &[usize], of: AffineType) -> LayerNormGeometry {
    let chain = Chain::new(input[1], [layer.clone()]).expect("a layer");
    let problem = chain.problem(input).expect("an input that fits");
    match problem.steps[0].problem {
        LayerProblem::LayerNorm(problem) => {
            LayerNormGeometry::of(&problem, of).expect("short rows")
        }
        other => panic!("{other:?}"),
    }
}

/// Launches the kernel with weight and bias, which may be null.
fn launch<T: Storage>(
    run: &Run,
    x: &Tensor<T>,
    [weight, bias]: [*const c_void; 2],
    g: LayerNormGeometry,
    operands: &Operands<'_, T>,
) -> Result<Tensor<T>, Failure> {
    let y = run.empty::<T>(x.len())?;
    let [gain, shift] = operands.gains_and_shifts();
    let residual = optional(operands.residual);
    let (x, y_ptr) = (x.source(), y.ptr());
    let arguments = (
        x,
        weight,
        bias,
        residual,
        gain,
        shift,
        y_ptr,
        g,
        operands.list,
    );
    run.launch(&LAYER_NORM_ROWS, &[label::<T>()], g.rows.shape(), arguments)?;
    Ok(y)
}

/// Checks norms with weight and bias, with one of them, and with none; with a mean far from 0 and with NaN.
/// The last sample alone, and parameters in f32, give the same bits.
pub(crate) fn matches<T: Storage>(run: &Run) -> Outcome {
    for (shape, axes) in SHAPES {
        let norm = layer(shape, axes);
        let g = geometry(&norm, shape, AffineType::TENSOR);
        for (has, is_poisoned) in [[true, true], [true, false], [false, true]]
            .into_iter()
            .zip([false, true, false])
        {
            let mut case = case::<T>([norm.clone()], shape);
            case = match is_poisoned {
                true => case.poisoned(),
                false => case.shifted(20.0).rounded(super::stored::<T>),
            };
            for (at, neutral) in [(0, 1.0), (1, 0.0)] {
                if !has[at] {
                    case.parameters[at].fill(neutral);
                }
            }
            let loaded = run.load::<T>(&case)?;
            let (x, parameters) = (&loaded.x, &loaded.parameters);
            let affine = [0, 1].map(|at: usize| optional(has[at].then_some(&parameters[at])));
            let y = launch(run, x, affine, g, &Operands::NONE)?;
            compare(&case.name, &y, &expected::<T>(&case))?;
            let wide = run.load::<f32>(&case)?.parameters;
            let affine_in_f32 = [0, 1].map(|at: usize| optional(has[at].then_some(&wide[at])));
            let of_f32 = geometry(&norm, shape, AffineType::F32);
            let in_f32 = launch(run, x, affine_in_f32, of_f32, &Operands::NONE)?;
            same_bits(&case.name, &in_f32, &y)?;
            // One element further, so that the parameters are not vector-aligned.
            let behind =
                |at: usize| run.tensor::<T>(&[&[0.0], &parameters[at].values()?[..]].concat());
            let behind = [behind(0)?, behind(1)?];
            let affine_behind = [0, 1].map(|at: usize| match has[at] {
                true => behind[at].source::<T>().wrapping_add(1).cast(),
                false => std::ptr::null(),
            });
            let shifted = launch(run, x, affine_behind, g, &Operands::NONE)?;
            same_bits(&case.name, &shifted, &y)?;
            if shape[0] == 1 || is_poisoned {
                continue;
            }
            let len = x.len() / shape[0];
            let of_one: Vec<usize> = [&[1], &shape[1..]].concat();
            let g = geometry(&norm, &of_one, AffineType::TENSOR);
            let last = run.tensor::<T>(&x.values()?[x.len() - len..])?;
            let alone = launch(run, &last, affine, g, &Operands::NONE)?;
            let last = run.tensor::<T>(&y.values()?[x.len() - len..])?;
            same_bits(&format!("the last sample of {}", case.name), &alone, &last)?;
        }
    }
    Ok(())
}

/// Checks lists of functions, a residual, and a gain and shift of each channel.
pub(crate) fn lists<T: Storage>(run: &Run) -> Outcome {
    for (shape, axes) in [
        (&[2, 3, 5, 20][..], 1),
        (&[2, 3, 5, 21], 1),
        (&[2, 3, 5, 6], 2),
    ] {
        let norm = layer(shape, axes);
        let g = geometry(&norm, shape, AffineType::TENSOR);
        let functions = [Layer::tanh(), Layer::add("residual"), Layer::sigmoid()];
        let behind = case::<T>([std::slice::from_ref(&norm), &functions].concat(), shape);
        let loaded = run.load::<T>(&behind)?;
        let [weight, bias, residual] = &loaded.parameters[..] else {
            unreachable!("a norm's and a residual")
        };
        let operands = Operands {
            list: list(&functions),
            residual: Some(residual),
            ..Operands::NONE
        };
        let y = launch(
            run,
            &loaded.x,
            [weight.source(), bias.source()],
            g,
            &operands,
        )?;
        compare(&behind.name, &y, &expected::<T>(&behind))?;

        let layers = [
            norm.clone(),
            Layer::from(Layer::scale("gain")),
            Layer::mul(0.5),
        ];
        let scaled = case::<T>(layers, shape);
        let loaded = run.load::<T>(&scaled)?;
        let [weight, bias, gain] = &loaded.parameters[..] else {
            unreachable!("a norm's and a scale's")
        };
        let gain = run.tensor::<f32>(&gain.values()?)?;
        let shift = run.tensor::<f32>(&vec![-0.0; gain.len()])?;
        let operands = Operands {
            list: OperandList {
                affine_at: 0,
                ..list(&[Layer::mul(0.5)])
            },
            gain_and_shift: Some([&gain, &shift]),
            ..Operands::NONE
        };
        let y = launch(
            run,
            &loaded.x,
            [weight.source(), bias.source()],
            g,
            &operands,
        )?;
        compare(&scaled.name, &y, &expected::<T>(&scaled))?;
    }
    Ok(())
}

/// Checks rows of -1 and 1, in a tensor of more than 2^32 elements.
pub(crate) fn far(run: &Run) -> Outcome {
    let rows = SeriesGeometry::new(2_500_000_001, 2, 1);
    let g = LayerNormGeometry {
        rows,
        eps: 0.0,
        affine_type: AffineType::TENSOR,
    };
    let of = |index: u64| {
        if (index % 2 == 1) == (number(index / 2) < 0.0) {
            1.0
        } else {
            -1.0
        }
    };
    let x = run.computed::<f32>(2 * rows.series, of)?;
    let y = run.sparse::<f32>(2 * rows.series)?;
    let span = 2 * u64::from(rows.block_series);
    let blocks = far_blocks(2 * rows.series, span);
    let (none, no_gain) = (std::ptr::null(), std::ptr::null());
    let (x, y_ptr) = (x.source(), y.ptr());
    let arguments = (
        x,
        none,
        none,
        none,
        no_gain,
        no_gain,
        y_ptr,
        g,
        OperandList::EMPTY,
    );
    let labels = [label::<f32>()];
    run.launch_some(&LAYER_NORM_ROWS, &labels, rows.shape(), &blocks, arguments)?;
    blocks_are("rows", &y, span, &blocks, of)
}
