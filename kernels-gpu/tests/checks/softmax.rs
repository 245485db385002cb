//! Softmax over axes of any length, followed by lists.

use cuda_std::Storage;
use launch_config::Presence;
use launch_config::pointwise::OperandList;
use launch_config::series::SeriesGeometry;
use launch_config::softmax::SoftmaxGeometry;
use op_spec::graph::{Chain, Layer, LayerProblem};

use super::super::kernels::softmax::SOFTMAX;
use super::far::{far_blocks, number};
use super::pointwise::list;
use super::{Failure, Outcome, Run, Tensor, case, compare, expected, label, optional, same_bits};

/// Shapes, and the axes of the softmax. Rows of single values, of about a vector, in one thread and in
/// several, with whole vectors and without, of a warp and of a block, in one batch and in several; columns
/// likewise. More series than a block has.
const SHAPES: [(&[usize], &[isize]); 21] = [
    (&[1, 1, 1], &[2]),
    (&[1, 70, 3], &[2]),
    (&[2, 150, 4], &[2]),
    (&[1, 37, 15], &[2]),
    (&[1, 9, 64], &[2]),
    (&[1, 5, 77], &[2]),
    (&[2, 3, 516], &[2]),
    (&[1, 3, 1023], &[2]),
    (&[1, 2, 1024], &[2]),
    (&[1, 2, 1025], &[2]),
    (&[1, 2, 92, 92], &[2, 3]),
    (&[1, 1, 8192], &[2]),
    (&[1, 2, 8195], &[1, 2]),
    (&[3, 1, 5], &[1]),
    (&[2, 6, 150], &[1]),
    (&[1, 33, 7, 9], &[1]),
    (&[2, 64, 2, 131], &[1]),
    (&[1, 129, 35], &[1]),
    (&[1, 256, 33], &[1]),
    (&[2, 257, 3], &[1]),
    (&[1, 700, 2, 3], &[1]),
];

/// The layer's geometry.
fn geometry(layer: &Layer, input: &[usize], is_nhwc: bool) -> SoftmaxGeometry {
    let chain = Chain::new(input[1], [layer.clone()]).expect("a layer");
    let problem = chain.problem(input).expect("an input that fits");
    let problem = match problem.steps[0].problem {
        LayerProblem::Softmax(problem) => problem,
        LayerProblem::LogSoftmax(problem) => problem.softmax,
        other => panic!("{other:?}"),
    };
    SoftmaxGeometry::of(&problem, is_nhwc).expect("few channels")
}

/// Elements of a tensor.
fn elements(shape: &[usize]) -> usize {
    shape.iter().product()
}

/// The operands of a list.
pub(super) struct Operands<'a, T> {
    pub(super) list: OperandList,
    pub(super) residual: Option<&'a Tensor<T>>,
    pub(super) gain_and_shift: Option<[&'a Tensor<f32>; 2]>,
}

impl<T: Storage> Operands<'_, T> {
    /// The operands of a list that changes nothing.
    pub(super) const NONE: Self = Self {
        list: OperandList::EMPTY,
        residual: None,
        gain_and_shift: None,
    };

    /// Pointers to gains and shifts, null if absent.
    pub(super) fn gains_and_shifts(&self) -> [*const f32; 2] {
        [0, 1].map(|at: usize| optional(self.gain_and_shift.map(|of| of[at])))
    }
}

fn launch<T: Storage>(
    run: &Run,
    x: &Tensor<T>,
    g: SoftmaxGeometry,
    operands: &Operands<'_, T>,
) -> Result<Tensor<T>, Failure> {
    let y = run.empty::<T>(x.len())?;
    let [gain, shift] = operands.gains_and_shifts();
    let residual = optional(operands.residual);
    let arguments = (x.source(), residual, gain, shift, y.ptr(), g, operands.list);
    run.launch(&SOFTMAX, &[label::<T>()], g.series.shape(), arguments)?;
    Ok(y)
}

/// Checks both operators, on series with and without NaN and infinities, and on the last sample alone.
pub(crate) fn matches<T: Storage>(run: &Run) -> Outcome {
    let none = Operands::NONE;
    for (shape, dim) in SHAPES {
        for (layer, is_special) in [
            (Layer::softmax(dim), false),
            (Layer::softmax(dim), true),
            (Layer::log_softmax(dim), true),
        ] {
            let mut case = case::<T>([layer.clone()], shape);
            if is_special {
                case = case.special();
                // The first series is all minus infinity, if series are rows.
                let infinite = if dim == [2] { shape[2] } else { 0 };
                case.x
                    .iter_mut()
                    .take(infinite)
                    .for_each(|x| *x = f32::NEG_INFINITY);
            } else {
                case = case.scaled(30.0).rounded(super::stored::<T>);
                // A first batch of all minus infinity.
                let infinite = if elements(shape) > 8192 { 8192 } else { 0 };
                case.x
                    .iter_mut()
                    .take(infinite)
                    .for_each(|x| *x = f32::NEG_INFINITY);
            }
            let x = run.load::<T>(&case)?.x;
            let y = launch(run, &x, geometry(&layer, shape, false), &none)?;
            compare(&case.name, &y, &expected::<T>(&case))?;
            if shape[0] == 1 || is_special {
                continue;
            }
            let len = x.len() / shape[0];
            let last = x.values()?.split_off(x.len() - len);
            let of_one: Vec<usize> = [&[1], &shape[1..]].concat();
            let alone = run.tensor::<T>(&last)?;
            let alone = launch(run, &alone, geometry(&layer, &of_one, false), &none)?;
            let last = run.tensor::<T>(&y.values()?[x.len() - len..])?;
            same_bits(&format!("the last sample of {}", case.name), &alone, &last)?;
        }
    }
    Ok(())
}

/// Checks lists of functions, a residual, and a gain and shift of each channel after a softmax over the
/// channels, over space and over rows, also of channels-last tensors.
pub(crate) fn lists<T: Storage>(run: &Run) -> Outcome {
    let functions = [
        Layer::mul(3.0),
        Layer::sigmoid(),
        Layer::add("residual"),
        Layer::tanh(),
    ];
    for (shape, dim) in [
        (&[2, 43, 5, 7][..], &[1][..]),
        (&[2, 260, 3, 2], &[1]),
        (&[2, 5, 3, 20], &[-1]),
        (&[2, 5, 3, 21], &[-1]),
        (&[2, 3, 5, 6], &[2, 3]),
        (&[2, 3, 5, 6], &[2]),
        (&[1, 3, 8, 1027], &[2, 3]),
    ] {
        let softmax = Layer::softmax(dim);
        let layers = [std::slice::from_ref(&softmax), &functions[..]].concat();
        let case_of_list = case::<T>(layers, shape);
        let loaded = run.load::<T>(&case_of_list)?;
        let operands = Operands {
            list: list(&functions),
            residual: loaded.parameters.first(),
            gain_and_shift: None,
        };
        let g = geometry(&softmax, shape, false);
        let y = launch(run, &loaded.x, g, &operands)?;
        compare(&case_of_list.name, &y, &expected::<T>(&case_of_list))?;

        // Gain and shift are f32 here but exact in `T`, so they equal the layers' parameters.
        let layers = [
            softmax.clone(),
            Layer::from(Layer::scale("gain")),
            Layer::mul(0.5),
        ];
        let affine = case::<T>(layers, shape);
        let loaded = run.load::<T>(&affine)?;
        let gain = run.tensor::<f32>(&loaded.parameters[0].values()?)?;
        let shift = run.tensor::<f32>(&vec![-0.0; gain.len()])?;
        let operands = Operands {
            list: OperandList {
                affine_at: 0,
                ..list(&[Layer::mul(0.5)])
            },
            residual: None,
            gain_and_shift: Some([&gain, &shift]),
        };
        let y = launch(run, &loaded.x, g, &operands)?;
        compare(&affine.name, &y, &expected::<T>(&affine))?;
        if dim == [1] {
            let (n, channels) = (shape[0] as u64, shape[1] as u32);
            let x = run.channels_last(&loaded.x, n, channels)?;
            let last = launch(run, &x, geometry(&softmax, shape, true), &operands)?;
            // Converts back, with channels and pixels swapped.
            let pixels = (shape[2] * shape[3]) as u32;
            let dense = run.channels_last(&last, n, pixels)?;
            same_bits(&affine.name, &dense, &y)?;
        }
    }
    Ok(())
}

/// Checks series of two values of which one has the whole weight, in tensors of more than 2^32 elements:
/// columns, then rows with a residual.
pub(crate) fn far(run: &Run) -> Outcome {
    let labels = [label::<f32>()];
    let inner = 800_000_009;
    for (inner, rows) in [(inner, false), (1, true)] {
        let outer = if rows { 2_500_000_001 } else { 3 };
        let series = SeriesGeometry::new(outer, 2, inner as u32);
        let g = SoftmaxGeometry {
            series,
            is_log: Presence::ABSENT,
        };
        // The series of an element, and whether the element has the whole weight.
        let place = move |index: u64| {
            let series = index / (2 * inner) * inner + index % inner;
            (series, (index / inner % 2 == 1) == (number(series) < 0.0))
        };
        let x = run.computed::<f32>(2 * series.series, move |index| match place(index).1 {
            true => 0.0,
            false => f32::NEG_INFINITY,
        })?;
        let residual = run.computed::<f32>(x.len() as u64, number)?;
        let y = run.sparse::<f32>(x.len() as u64)?;
        let list = match rows {
            true => list(&[Layer::add("residual")]),
            false => OperandList::EMPTY,
        };
        let span = u64::from(series.block_series);
        let blocks = far_blocks(series.series, span);
        let none = std::ptr::null();
        let (x, y_ptr) = (x.source(), y.ptr());
        let arguments = (x, residual.source(), none, none, y_ptr, g, list);
        run.launch_some(&SOFTMAX, &labels, series.shape(), &blocks, arguments)?;
        let wanted = |index| {
            let added = if rows { number(index) } else { 0.0 };
            f32::from(u8::from(place(index).1)) + added
        };
        for block in blocks {
            for number in block * span..series.series.min((block + 1) * span) {
                let first = number / inner * 2 * inner + number % inner;
                for index in [first, first + inner] {
                    y.are("softmax", index..index + 1, wanted)?;
                }
            }
        }
    }
    Ok(())
}
