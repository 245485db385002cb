//! Stages: runs of layers with a normal form, computed sample by sample.
//!
//! A sample is convolved as a whole. Then each group of channels is normalised, and each of its channels is
//! mapped and pooled, while the group is in the cache. Factors around a norm are folded into it at no cost.
//! Tensors between two stages of a path never exist as a whole.

use ndarray::{ArrayD, ArrayViewD, IxDyn};
use op_spec::graph::{GraphProblem, NormalForm, Pointwise, Reduction};
use op_spec::{ConvProblem, ConvTransposeProblem, PoolProblem};
use rayon::prelude::*;

use super::by_itself::Alone;
use super::conv::{convolve_sample, fill_pad};
use super::conv_transpose::convolve_transposed;
use super::dense;
use super::maps::{Map, Norm};
use super::moments::{Moments, normalize_rows};
use super::pool::pool_plane;
use super::reduction::reduce_sample;
use super::softmax::softmax_sample;
use super::upsample::upsample_sample;
use crate::dtype::DType;
use crate::error::Result;
use crate::host_memory::{affordable, reserve, resize, zeroed};

/// Runs every sample of `x` through the stages; the result has the shape `output`.
pub(super) fn run_stages(
    stages: &[Stage<'_>],
    x: ArrayViewD<'_, f32>,
    output: &[usize],
) -> Result<ArrayD<f32>> {
    let mut y: Vec<f32> = zeroed(output.iter().product())?;
    if !y.is_empty() {
        let n = output[0];
        let x = dense(x)?;
        let buffers = bytes_at_a_time(stages, n);
        affordable(buffers.saturating_add(size_of_val(&y[..]) as u64))?;
        // Reserve the whole size once and release it, because the matrix products do not check for memory.
        reserve::<u8>(usize::try_from(buffers).unwrap_or(usize::MAX))?;
        // An input that is padded may have empty samples.
        let (output_len, input_len) = (y.len() / n, x.len() / n);
        y.par_chunks_mut(output_len).enumerate().try_for_each_init(
            Buffers::default,
            |buffers, (number, y)| {
                let x = &x[number * input_len..][..input_len];
                run_sample(stages, number, x, y, buffers)
            },
        )?;
    }
    Ok(ArrayD::from_shape_vec(IxDyn(output), y).expect("as many elements"))
}

/// Returns the approximate bytes of all threads' buffers. Checking their sum finds a lack of memory before
/// the first one is filled.
fn bytes_at_a_time(stages: &[Stage<'_>], n: usize) -> u64 {
    let stages = stages.iter();
    let of_thread = stages.map(|stage| {
        let mapped = stage.reduction.map_or(0, |_| stage.mapped_len);
        let padded = stage
            .convolution
            .as_ref()
            .map_or(0, Convolution::padded_len);
        mapped.max(stage.output_len).saturating_add(padded) as u64
    });
    let threads = rayon::current_num_threads() as u64;
    let samples = threads.min(n as u64);
    let elements = samples.saturating_mul(of_thread.max().unwrap_or(0));
    let bytes = elements.saturating_mul(size_of::<f32>() as u64);
    bytes.saturating_add(threads * PRODUCT_BYTES)
}

/// An upper bound of the bytes of a matrix product's packed operands and one chunk of columns.
const PRODUCT_BYTES: u64 = 2 << 20;

/// Runs sample `number` through all stages.
fn run_sample(
    stages: &[Stage<'_>],
    number: usize,
    x: &[f32],
    y: &mut [f32],
    buffers: &mut Buffers,
) -> Result<()> {
    let (last, first) = stages.split_last().expect("a chain has a layer");
    let Buffers {
        mapped,
        sample,
        next,
    } = buffers;
    for (index, stage) in first.iter().enumerate() {
        resize(next, stage.output_len)?;
        let x = if index == 0 { x } else { &sample[..] };
        stage.run(number, x, next, mapped)?;
        std::mem::swap(sample, next);
    }
    let x = if first.is_empty() { x } else { sample };
    last.run(number, x, y, mapped)
}

/// A thread's buffers, reused from sample to sample.
#[derive(Default)]
struct Buffers {
    /// The values of a stage before its reduction.
    mapped: Vec<f32>,
    /// A sample between two stages.
    sample: Vec<f32>,
    next: Vec<f32>,
}

/// A run of layers with its parameters.
pub(super) struct Stage<'a> {
    by_itself: Option<Alone<'a>>,
    convolution: Option<Convolution<'a>>,
    norm: Option<Norm<'a>>,
    pointwise: Vec<Map<'a>>,
    reduction: Option<Reduction>,
    /// Weight and bias of a layer norm that takes the place of the reduction.
    affine: [Option<&'a [f32]>; 2],
    behind: Vec<Map<'a>>,
    /// The number of elements of a convolved sample, and of one of its channels.
    mapped_len: usize,
    plane: usize,
    output_len: usize,
    /// The extent of the output's second axis (its channels, if any); 1 if there is no such axis.
    reduced_channels: usize,
    /// The type of the graph's tensors, whose range is that of the values that a norm reads.
    dtype: DType,
}

struct Convolution<'a> {
    kind: Kind,
    weight: &'a [f32],
    bias: Option<&'a [f32]>,
}

enum Kind {
    Ordinary(ConvProblem<3>),
    Transposed(ConvTransposeProblem<3>),
}

impl Convolution<'_> {
    /// The number of elements of a padded sample, if padding is separate.
    fn padded_len(&self) -> usize {
        match &self.kind {
            Kind::Ordinary(problem) => problem
                .pad
                .map_or(0, |pad| problem.c * pad.outer().iter().product::<usize>()),
            Kind::Transposed(_) => 0,
        }
    }

    /// The number of channels of a convolved sample, and of elements of one channel.
    fn output(&self) -> (usize, usize) {
        match &self.kind {
            Kind::Ordinary(problem) => (problem.k, problem.output_spatial()),
            Kind::Transposed(problem) => (problem.k, problem.output.iter().product()),
        }
    }
}

/// Layers with a normal form.
pub(super) type Run<'a> = (&'a [usize], NormalForm);

/// Makes the stages of runs. `parameter` is as in [`Stage::new`].
pub(super) fn stages<'a>(
    problem: &GraphProblem,
    runs: Vec<Run<'_>>,
    dtype: DType,
    parameter: impl Fn(usize, usize) -> Option<&'a [f32]>,
) -> Vec<Stage<'a>> {
    let stage = |(layers, form): Run<'_>| {
        let input = &problem.steps[layers[0]].input;
        let output = &problem.steps[layers[layers.len() - 1]].output;
        Stage::new(form, input, output, dtype, &parameter)
    };
    runs.into_iter().map(stage).collect()
}

/// Splits a path into the longest runs with a normal form.
pub(super) fn normal_forms<'a>(problem: &GraphProblem, path: &'a [usize]) -> Vec<Run<'a>> {
    let mut runs = Vec::new();
    let mut rest = path;
    let form = |layers: &[usize]| NormalForm::of(problem, layers.iter().copied());
    while !rest.is_empty() {
        let longer = (2..=rest.len()).map_while(|len| Some((len, form(&rest[..len]).ok()?)));
        let single = || (1, form(&rest[..1]).expect("a single layer has one"));
        let (len, form) = longer.last().unwrap_or_else(single);
        let (layers, after) = rest.split_at(len);
        runs.push((layers, form));
        rest = after;
    }
    runs
}

impl<'a> Stage<'a> {
    /// Makes the stage of `form`. `parameter` returns a layer's parameter by its index in PyTorch's order.
    pub(super) fn new(
        form: NormalForm,
        input: &[usize],
        output: &[usize],
        dtype: DType,
        parameter: impl Fn(usize, usize) -> Option<&'a [f32]>,
    ) -> Self {
        let factor = |layer| parameter(layer, 0).expect("a factor for each channel");
        let factors = |layers: &[(usize, op_spec::ScaleProblem)]| {
            let factors = layers.iter().map(|&(layer, _)| factor(layer));
            factors.collect::<Vec<_>>()
        };
        let maps = |pointwise: &[(usize, Pointwise)]| {
            let map = |(layer, pointwise): &(usize, Pointwise)| {
                Map::new(pointwise, |index| parameter(*layer, index))
            };
            pointwise.iter().map(map).collect::<Vec<_>>()
        };
        let epilogue = form.epilogue;
        let norm = epilogue.norm.map(|(layer, problem)| Norm {
            weight: parameter(layer, 0).filter(|_| problem.weight),
            bias: parameter(layer, 1).filter(|_| problem.bias),
            before: factors(&epilogue.before),
            behind: factors(&epilogue.affine),
            of_batch: None,
            problem,
        });
        let ordinary = form.convolution;
        let ordinary = ordinary.map(|(layer, problem)| (layer, Kind::Ordinary(problem)));
        let transposed = form.transposed;
        let transposed = transposed.map(|(layer, problem)| (layer, Kind::Transposed(problem)));
        let convolution = ordinary.or(transposed).map(|(layer, kind)| Convolution {
            weight: parameter(layer, 0).expect("a filter"),
            bias: parameter(layer, 1),
            kind,
        });
        let (channels, plane) = match &convolution {
            Some(convolution) => convolution.output(),
            // A reduced tensor may have no axes besides the batch.
            None => match &input[1..] {
                [] => (1, 1),
                [channels, spatial @ ..] => (*channels, spatial.iter().product()),
            },
        };
        let by_itself = form.by_itself;
        let by_itself = by_itself.map(|(layer, of)| Alone {
            of,
            others: (0..).map_while(|index| parameter(layer, index)).collect(),
        });
        Self {
            by_itself,
            convolution,
            norm,
            pointwise: maps(&epilogue.list),
            reduction: epilogue.reduce.map(|(_, reduction)| reduction),
            affine: match epilogue.reduce {
                Some((layer, Reduction::LayerNorm(problem))) => [
                    parameter(layer, 0).filter(|_| problem.weight),
                    parameter(layer, 1).filter(|_| problem.bias),
                ],
                _ => [None; 2],
            },
            behind: maps(&epilogue.after),
            mapped_len: channels * plane,
            reduced_channels: match output {
                [_, c, ..] => *c,
                _ => 1,
            },
            plane,
            dtype,
            output_len: output[1..].iter().product(),
        }
    }

    /// Sets the moments of each channel over the whole batch for the norm that the run begins with.
    pub(super) fn count(&mut self, of_batch: Vec<Moments>) {
        let norm = self.norm.as_mut().expect("the run begins with a norm");
        norm.of_batch = Some(of_batch);
    }

    /// Computes sample `number`.
    fn run(&self, number: usize, x: &[f32], y: &mut [f32], mapped: &mut Vec<f32>) -> Result<()> {
        if let Some(by_itself) = &self.by_itself {
            by_itself.run(number, x, y);
            return Ok(());
        }
        let Some(reduction) = self.reduction else {
            self.convolve(x, y)?;
            self.map_groups(number, y);
            return Ok(());
        };
        match reduction {
            Reduction::Pool(pool) => self.pool(number, x, y, mapped, &pool),
            Reduction::Upsample(problem) => {
                self.reduce(number, x, y, mapped, |x, y| upsample_sample(x, y, &problem))
            }
            Reduction::Axes(problem) => {
                self.reduce(number, x, y, mapped, |x, y| reduce_sample(x, y, &problem))
            }
            Reduction::Softmax(problem) => self.reduce(number, x, y, mapped, |x, y| {
                softmax_sample(x, y, &problem);
                Ok(())
            }),
            Reduction::LayerNorm(problem) => self.reduce(number, x, y, mapped, |x, y| {
                normalize_rows(x, y, &problem, self.affine, self.dtype)
            }),
        }
    }

    /// Computes sample `number` of a run with a pool: each group is pooled while it is in the cache.
    fn pool(
        &self,
        number: usize,
        x: &[f32],
        y: &mut [f32],
        mapped: &mut Vec<f32>,
        pool: &PoolProblem,
    ) -> Result<()> {
        let pooled = pool.output.iter().product();
        if self.is_alone() {
            let planes = y.par_chunks_mut(pooled).zip(x.par_chunks(self.plane));
            return planes.try_for_each_init(Vec::new, |tall, (y, x)| pool_plane(x, y, pool, tall));
        }
        resize(mapped, self.mapped_len)?;
        self.convolve(x, mapped)?;
        let group_len = self.group_len();
        let groups = mapped.par_chunks_mut(group_len);
        groups
            .zip(y.par_chunks_mut(group_len / self.plane * pooled))
            .enumerate()
            .try_for_each_init(Vec::new, |tall, (group, (x, y))| {
                let mut planes = y.chunks_exact_mut(pooled);
                let mut done = Ok(());
                self.map_group(number, group, x, |c, x| {
                    let y = planes.next().expect("a plane for each channel");
                    let first = number * self.output_len + c * pooled;
                    if done.is_ok() {
                        done = pool_plane(x, y, pool, tall);
                    }
                    Map::apply_all(&self.behind, first, c, y);
                });
                done
            })
    }

    /// Computes sample `number` of a run whose reduction of a sample is `reduce`.
    fn reduce(
        &self,
        number: usize,
        x: &[f32],
        y: &mut [f32],
        mapped: &mut Vec<f32>,
        reduce: impl Fn(&[f32], &mut [f32]) -> Result<()>,
    ) -> Result<()> {
        if self.is_alone() {
            return reduce(x, y);
        }
        resize(mapped, self.mapped_len)?;
        self.convolve(x, mapped)?;
        self.map_groups(number, mapped);
        reduce(mapped, y)?;
        // The output's second axis; without one, a single channel.
        let channel = y.len() / self.reduced_channels;
        for (c, y) in y.chunks_exact_mut(channel).enumerate() {
            let first = number * self.output_len + c * channel;
            Map::apply_all(&self.behind, first, c, y);
        }
        Ok(())
    }

    /// Whether the run consists of a reduction only.
    fn is_alone(&self) -> bool {
        let reads_input = self.convolution.is_none() && self.norm.is_none();
        reads_input && self.pointwise.is_empty() && self.behind.is_empty()
    }

    fn convolve(&self, x: &[f32], y: &mut [f32]) -> Result<()> {
        match &self.convolution {
            None => {
                y.copy_from_slice(x);
                Ok(())
            }
            Some(of) => match &of.kind {
                Kind::Transposed(problem) => convolve_transposed(x, of.weight, of.bias, problem, y),
                Kind::Ordinary(problem) => match &problem.pad {
                    None => convolve_sample(x, of.weight, of.bias, problem, y),
                    Some(pad) => {
                        let mut padded = zeroed(of.padded_len())?;
                        fill_pad(x, pad, &mut padded);
                        convolve_sample(&padded, of.weight, of.bias, problem, y)
                    }
                },
            },
        }
    }

    /// The number of elements that are normalised together.
    fn group_len(&self) -> usize {
        let norm = self.norm.as_ref();
        norm.map_or(self.plane, |norm| norm.problem.group_len())
    }

    /// Maps every group of sample `number`.
    fn map_groups(&self, number: usize, x: &mut [f32]) {
        let groups = x.par_chunks_mut(self.group_len()).enumerate();
        groups.for_each(|(group, x)| self.map_group(number, group, x, |_, _| {}));
    }

    /// Normalises a group of sample `number`, applies the pointwise functions to each channel, and passes
    /// each channel with its number to `finish`.
    fn map_group(
        &self,
        number: usize,
        group: usize,
        x: &mut [f32],
        mut finish: impl FnMut(usize, &[f32]),
    ) {
        let first = group * (x.len() / self.plane);
        let normalise = self
            .norm
            .as_ref()
            .map(|norm| norm.of_group(first, x, self.dtype));
        for (c, x) in (first..).zip(x.chunks_exact_mut(self.plane)) {
            if let Some((norm, moments)) = &normalise {
                norm.normalise(c, *moments, x);
            }
            let start = number * self.mapped_len + c * self.plane;
            Map::apply_all(&self.pointwise, start, c, x);
            finish(c, x);
        }
    }
}
