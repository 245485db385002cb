//! Convolutions from NHWC to NHWC as GEMMs, in all tiles and schedules.

use cuda_std::Storage;
use cuda_std::tensor_map::{MapMode, TensorMap};
use launch_config::batch_norm::FoldGeometry;
use launch_config::conv::ConvGeometry;
use launch_config::gemm::{FewChannels, Gemm, LISTED_PIXELS, PadChannelsGeometry, tiles};
use launch_config::implicit_gemm::sm90::Schedule;
use launch_config::implicit_gemm::{Epilogue, RoundedEpilogue};
use launch_config::pointwise::{PointwiseList, Step};
use launch_config::{AffineType, KernelGeometry, Presence};
use op_spec::PointwiseSpec;
use op_spec::graph::LayerProblem;
use oracle::{Case, Precision};

use super::super::kernels::fused::gemm::pad_channels::GEMM_PAD_CHANNELS;
use super::super::kernels::fused::gemm::{
    GEMM_SM90, boxes_of_filters, boxes_of_output, map_of_input,
};
use super::implicit_gemm_without_norm::folded;
use super::rows::{ADD, HARDSWISH, Listed, RELU, Row, SILU, rows};
use super::{Failure, Outcome, Run, Tensor, compare, label, optional, precision, same_bits};

/// Shared memory of the device for which tiles are chosen.
const SHARED_BYTES: u32 = 227 << 10;

const LEAKY: Listed = Listed::Function(PointwiseSpec::LeakyRelu {
    negative_slope: 0.25,
});
const SIGMOID: Listed = Listed::Function(PointwiseSpec::Sigmoid {});

/// Convolutions with filters of one tap.
fn table() -> [Row; 12] {
    rows! {
        // Less than a tile in every dimension.
        [1, 8, 8], [1, 1, 5], [1, 1, 1];
        // A partial pipeline stage, a partial tile of filters, pixels of several samples in a tile.
        [3, 72, 24], [1, 5, 9], [1, 1, 1], batch_norm(), relu();
        // More K blocks of a tile than shared memory has stages; no bias.
        [1, 584, 16], [1, 3, 4], [1, 1, 1], without_bias(), batch_norm();
        // Several tiles of filters, the last one partial; several tiles of pixels for each block.
        [2, 16, 200], [3, 13, 17], [1, 1, 1], batch_norm(), list(&[SILU, ADD]);
        [2, 64, 136], [1, 21, 16], [1, 1, 1], leaky_relu(0.25), list(&[HARDSWISH, ADD, RELU]);
        [1, 128, 64], [1, 19, 31], [1, 1, 1], batch_norm(), list(&[HARDSWISH]);
        [1, 24, 128], [1, 11, 50], [1, 1, 1], without_bias(), list(&[ADD]);
        [1, 40, 72], [2, 7, 9], [1, 1, 1], list(&[SILU]);
        // Lists of other functions.
        [3, 16, 72], [1, 1, 30], [1, 1, 1], batch_norm(), relu(), list(&[SIGMOID, HARDSWISH]);
        [1, 8, 136], [1, 9, 9], [1, 1, 1], list(&[SIGMOID]);
        // A slope after a residual.
        [1, 576, 24], [1, 3, 50], [1, 1, 1], without_bias(), list(&[ADD, LEAKY]);
        // Buffers that several tiles of a warpgroup share.
        [3, 64, 72], [1, 20, 31], [1, 1, 1], batch_norm(), list(&[ADD, RELU]);
    }
}

/// Convolutions with filters of several taps, and with few channels.
fn windows() -> [Row; 17] {
    rows! {
        // Windows of several samples in a tile, at all edges; two stages of a tap, the second one partial.
        [3, 72, 24], [1, 5, 9], [1, 3, 3], padding([0, 1, 1]), batch_norm(), relu();
        // Strides with which the last windows do not reach the edge.
        [2, 16, 72], [1, 12, 11], [1, 3, 3], stride([1, 2, 3]), padding([0, 1, 1]), batch_norm(), list(&[SILU, ADD]);
        [2, 64, 136], [1, 9, 12], [1, 1, 1], stride([1, 2, 2]), leaky_relu(0.25);
        // Dilation, no padding, filters that are not square.
        [1, 24, 64], [1, 17, 19], [1, 2, 5], dilation([1, 5, 3]), without_bias();
        // Volumes.
        [2, 8, 16], [4, 5, 6], [3, 3, 3], padding([1; 3]), list(&[ADD]);
        [1, 16, 24], [7, 9, 8], [3, 2, 1], stride([2, 1, 4]), padding([1, 0, 0]), dilation([2, 1, 1]), batch_norm();
        // Windows in the padding alone; more padding than the filter reaches.
        [2, 40, 8], [1, 2, 3], [1, 3, 3], padding([0, 4, 5]), list(&[HARDSWISH]);
        // The maximum of each tensor map attribute: step, offset, and the lower corner.
        [1, 8, 8], [1, 40, 33], [1, 1, 32], stride([1, 8, 1]), padding([0, 0, 16]), list(&[SIGMOID]);
        // Whole lines of nine taps.
        [2, 64, 136], [1, 7, 9], [1, 3, 3], padding([0, 1, 1]), batch_norm(), relu();
        // Few channels: a filter's row in one line. Lines of neighbouring windows overlap.
        [2, 3, 24], [1, 13, 18], [1, 7, 7], stride([1, 2, 2]), padding([0, 3, 3]), batch_norm(), relu();
        [1, 3, 72], [1, 9, 11], [1, 3, 3], padding([0, 1, 1]), list(&[SILU, ADD]);
        [2, 3, 16], [1, 12, 11], [1, 3, 3], stride([1, 2, 2]), padding([0, 1, 1]), batch_norm();
        // Adjacent lines; columns at the end that no window has.
        [2, 3, 16], [1, 9, 14], [1, 4, 4], stride([1, 4, 4]), without_bias();
        // Volumes; one row of a filter; filters whose rows are longer than a line, and dilated ones.
        [2, 1, 8], [4, 5, 6], [3, 3, 3], padding([1; 3]), leaky_relu(0.25);
        [1, 2, 8], [1, 7, 40], [1, 1, 5], padding([0, 0, 2]);
        [1, 12, 16], [1, 6, 9], [1, 2, 9], dilation([1, 1, 2]), padding([0, 1, 8]), batch_norm();
        // Lines with gaps between their rows.
        [1, 3, 8], [1, 11, 9], [1, 3, 3], dilation([1, 2, 1]), padding([0, 2, 1]);
    }
}

/// Checks all rows, in all tiles and schedules.
pub(crate) fn matches<T: Storage>(run: &Run) -> Outcome {
    for (number, row) in table().iter().enumerate() {
        check::<T>(
            run,
            &format!("row {number}"),
            (row, row.case::<T>()),
            |_| true,
        )?;
    }
    let row = table()[1];
    let case = special::<T>(&row, [3, 5, 0, 0, 0]);
    check::<T>(run, "special values", (&row, case), |_| true)
}

/// Checks all rows of windows, each in two tiles or schedules, or in one with a list.
pub(crate) fn matches_of_windows<T: Storage>(run: &Run) -> Outcome {
    for (number, row) in windows().iter().enumerate() {
        let what = format!("row {number} of windows");
        let forms = |form| form % 4 == number % 4;
        check::<T>(run, &what, (row, row.case::<T>()), forms)?;
    }
    let row = windows()[0];
    let mut case = special::<T>(&row, [3, 5, 0, 1, 2]);
    // In the first channels: any value that is multiplied after the last tap is none of these.
    case.x[[1, 5, 0, 2, 4]] = f32::INFINITY;
    check::<T>(run, "windows of special values", (&row, case), |form| {
        form == 5
    })
}

/// The row's case with non-finite values in the input and among the filters.
fn special<T: Storage>(row: &Row, of_filters: [usize; 5]) -> Case {
    let mut case = row.case::<T>().special();
    case.parameters[0][of_filters] = f32::INFINITY;
    case
}

/// Copies of input and filters for channels that are not whole vectors.
fn few_channels<T: Storage>(
    conv: &ConvGeometry,
    run: &Run,
    x: &Tensor<T>,
    filters: &Tensor<T>,
) -> Result<Option<[Tensor<T>; 2]>, Failure> {
    let bytes = size_of::<T>() as u32;
    let Some(few) = FewChannels::of(conv, bytes).expect("few vectors") else {
        return Ok(None);
    };
    let padded = |source: &Tensor<T>, g: PadChannelsGeometry| {
        let y = run.empty::<T>(g.elements() as usize)?;
        let arguments = (source.source(), y.ptr(), g);
        let labels = [label::<T>()];
        run.launch(&GEMM_PAD_CHANNELS, &labels, g.shape(), arguments)?;
        Ok::<_, Failure>(y)
    };
    let last = run.channels_last(filters, conv.group_k.into(), conv.group_c)?;
    let copy = padded(&last, few.filters(true))?;
    let of_first = padded(filters, few.filters(false))?;
    same_bits("filters of either order", &copy, &of_first)?;
    Ok(Some([padded(x, few.input)?, copy]))
}

fn check<T: Storage>(
    run: &Run,
    what: &str,
    (row, case): (&Row, Case),
    takes: impl Fn(usize) -> bool,
) -> Outcome {
    let problem = case.problem().expect("a sound problem").steps[0].problem;
    let LayerProblem::Conv3d(conv) = problem else {
        unreachable!("a convolution of volumes")
    };
    let bytes = size_of::<T>() as u32;
    let conv = conv.geometry().expect("a small problem");
    // Operands of f32 are rounded to tf32.
    let precision = match bytes {
        2 => precision::<T>(),
        _ => Precision::TF32,
    };
    let wanted = case.expected(&precision);
    let wanted = wanted.expect("layers that take this input");
    let loaded = run.load::<T>(&case)?;
    let last = |tensor: &Tensor<T>| run.channels_last(tensor, conv.n, conv.output_channels());
    let x = run.channels_last(&loaded.x, conv.n, conv.group_c)?;
    let residual = loaded.parameters.get(case.parameters.len());
    let residual = residual.map(last).transpose()?;
    let [x, filters] = match few_channels(&conv, run, &x, &loaded.parameters[0])? {
        Some(copies) => copies,
        None => {
            let filters = &loaded.parameters[0];
            [
                x,
                run.channels_last(filters, conv.group_k.into(), conv.group_c)?,
            ]
        }
    };
    let outputs = (conv.n * u64::from(conv.output_pixels())) as usize;
    // The norm's parameters are the last four. The kernel takes them in f32, in the tensors' type, or folded.
    let first = case.parameters.len() - 4 * usize::from(row.batch_norm);
    let norm = case
        .problem()
        .expect("a sound problem")
        .steps
        .get(1)
        .map(|step| step.problem);
    let fold = match norm {
        Some(LayerProblem::BatchNorm(norm)) => FoldGeometry::of(&norm).expect("few channels"),
        _ => FoldGeometry::NONE,
    };
    let in_f32 = |index: usize| {
        let values: Vec<f32> = case.parameters[first + index].iter().copied().collect();
        run.tensor::<f32>(&values)
    };
    let function = row.function.map(|function| Step::of(&function));
    let ends = function.map_or(Epilogue::NONE, |step| {
        Epilogue::of(step).expect("a slope or a bound")
    });
    let of_row = row.residual_list();
    let (rounded, list) = match RoundedEpilogue::of(&of_row) {
        Some(rounded) => (rounded, PointwiseList::EMPTY),
        None => {
            assert!(
                !of_row.has_residual(),
                "{what}: the kernel has no such list"
            );
            (RoundedEpilogue::NONE, of_row.functions)
        }
    };
    let mut forms = 0;
    let all = tiles(bytes)
        .iter()
        .flat_map(|&tile| [Schedule::PING_PONG, Schedule::COOPERATIVE].map(|of| (tile, of)));
    for (form, (tile, schedule)) in all.enumerate() {
        if !takes(form) {
            continue;
        }
        if !list.is_empty() && tile.pixels != LISTED_PIXELS {
            continue;
        }
        // Few multiprocessors, so that a block has several tiles.
        let form_of = (tile, schedule);
        let gemm = Gemm::in_tiles((&conv, bytes), form_of, 1 + forms % 3, SHARED_BYTES);
        let gemm = gemm.expect("a product");
        let y = run.empty::<T>(outputs * conv.group_k as usize)?;
        let form = if row.batch_norm { forms % 3 } else { 3 };
        forms += 1;
        let folded_values = (form == 2).then(|| folded(&case));
        let folded_values = folded_values
            .map(|of| Ok::<_, Failure>([run.tensor::<f32>(&of[0])?, run.tensor(&of[1])?]));
        let [gain, shift] = match folded_values.transpose()? {
            Some([gain, shift]) => [Some(gain), Some(shift)],
            None => [None, None],
        };
        let of_norm: [Option<Tensor<f32>>; 4] = match form {
            0 => [in_f32(0)?, in_f32(1)?, in_f32(2)?, in_f32(3)?].map(Some),
            _ => [const { None }; 4],
        };
        let parameter = |index: usize| match (&of_norm[index], form) {
            (Some(tensor), _) => tensor.source(),
            (None, 1) => loaded.parameters[first + index].source(),
            (None, _) => std::ptr::null(),
        };
        let map = |mode: MapMode, tensor: &Tensor<T>| mode.emulated(tensor.source());
        let of_output = boxes_of_output(&gemm, conv.group_k as usize).into();
        let arguments = (
            map(map_of_input(&gemm), &x),
            map(boxes_of_filters(&gemm).into(), &filters),
            (residual.as_ref()).map_or(TensorMap::NONE, |of| map(of_output, of)),
            map(of_output, &y),
            optional(conv.bias.is_present().then(|| &loaded.parameters[1])),
            optional(gain.as_ref()),
            optional(shift.as_ref()),
            parameter(0),
            parameter(1),
            parameter(2),
            parameter(3),
            gemm.geometry,
            fold,
            AffineType::of(form == 0),
            Presence::of(form < 2),
            Epilogue {
                gain_and_shift: Presence::of(form == 2),
                ..ends
            },
            rounded,
            list,
        );
        let labels = [tile.label.into(), label::<T>()];
        run.launch(&GEMM_SM90, &labels, Some(gemm.shape), arguments)?;
        // Converts back to NCHW.
        let y = run.channels_last(&y, conv.n, conv.output_pixels())?;
        compare(&format!("{what}, {gemm}"), &y, &wanted)?;
    }
    Ok(())
}
