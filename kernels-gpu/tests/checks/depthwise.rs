//! The depthwise convolution with moments and windows.

use cuda_std::{Label, Storage};
use launch_config::batch_norm::FoldGeometry;
use launch_config::conv::ConvGeometry;
use launch_config::depthwise::DepthwiseGeometry;
use launch_config::depthwise::nhwc::{NhwcGeometry, NhwcKernel};
use launch_config::depthwise::rolling::RollingGeometry;
use launch_config::implicit_gemm::{Epilogue, RoundedEpilogue};
use launch_config::norm::COUNTED_ELEMENTS;
use launch_config::pointwise::{OperandList, Step};
use launch_config::{AffineType, KernelGeometry, Presence};
use op_spec::graph::LayerProblem;
use oracle::{Case, Precision};

use super::super::kernels::fused::depthwise::nhwc::DEPTHWISE_NHWC;
use super::super::kernels::fused::depthwise::rolling::DEPTHWISE_NHWC_ROLLING;
use super::super::kernels::fused::depthwise::{DEPTHWISE, DEPTHWISE_LIST};
use super::convolved::Convolution;
use super::implicit_gemm_without_norm::folded;
use super::rows::{ADD, HARDSWISH, RELU, Row, SILU, rows};
use super::{
    Failure, Loaded, Outcome, Run, Tensor, combine, compare, label, optional, precision,
    same_numbers,
};

fn table() -> [Row; 10] {
    rows! {
        // Rows and columns that no whole window has; several blocks of a plane.
        [2, 3, 3], [1, 45, 133], [1, 3, 3], padding([0, 1, 1]), groups(3), pool(2, 2);
        // No padding, and so no edge; a window of four.
        [1, 1, 1], [1, 70, 50], [1, 3, 3], pool(4, 4);
        // Strides, dilation, a filter of five columns, windows of three, columns of half a warp.
        [2, 2, 2], [1, 39, 45], [1, 3, 5], stride([1, 2, 3]), padding([0, 2, 3]), dilation([1, 1, 2]), groups(2), pool(3, 5);
        // A window as large as an item.
        [1, 2, 2], [1, 25, 70], [1, 1, 1], groups(2), pool(8, 32);
        // Volumes: depth, padding, strides, nothing pooled.
        [1, 2, 2], [9, 10, 11], [3, 3, 3], stride([2, 1, 1]), padding([1; 3]), groups(2);
        // Larger ones, with items that are not at an edge.
        [1, 2, 2], [5, 29, 70], [3, 3, 3], padding([1; 3]), groups(2);
        // A filter of many taps; an output of one column.
        [1, 1, 1], [1, 30, 9], [1, 17, 9];
        // No bias.
        [1, 3, 3], [1, 21, 40], [1, 3, 3], padding([0, 1, 1]), groups(3), pool(2, 2), without_bias();
        // Items of which just one row or one column is at the edge.
        [1, 2, 2], [1, 24, 64], [1, 3, 3], padding([0, 1, 1]), groups(2);
        // One item that ends at the plane's end: lanes past its last column have nothing to load.
        [1, 1, 1], [1, 10, 22], [1, 3, 3];
    }
}

/// Checks all rows.
pub(crate) fn matches<T: Storage>(run: &Run) -> Outcome {
    for (number, row) in table().into_iter().enumerate() {
        check::<T>(run, &format!("row {number}"), &Convolution::new::<T>(row))?;
    }
    Ok(())
}

/// Checks convolutions without a norm: batch norm, functions and a residual before the result is written.
/// Channels-last tensors give the same bits.
pub(crate) fn without_norm<T: Storage>(run: &Run) -> Outcome {
    let table: [Row; 12] = rows! {
        [2, 3, 3], [1, 21, 45], [1, 3, 3], padding([0, 1, 1]), groups(3), batch_norm(), relu();
        [1, 2, 2], [1, 19, 33], [1, 3, 5], stride([1, 2, 1]), groups(2), batch_norm(), list(&[SILU, ADD]);
        [2, 2, 2], [5, 9, 7], [3, 3, 3], padding([1; 3]), groups(2), leaky_relu(0.25), list(&[ADD, HARDSWISH]);
        [1, 3, 3], [1, 9, 35], [1, 3, 3], groups(3), list(&[ADD]);
        // Whole vectors of channels: windows that slide by one column, in two blocks of a sample.
        [2, 64, 64], [1, 7, 19], [1, 3, 3], padding([0, 1, 1]), groups(64), batch_norm(), relu();
        // Windows that slide by two columns.
        [2, 12, 12], [1, 9, 21], [1, 5, 5], stride([1, 2, 2]), padding([0, 2, 2]), groups(12), batch_norm(), list(&[SILU, ADD]);
        // Volumes.
        [1, 4, 4], [5, 6, 11], [3, 3, 3], stride([2, 1, 1]), padding([1; 3]), groups(4), leaky_relu(0.25), list(&[ADD, HARDSWISH]);
        // Inputs that are loaded for each tap.
        [1, 8, 8], [1, 8, 25], [1, 3, 3], dilation([1, 2, 3]), padding([0, 2, 3]), groups(8), list(&[ADD]);
        [1, 4, 4], [1, 5, 40], [1, 3, 3], stride([1, 1, 3]), padding([0, 1, 1]), groups(4), without_bias();
        // Filters longer than a window, and as long.
        [1, 20, 20], [1, 4, 30], [1, 2, 11], padding([0, 0, 5]), groups(20), list(&[SILU]);
        [1, 4, 4], [1, 3, 21], [1, 1, 8], stride([1, 1, 2]), groups(4);
        // Two blocks of channels, of which the second is partial; windows in the padding alone.
        [1, 72, 72], [1, 4, 5], [1, 7, 7], padding([0, 9, 9]), groups(72);
    };
    for (number, row) in table.into_iter().enumerate() {
        check_without_norm::<T>(run, &format!("row {number}"), &row)?;
    }
    Ok(())
}

/// [`without_norm`] for small square filters of channels-last images, with segments of any number of rows.
pub(crate) fn rolling<T: Storage>(run: &Run) -> Outcome {
    const PADDED: [usize; 3] = [0, 1, 1];
    let table: [Row; 15] = rows! {
        // Partial runs and rows, two samples in a block, all inputs of a thread in the image.
        [2, 64, 64], [1, 7, 19], [1, 3, 3], padding(PADDED), groups(64), batch_norm(), relu();
        // Rows fewer than the filter's, a pair of channels in a second block, no bias.
        [1, 66, 66], [1, 2, 5], [1, 5, 5], padding([0, 2, 2]), groups(66), batch_norm(), without_bias();
        [3, 130, 130], [1, 3, 4], [1, 3, 3], padding(PADDED), groups(130), leaky_relu(0.25);
        // Strides of two, with an even and an odd number of input rows and columns.
        [2, 12, 12], [1, 9, 21], [1, 5, 5], stride([1, 2, 2]), padding([0, 2, 2]), groups(12), batch_norm(), list(&[SILU, ADD]);
        [1, 6, 6], [1, 12, 14], [1, 3, 3], stride([1, 2, 2]), padding(PADDED), groups(6), list(&[HARDSWISH]);
        [1, 2, 2], [1, 11, 12], [1, 3, 3], stride([1, 2, 2]), groups(2), batch_norm(), list(&[ADD]);
        // No padding, and much more padding than windows need.
        [1, 4, 4], [1, 11, 9], [1, 3, 3], groups(4), list(&[SILU]);
        [1, 4, 4], [1, 4, 6], [1, 3, 3], padding([0, 9, 9]), groups(4), list(&[HARDSWISH, ADD]);
        [1, 8, 8], [1, 5, 3], [1, 5, 5], stride([1, 2, 2]), padding([0, 9, 2]), groups(8), relu();
        // A function after the residual; one column, one row.
        [1, 10, 10], [1, 9, 1], [1, 5, 5], padding([0, 2, 2]), groups(10), batch_norm(), list(&[SILU, ADD, RELU]);
        [5, 2, 2], [1, 1, 13], [1, 3, 3], padding(PADDED), groups(2), without_bias(), list(&[ADD]);
        // More taps than stay in registers.
        [2, 6, 6], [1, 9, 11], [1, 7, 7], padding([0, 3, 3]), groups(6), batch_norm(), relu();
        [1, 36, 36], [1, 3, 4], [1, 7, 7], padding([0, 3, 3]), groups(36), list(&[SILU, ADD]);
        [1, 2, 2], [1, 8, 7], [1, 7, 7], groups(2), without_bias();
        // A list that the kernel does not support.
        [1, 4, 4], [1, 5, 5], [1, 3, 3], padding(PADDED), groups(4), list(&[SILU, RELU]);
    };
    for (number, row) in table.into_iter().enumerate() {
        check_without_norm::<T>(run, &format!("row {number}"), &row)?;
    }
    Ok(())
}

/// Checks one row without a norm.
pub(super) fn check_without_norm<T: Storage>(run: &Run, what: &str, row: &Row) -> Outcome {
    let mut case = row.case::<T>();
    let ended = Ended::new(run, row, &case)?;
    let x = run.load::<T>(&case)?;
    let y = ended.list(run, &x)?;
    let wanted = case.expected(&precision::<T>());
    compare(what, &y, &wanted.expect("layers that take this input"))?;
    let kernels = ended.kernels();
    let of_channels = row.channels[1] % 4;
    assert!(of_channels != 0 || !kernels.is_empty(), "{what}: refused");
    for (index, kernel) in kernels.iter().enumerate() {
        ended.nhwc(run, what, (kernel, index % 3), &x, &y)?;
    }

    // Padding is multiplied.
    case = case.special();
    let weights = case.parameters[0].iter_mut();
    weights
        .step_by(13)
        .for_each(|weight| *weight = f32::INFINITY);
    let x = run.load::<T>(&case)?;
    let y = ended.list(run, &x)?;
    for (index, kernel) in kernels.iter().enumerate() {
        let what = format!("{what} of special values");
        ended.nhwc(run, &what, (kernel, (index + 1) % 3), &x, &y)?;
    }
    Ok(())
}

/// A convolution without a norm, with its whole epilogue.
struct Ended {
    geometry: ConvGeometry,
    gain: Tensor<f32>,
    shift: Tensor<f32>,
    /// The batch norm, if there is one, and its parameters in f32.
    fold: Option<FoldGeometry>,
    norm: Vec<Tensor<f32>>,
    epilogue: Epilogue,
    list: OperandList,
    /// The index of the residual among the loaded tensors.
    residual: usize,
}

impl Ended {
    fn new(run: &Run, row: &Row, case: &Case) -> Result<Self, Failure> {
        let steps = &case.problem().expect("a sound problem").steps;
        let LayerProblem::Conv3d(conv) = steps[0].problem else {
            unreachable!("a convolution of volumes")
        };
        let fold = match steps.get(1).map(|step| step.problem) {
            Some(LayerProblem::BatchNorm(norm)) => Some(FoldGeometry::of(&norm)),
            _ => None,
        };
        let [gain, shift] = match row.batch_norm {
            true => folded(case),
            false => [vec![], vec![]],
        };
        let first = case.parameters.len() - 4 * usize::from(row.batch_norm);
        let norm = case.parameters[first..].iter().map(|values| {
            let values: Vec<f32> = values.iter().copied().collect();
            run.tensor(&values)
        });
        let function = row.function.map(|function| Step::of(&function));
        Ok(Self {
            geometry: conv.geometry().expect("a small problem"),
            gain: run.tensor(&gain)?,
            shift: run.tensor(&shift)?,
            fold: fold.transpose().expect("few channels"),
            norm: norm.collect::<Result<_, _>>()?,
            epilogue: Epilogue {
                gain_and_shift: Presence::of(row.batch_norm),
                ..function.map_or(Epilogue::NONE, |step| {
                    Epilogue::of(step).expect("a slope or a bound")
                })
            },
            list: row.residual_list(),
            residual: case.parameters.len(),
        })
    }

    /// The channels-last kernels that support the list, in several geometries.
    fn kernels(&self) -> Vec<NhwcKernel> {
        let mut kernels = Vec::new();
        if let Ok(mut g) = NhwcGeometry::new(&self.geometry) {
            kernels.push(NhwcKernel::Runs(g));
            // Blocks take several rounds.
            g.blocks.block_runs *= 2;
            g.blocks.sample_blocks = g.blocks.sample_runs.div_ceil(g.blocks.block_runs);
            kernels.push(NhwcKernel::Runs(g));
        }
        if let Ok(g) = RollingGeometry::new(&self.geometry, 1) {
            let mut rows = vec![g.segment_rows, 1, 2, self.geometry.p];
            rows.sort_unstable();
            rows.dedup();
            let rows = rows.into_iter();
            kernels.extend(rows.map(|rows| NhwcKernel::Rolling(g.in_segments_of(rows))));
        }
        kernels.retain(|kernel| kernel.takes(&self.list));
        kernels
    }

    /// The outputs of the kernel for NCHW tensors.
    fn list<T: Storage>(&self, run: &Run, loaded: &Loaded<T>) -> Result<Tensor<T>, Failure> {
        let g = DepthwiseGeometry::new(&self.geometry, None).expect("a geometry");
        let y = run.empty::<T>(self.outputs())?;
        let arguments = (
            loaded.x.source(),
            loaded.parameters[0].source(),
            self.bias(loaded),
            self.gain.source(),
            self.shift.source(),
            optional(loaded.parameters.get(self.residual)),
            y.ptr(),
            g,
            self.epilogue,
            self.list,
        );
        run.launch(&DEPTHWISE_LIST, &[label::<T>()], g.shape(), arguments)?;
        Ok(y)
    }

    /// Checks that a channels-last kernel gives the bits of `wanted`. `form` selects the form of the batch
    /// norm: parameters in f32, parameters of the tensors' type, or folded.
    fn nhwc<T: Storage>(
        &self,
        run: &Run,
        what: &str,
        (kernel, form): (&NhwcKernel, usize),
        loaded: &Loaded<T>,
        wanted: &Tensor<T>,
    ) -> Outcome {
        let channels = self.geometry.output_channels();
        let last = |tensor: &Tensor<T>| run.channels_last(tensor, self.geometry.n, channels);
        let x = last(&loaded.x)?;
        let residual = loaded.parameters.get(self.residual).map(last).transpose()?;
        let y = run.empty::<T>(self.outputs())?;
        let fold = self.fold.filter(|_| form < 2);
        let first = self.residual - self.norm.len();
        let of_norm = |index: usize| match (fold, form) {
            (None, _) => std::ptr::null(),
            (_, 0) => self.norm[index].source(),
            _ => loaded.parameters[first + index].source(),
        };
        let is_folded = fold.is_none();
        let of_channels = |tensor: &Tensor<f32>| match is_folded {
            true => tensor.source(),
            false => std::ptr::null(),
        };
        let epilogue = Epilogue {
            gain_and_shift: Presence::of(self.fold.is_some() && is_folded),
            ..self.epilogue
        };
        macro_rules! arguments {
            ($g:expr, $list:expr) => {
                (
                    x.source(),
                    loaded.parameters[0].source(),
                    self.bias(loaded),
                    of_channels(&self.gain),
                    of_channels(&self.shift),
                    of_norm(0),
                    of_norm(1),
                    of_norm(2),
                    of_norm(3),
                    optional(residual.as_ref()),
                    y.ptr(),
                    $g,
                    fold.unwrap_or(FoldGeometry::NONE),
                    AffineType::of(form == 0),
                    Presence::of(!is_folded),
                    epilogue,
                    $list,
                )
            };
        }
        match *kernel {
            NhwcKernel::Runs(g) => {
                let arguments = arguments!(g, self.list);
                run.launch(&DEPTHWISE_NHWC, &[label::<T>()], g.shape(), arguments)?;
            }
            NhwcKernel::Rolling(g) => {
                let [r, stride] = [g.conv.r, g.conv.stride_h].map(Label::Number);
                let rounded = RoundedEpilogue::of(&self.list).expect("a list that it has");
                let arguments = arguments!(g, rounded);
                let labels = [r, stride, label::<T>()];
                run.launch(&DEPTHWISE_NHWC_ROLLING, &labels, g.shape(), arguments)?;
            }
        }
        let what = format!("{what}, channels last, form {form}, {kernel}");
        same_numbers(&what, &y, &last(wanted)?)
    }

    fn bias<T: Storage, P>(&self, loaded: &Loaded<T>) -> *const P {
        let is_present = self.geometry.bias.is_present();
        optional(is_present.then(|| &loaded.parameters[1]))
    }

    fn outputs(&self) -> usize {
        let planes = self.geometry.n as usize * self.geometry.output_channels() as usize;
        planes * self.geometry.output_pixels() as usize
    }
}

/// Checks one convolution, from the input to combined moments.
pub(super) fn check<T: Storage>(run: &Run, what: &str, conv: &Convolution) -> Outcome {
    let pool = conv.row.pool;
    let g = DepthwiseGeometry::new(&conv.geometry, pool).expect("a geometry");
    let values = conv.values(2.0 * Precision::F32.products);
    let moments = conv.moments::<T>(&values, 1);
    let wanted = conv.results::<T>(values, pool);

    let Loaded { x, parameters } = run.load::<T>(&conv.case)?;
    let factors = conv.factors::<T>(run)?;
    let y = run.empty::<T>(wanted.shape().iter().product())?;
    let partial = run.empty::<f32>(g.moment_elements() as usize)?;
    let planes = conv.geometry.n as usize * conv.geometry.output_channels() as usize;
    let combined = run.empty::<f32>(planes * COUNTED_ELEMENTS)?;
    let arguments = (
        x.source(),
        parameters[0].source(),
        optional(parameters.get(1)),
        optional(factors.norm_weight.as_ref()),
        factors.scale.source(),
        y.ptr(),
        partial.ptr(),
        g,
    );
    run.launch(&DEPTHWISE, &[label::<T>()], g.shape(), arguments)?;
    combine::whole(run, &partial, g.plane_blocks, &combined)?;

    compare(&format!("{what}, moments"), &combined, &moments)?;
    compare(what, &y, &wanted)
}
