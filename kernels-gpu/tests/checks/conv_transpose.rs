//! Transposed convolutions: the filters of their classes, direct convolutions, and the interleave kernels.

use cuda_std::{Label, Storage};
use launch_config::KernelGeometry;
use launch_config::conv_transpose::{Class, InterleaveGeometry, MAX_CLASSES, PhaseFiltersGeometry};
use launch_config::implicit_gemm::Epilogue;
use launch_config::pointwise::OperandList;
use op_spec::graph::{Layer, LayerProblem};
use op_spec::{ConvTransposeProblem, Layout};
use oracle::Case;

use super::super::kernels::conv::CONV_DIRECT;
use super::super::kernels::conv_transpose::nhwc::CONV_TRANSPOSE_INTERLEAVE_NHWC;
use super::super::kernels::conv_transpose::{CONV_TRANSPOSE_FILTERS, CONV_TRANSPOSE_INTERLEAVE};
use super::draws::Draw;
use super::far::{blocks_are, far_blocks, number};
use super::{
    Failure, Loaded, Outcome, Run, Tensor, case, compare, expected, label, optional, same_bits,
};

/// A transposed convolution of volumes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    /// `[n, c, d, h, w]`.
    pub(super) input: [usize; 5],
    pub(super) out_channels: usize,
    pub(super) kernel: [usize; 3],
    pub(super) stride: [usize; 3],
    pub(super) padding: [usize; 3],
    pub(super) output_padding: [usize; 3],
    pub(super) dilation: [usize; 3],
    pub(super) groups: usize,
    pub(super) bias: bool,
}

/// A row with these channels, extents and strides, and a bias.
pub(super) fn row(
    input: [usize; 5],
    out_channels: usize,
    kernel: [usize; 3],
    stride: [usize; 3],
) -> Row {
    Row {
        input,
        out_channels,
        kernel,
        stride,
        padding: [0; 3],
        output_padding: [0; 3],
        dilation: [1; 3],
        groups: 1,
        bias: true,
    }
}

fn rows() -> Vec<Row> {
    vec![
        row([1, 1, 1, 1, 1], 1, [1; 3], [1; 3]),
        // One class; rows of one vector, of several, and that end within a vector.
        row([2, 3, 1, 4, 8], 4, [1, 2, 2], [1, 2, 2]),
        row([1, 2, 1, 3, 33], 3, [1, 1, 3], [1, 1, 3]),
        // Sequences with residues without taps, and more of these outputs at both ends.
        Row {
            output_padding: [0, 0, 6],
            ..row([2, 2, 1, 1, 19], 8, [1, 1, 2], [1, 1, 7])
        },
        // Two classes along each axis, of different extents; cropped on both sides, and more on one.
        Row {
            padding: [1, 1, 1],
            output_padding: [1, 1, 1],
            ..row([2, 3, 2, 3, 5], 8, [3; 3], [2; 3])
        },
        Row {
            padding: [0, 2, 3],
            dilation: [1, 3, 2],
            bias: false,
            ..row([1, 2, 1, 7, 9], 5, [1, 4, 5], [1, 2, 3])
        },
        // Stride and dilation have a divisor: some residues have no taps.
        Row {
            padding: [0, 1, 5],
            dilation: [1, 2, 4],
            ..row([1, 3, 1, 5, 11], 4, [1, 3, 4], [1, 4, 6])
        },
        // Groups of whole vectors of channels, and of less.
        Row {
            groups: 2,
            padding: [0, 1, 0],
            ..row([2, 4, 2, 3, 4], 16, [2, 3, 2], [2, 2, 1])
        },
        Row {
            groups: 3,
            bias: false,
            ..row([1, 6, 1, 4, 13], 9, [1, 4, 3], [1, 3, 2])
        },
        // More outputs than a block writes, of several planes.
        row([1, 2, 1, 33, 35], 4, [1, 2, 3], [1, 2, 2]),
        // Rows of several tiles, and phases that take several blocks a tile.
        row([1, 1, 1, 5, 513], 2, [1, 3, 2], [1, 3, 2]),
        row([2, 1, 2, 9, 23], 1, [1, 4, 3], [1, 5, 3]),
        // Padding leaves little of what the classes would compute.
        Row {
            padding: [2, 5, 6],
            ..row([1, 2, 3, 4, 5], 4, [3, 6, 7], [2, 3, 2])
        },
        // A stride of 1 that pads the output.
        Row {
            dilation: [1, 2, 3],
            output_padding: [0, 1, 2],
            ..row([1, 2, 1, 5, 6], 4, [1, 2, 3], [1, 1, 1])
        },
    ]
}

impl Row {
    /// A small random row of any attributes, with different axes.
    fn drawn(draw: &mut Draw) -> Option<Self> {
        let [d, h, w] = [draw.from(1, 4), draw.from(1, 6), draw.from(1, 9)];
        let groups = draw.of(&[1, 1, 2, 3]);
        let channels = [1, draw.from(1, 3), draw.of(&[1, 2, 3, 4, 8])].map(|of| groups * of);
        let mut row = Row {
            kernel: [0; 3].map(|_| draw.from(1, 5)),
            stride: draw.apart([1, 2, 3]),
            padding: [0; 3].map(|_| draw.from(0, 3)),
            output_padding: [0; 3].map(|_| draw.from(0, 1)),
            dilation: draw.apart([1, 2, 3]),
            groups,
            bias: draw.from(0, 2) > 0,
            ..row(
                [draw.from(1, 2), channels[1], d, h, w],
                channels[2],
                [1; 3],
                [1; 3],
            )
        };
        if draw.from(0, 1) == 0 {
            row.dilation = [1; 3];
        }
        // An image.
        if draw.from(0, 1) == 0 {
            (row.input[2], row.kernel[0], row.stride[0]) = (1, 1, 1);
            (row.padding[0], row.output_padding[0], row.dilation[0]) = (0, 0, 1);
        }
        let weight = [
            row.input[1],
            row.out_channels / groups,
            row.kernel[0],
            row.kernel[1],
            row.kernel[2],
        ];
        let Layer::ConvTranspose3d(layer) = row.layer() else {
            unreachable!("a layer of volumes");
        };
        let problem = layer.attributes.problem(&row.input, &weight, None);
        problem.is_ok().then_some(row)
    }

    pub(super) fn layer(&self) -> Layer {
        Layer::from(
            Layer::conv_transpose3d("up", self.out_channels, self.kernel)
                .stride(self.stride)
                .padding(self.padding)
                .output_padding(self.output_padding)
                .dilation(self.dilation)
                .groups(self.groups)
                .bias(self.bias),
        )
    }
}

/// Checks every row, some with NaN and infinities.
pub(crate) fn matches<T: Storage>(run: &Run) -> Outcome {
    for (number, row) in rows().iter().enumerate() {
        let case = case::<T>([row.layer()], &row.input);
        check::<T>(run, &case)?;
        if number % 2 == 1 {
            check::<T>(run, &case.special())?;
        }
    }
    Ok(())
}

/// Checks random rows.
pub(crate) fn drawn<T: Storage>(run: &Run) -> Outcome {
    let mut draw = Draw::new(23);
    let mut rows = (0..).filter_map(|_| Row::drawn(&mut draw));
    rows.by_ref()
        .take(24)
        .try_for_each(|row| check::<T>(run, &case::<T>([row.layer()], &row.input)))
}

pub(super) fn problem(case: &Case) -> ConvTransposeProblem<3> {
    match case.problem().expect("a valid case").steps[0].problem {
        LayerProblem::ConvTranspose3d(problem) => problem,
        other => panic!("no transposed convolution of volumes: {other:?}"),
    }
}

/// The filters and the bias of a class, and its convolution of `x`.
fn convolved<T: Storage>(
    run: &Run,
    problem: &ConvTransposeProblem<3>,
    class: &Class,
    Loaded { x, parameters }: &Loaded<T>,
) -> Result<Tensor<T>, Failure> {
    let geometry = problem.geometry().expect("a small case");
    let g = PhaseFiltersGeometry::of(class, &geometry, problem);
    let filters = run.empty::<T>((g.filters() * g.filter_elements()) as usize)?;
    let of_bias = if problem.bias { g.filters() } else { 0 };
    let phase_bias = run.empty::<T>(of_bias as usize)?;
    let bias = parameters.get(1).map_or(std::ptr::null(), Tensor::source);
    let arguments = (
        parameters[0].source(),
        bias,
        filters.ptr(),
        phase_bias.ptr(),
        g,
    );
    run.launch(
        &CONV_TRANSPOSE_FILTERS,
        &[label::<T>()],
        g.shape(),
        arguments,
    )?;

    let convolution = class.convolution(&geometry, problem).expect("a small case");
    let y = run.empty::<T>(convolution.output_shape().elements())?;
    let conv = convolution.geometry().expect("a small case");
    let tile = conv.direct_tile();
    let labels = [Label::Number(3), tile.name().into(), label::<T>()];
    let bias = match problem.bias {
        true => phase_bias.source(),
        false => std::ptr::null(),
    };
    let arguments = (x.source(), filters.source(), bias, y.ptr(), conv);
    run.launch(&CONV_DIRECT, &labels, conv.direct_shape(tile), arguments)?;
    Ok(y)
}

/// The results of all classes, in both layouts.
pub(super) struct Convolved<T> {
    pub(super) g: InterleaveGeometry,
    pub(super) results: [[Option<Tensor<T>>; MAX_CLASSES]; 2],
    pub(super) bias: *const std::ffi::c_void,
}

/// The epilogue of the interleave kernels.
pub(super) struct OutputEpilogue<'a, T> {
    pub(super) gain: Tensor<f32>,
    pub(super) shift: Tensor<f32>,
    /// The list's gain and shift.
    pub(super) behind: [Tensor<f32>; 2],
    pub(super) epilogue: Epilogue,
    pub(super) list: OperandList,
    pub(super) residual: Option<&'a Tensor<T>>,
}

impl<T: Storage> OutputEpilogue<'_, T> {
    /// An epilogue that changes nothing.
    fn none(run: &Run) -> Result<Self, Failure> {
        Ok(Self {
            gain: run.tensor(&[])?,
            shift: run.tensor(&[])?,
            behind: [run.tensor(&[])?, run.tensor(&[])?],
            epilogue: Epilogue::NONE,
            list: OperandList::EMPTY,
            residual: None,
        })
    }
}

impl<T: Storage> Convolved<T> {
    pub(super) fn new(
        run: &Run,
        problem: &ConvTransposeProblem<3>,
        loaded: &Loaded<T>,
    ) -> Result<Self, Failure> {
        let g = problem.geometry().expect("a small case");
        let g = g.of_elements(size_of::<T>() as u32);
        let mut results = [const { [const { None }; MAX_CLASSES] }; 2];
        for class in g.classes() {
            let y = convolved(run, problem, &class, loaded)?;
            let channels = problem.k * class.count();
            results[1][class.number] = Some(run.channels_last(&y, g.n, channels as u32)?);
            results[0][class.number] = Some(y);
        }
        Ok(Self {
            g,
            results,
            bias: optional(problem.bias.then(|| &loaded.parameters[1])),
        })
    }

    /// Interleaves the results in a layout; the residual has the same layout.
    pub(super) fn interleaved(
        &self,
        run: &Run,
        layout: Layout,
        behind: &OutputEpilogue<'_, T>,
    ) -> Result<Tensor<T>, Failure> {
        let (results, family) = match layout {
            Layout::Nchw => (&self.results[0], &CONV_TRANSPOSE_INTERLEAVE),
            Layout::Nhwc => (&self.results[1], &CONV_TRANSPOSE_INTERLEAVE_NHWC),
        };
        let [a, b, c, d, e, f, g, h] = results.each_ref().map(|of| optional(of.as_ref()));
        let y = run.empty::<T>(self.g.elements() as usize)?;
        let arguments = (
            a,
            b,
            c,
            d,
            e,
            f,
            g,
            h,
            self.bias,
            behind.gain.source(),
            behind.shift.source(),
            behind.behind[0].source(),
            behind.behind[1].source(),
            optional(behind.residual),
            y.ptr(),
            self.g,
            behind.epilogue,
            behind.list,
        );
        run.launch(family, &[label::<T>()], self.g.shape(layout), arguments)?;
        Ok(y)
    }
}

/// Compares the case's NCHW output with the oracle, and its NHWC output with the bits of the NCHW output.
fn check<T: Storage>(run: &Run, case: &Case) -> Outcome {
    let loaded = run.load::<T>(case)?;
    let convolved = Convolved::new(run, &problem(case), &loaded)?;
    let (g, none) = (&convolved.g, OutputEpilogue::none(run)?);
    if let Some(class) = g.is_convolution() {
        let y = convolved.results[0][class.number]
            .as_ref()
            .expect("a class with results");
        compare(&format!("{} alone", case.name), y, &expected::<T>(case))?;
    }
    let y = convolved.interleaved(run, Layout::Nchw, &none)?;
    compare(&case.name, &y, &expected::<T>(case))?;

    let wanted = run.channels_last(&y, g.n, g.channels)?;
    let y = convolved.interleaved(run, Layout::Nhwc, &none)?;
    same_bits(&format!("{}, channels last", case.name), &y, &wanted)
}

/// Outputs of more than 2^32 elements, of one class.
pub(crate) fn far(run: &Run) -> Outcome {
    // Rows that whole tiles cover; two phases along rows and two along columns.
    far_of(run, Layout::Nchw, [1, 1 << 29], [1, 2])?;
    far_of(run, Layout::Nhwc, [1, 1 << 29], [1, 2])
}

/// [`far`] for images of these extents, with these numbers of phases along rows and columns.
fn far_of(run: &Run, layout: Layout, image: [usize; 2], phases: [usize; 2]) -> Outcome {
    let [n, c, k] = [3, 1, 4];
    let input = [n, c, 1, image[0], image[1]];
    let steps = [1, phases[0], phases[1]];
    let Layer::ConvTranspose3d(layer) = row(input, k, steps, steps).layer() else {
        unreachable!("a layer of volumes");
    };
    let problem = layer
        .attributes
        .problem(&input, &[c, k, 1, phases[0], phases[1]], None);
    let problem = problem.expect("planes of less than 2^31 elements");
    let g = problem
        .geometry()
        .expect("planes that are indexed with 31 bits");
    assert_eq!(
        g.classes().map(|class| class.number).collect::<Vec<_>>(),
        [7]
    );
    let [k, rows, columns] = [k, image[0], image[1]].map(|extent| extent as u64);
    let [of_rows, of_columns] = phases.map(|phases| phases as u64);
    let (pixels, all) = (rows * columns, of_rows * of_columns);
    let results = run.computed::<f32>(g.n * all * k * pixels, number)?;
    let none = std::ptr::null();
    let y = run.sparse::<f32>(g.elements())?;
    let arguments = (
        none,
        none,
        none,
        none,
        none,
        none,
        none,
        results.source(),
        none,
        std::ptr::null(),
        std::ptr::null(),
        std::ptr::null(),
        std::ptr::null(),
        none,
        y.ptr(),
        g,
        Epilogue::NONE,
        OperandList::EMPTY,
    );
    let (family, span) = match layout {
        Layout::Nchw => (&CONV_TRANSPOSE_INTERLEAVE, 1),
        Layout::Nhwc => (&CONV_TRANSPOSE_INTERLEAVE_NHWC, g.channels),
    };
    // A pixel has one vector in NHWC.
    assert_eq!((g.tile.slices(), g.nhwc.rows.slices()), (1, 1));
    let tile = g.tile.columns;
    assert_eq!((tile.runs, tile), (1, g.nhwc.rows.columns));
    assert_eq!(tile.tiles * tile.extent, g.columns.divisor);
    let span = u64::from(span * tile.extent);
    let blocks = far_blocks(g.elements(), span);
    run.launch_some(
        family,
        &[label::<f32>()],
        g.shape(layout),
        &blocks,
        arguments,
    )?;
    let wanted = |index: u64| {
        let plane = all * pixels;
        let (sample, channel, pixel) = match layout {
            Layout::Nchw => (index / plane / k, index / plane % k, index % plane),
            Layout::Nhwc => (index / k / plane, index % k, index / k % plane),
        };
        let (p, q) = (
            pixel / (of_columns * columns),
            pixel % (of_columns * columns),
        );
        let of_class = (p % of_rows * of_columns + q % of_columns) * k + channel;
        let pixel = p / of_rows * columns + q / of_columns;
        number(match layout {
            Layout::Nchw => (sample * all * k + of_class) * pixels + pixel,
            Layout::Nhwc => (sample * pixels + pixel) * all * k + of_class,
        })
    };
    blocks_are(
        &format!("interleaved in {layout}"),
        &y,
        span,
        &blocks,
        wanted,
    )
}
