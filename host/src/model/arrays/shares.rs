//! Batches shared by several models, through their pipelines.

use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Arc;

use ndarray::{ArrayBase, ArrayD, ArrayViewD, Axis, DataMut, Dimension, IxDyn, Slice};
use op_spec::Layout;

use super::chunks::{Chunks, Cut};
use super::copies::{self, Source};
use super::pipeline::{Pipeline, Stage};
use crate::device::{PinnedArray, Tensor, host_memory, must_have_shape};
use crate::dtype::{DType, Element, bf16, f16};
use crate::error::{Error, Result};
use crate::graph::GraphError;
use crate::model::inputs::must_have_shapes;
use crate::model::{Model, Options};
use crate::sync::{self, Mutex, lock};

const OPERATOR: &str = "model";

/// A part of a batch, and the model that computes it.
pub(crate) struct Share<'a> {
    model: &'a Model,
    samples: Range<usize>,
    input: Vec<usize>,
}

impl<'a> Share<'a> {
    /// Returns the share of `samples` of a batch of this shape.
    pub(crate) fn part(model: &'a Model, batch: &[usize], samples: Range<usize>) -> Share<'a> {
        let mut input = batch.to_vec();
        if let Some(extent) = input.first_mut() {
            *extent = samples.len();
        }
        Share {
            model,
            samples,
            input,
        }
    }

    pub(crate) fn model(&self) -> &'a Model {
        self.model
    }

    /// Returns the shape of the share's first input.
    pub(crate) fn input(&self) -> &[usize] {
        &self.input
    }

    /// Returns the single share of a batch that is not shared.
    pub(crate) fn whole(model: &'a Model, batch: &[usize]) -> [Share<'a>; 1] {
        let samples = batch.first().map_or(0, |&extent| extent);
        [Share::part(model, batch, 0..samples)]
    }

    /// Returns the chunks of the share; `None` if it is not cut.
    pub(super) fn chunks(&self, options: &Options, cut: &Cut) -> Result<Option<Chunks>> {
        if self.model.graph().lacks_batch(&self.input) {
            let operator = self.model.graph().layers()[0].operator();
            let (layer, rank) = (0, self.input.len());
            return Err(GraphError::NoBatch {
                layer,
                operator,
                rank,
            }
            .into());
        }
        let problem = self.model.graph().problem(&self.input)?;
        if !self.model.device().is_gpu() && !cut.on_any_device
            || !options.batch_invariant
            || self.model.graph().couples_samples()
            || self.model.graph().outputs().len() > 1
        {
            return Ok(None);
        }
        let device = self.model.device();
        let bytes = |shape: &[usize]| device.bytes_of(&shape[1..], self.model.dtype());
        let mut sample_bytes = bytes(&self.input)? + bytes(problem.output_shape())?;
        for input in &problem.inputs {
            sample_bytes += bytes(&input.shape)?;
        }
        Ok(cut.chunks(self.samples.len(), sample_bytes))
    }

    /// Returns a pipeline for the share: a kept one or a new one.
    fn pipeline<T: Element>(&self, options: &Options, chunks: Chunks) -> Result<Box<Pipeline<T>>> {
        // A forked process lacks the worker threads, so this error must come before they are needed.
        self.model.stream().must_serve()?;
        let is_it = |pipeline: &Pipeline<T>| pipeline.is_for(&self.input, options, chunks);
        match self.model.pipelines().take(is_it) {
            Some(pipeline) => Ok(pipeline),
            None => Pipeline::new(self.model, &self.input, options, chunks).map(Box::new),
        }
    }
}

/// A share with its pipeline.
struct Lane<'a, T: Element> {
    share: &'a Share<'a>,
    pipeline: Box<Pipeline<T>>,
}

impl<T: Element> Lane<'_, T> {
    fn keep(self) {
        self.share.model.pipelines().give(self.pipeline);
    }
}

/// Returns the output shape of all shares together. `inputs` are the shapes of the batch's inputs, the first
/// input's first. Refuses further inputs whose shapes contradict the first one's.
fn output_shape<'a>(
    shares: &[Share<'_>],
    mut inputs: impl Iterator<Item = &'a [usize]>,
) -> Result<Vec<usize>> {
    let model = shares.first().expect("a batch has a share").model;
    let problem = model.graph().problem(inputs.next().unwrap_or(&[]))?;
    must_have_shapes(OPERATOR, &problem, inputs)?;
    Ok(problem.output_shape().to_vec())
}

/// The shapes of arrays.
fn shapes<'a>(arrays: &'a [ArrayViewD<'_, f32>]) -> impl Iterator<Item = &'a [usize]> {
    arrays.iter().map(|array| array.shape())
}

/// Computes the output of a batch as a new array.
pub(crate) fn fresh(
    shares: &[Share<'_>],
    inputs: &[ArrayViewD<'_, f32>],
    options: &Options,
    cut: &Cut,
) -> Result<ArrayD<f32>> {
    let shape = output_shape(shares, shapes(inputs))?;
    // Broadcast inputs (stride 0) can have an output that is too large for any memory.
    let device = shares[0].model.device();
    let len = device.bytes_of(&shape, DType::F32)? / DType::F32.size();
    let mut values = host_memory::<f32>(len)?;
    run(
        shares,
        inputs,
        &mut values.spare_capacity_mut()[..len],
        options,
        cut,
    )?;
    // SAFETY: the capacity is sufficient, and `run` has written all elements.
    unsafe { values.set_len(len) };
    Ok(ArrayD::from_shape_vec(IxDyn(&shape), values).expect("as many elements"))
}

/// Computes the output of a batch into an existing array.
pub(crate) fn into<O: DataMut<Elem = f32>, E: Dimension>(
    shares: &[Share<'_>],
    inputs: &[ArrayViewD<'_, f32>],
    y: &mut ArrayBase<O, E>,
    options: &Options,
    cut: &Cut,
) -> Result<()> {
    let shape = output_shape(shares, shapes(inputs))?;
    must_have_shape(&shape, y.shape(), (OPERATOR, "output"))?;
    match y.as_slice_mut() {
        Some(values) => {
            // SAFETY: the two element types have the same layout, and `run` writes only initialised values.
            let values = unsafe { &mut *(std::ptr::from_mut(values) as *mut [MaybeUninit<f32>]) };
            run(shares, inputs, values, options, cut)
        }
        None => {
            y.view_mut()
                .into_dyn()
                .assign(&fresh(shares, inputs, options, cut)?);
            Ok(())
        }
    }
}

/// Computes the output and writes all elements of `y`.
fn run(
    shares: &[Share<'_>],
    inputs: &[ArrayViewD<'_, f32>],
    y: &mut [MaybeUninit<f32>],
    options: &Options,
    cut: &Cut,
) -> Result<()> {
    match shares.first().map(|share| share.model.dtype()) {
        None => Ok(()),
        Some(DType::F32) => run_as::<f32>(shares, inputs, y, options, cut),
        Some(DType::F16) => run_as::<f16>(shares, inputs, y, options, cut),
        Some(DType::BF16) => run_as::<bf16>(shares, inputs, y, options, cut),
    }
}

fn run_as<T: Element>(
    shares: &[Share<'_>],
    inputs: &[ArrayViewD<'_, f32>],
    y: &mut [MaybeUninit<f32>],
    options: &Options,
    cut: &Cut,
) -> Result<()> {
    // The results are row-major arrays.
    let options = &options.clone().output_layout(Layout::Nchw);
    let mut lanes = Vec::new();
    let mut whole = Vec::new();
    for share in shares {
        match share.chunks(options, cut)? {
            Some(chunks) => {
                let mut pipeline = share.pipeline::<T>(options, chunks)?;
                pipeline.add_staging()?;
                lanes.push(Lane { share, pipeline });
            }
            None => {
                let model = share.model;
                let upload = |array: &ArrayViewD<'_, f32>| {
                    let samples = array.view();
                    let samples = match array.ndim() {
                        0 => samples,
                        _ => samples.slice_axis_move(Axis(0), Slice::from(share.samples.clone())),
                    };
                    Tensor::from_f32_array(model.stream(), &samples, model.dtype())
                };
                let tensors = inputs.iter().map(upload).collect::<Result<Vec<_>>>()?;
                let tensors: Vec<&Tensor> = tensors.iter().collect();
                whole.push((share, model.forward_arranged(&tensors, options)?));
            }
        }
    }
    let len = y.len()
        / inputs[0]
            .shape()
            .first()
            .map_or(1, |&samples| samples.max(1));
    if !lanes.is_empty() {
        let sources: Vec<Source<'_>> = inputs.iter().map(Source::of).collect();
        through(&mut lanes, &sources, y, len)?;
        lanes.into_iter().for_each(Lane::keep);
    }
    for (share, tensor) in whole {
        let values = tensor.to_f32_array()?;
        let values = values.as_slice().expect("a tensor's array is dense");
        y[share.samples.start * len..][..values.len()].write_copy_of_slice(values);
    }
    Ok(())
}

/// A chunk: its samples relative to its share, and its elements of the output.
type Job<'y> = (Range<usize>, &'y mut [MaybeUninit<f32>]);

/// Sends every chunk of every lane through its pipeline. Each stage belongs to one thread. The thread copies
/// a chunk in, waits for it, copies it out, and takes the next one. The output has `len` elements per sample.
fn through<T: Element>(
    lanes: &mut [Lane<'_, T>],
    sources: &[Source<'_>],
    y: &mut [MaybeUninit<f32>],
    len: usize,
) -> Result<()> {
    let failed = Mutex::new(None);
    let (mut left, mut done) = (y, 0);
    let mut work = Vec::new();
    for lane in lanes {
        let first = lane.share.samples.start;
        let mut jobs: Vec<Job<'_>> = Vec::new();
        for samples in lane.pipeline.chunks() {
            let (_, rest) = left.split_at_mut((first + samples.start) * len - done);
            let (own, rest) = rest.split_at_mut(samples.len() * len);
            (left, done) = (rest, (first + samples.end) * len);
            jobs.push((samples, own));
        }
        work.push((lane, jobs));
    }
    let devices = work.len();
    let chunks = work.iter().map(|(_, jobs)| jobs.len()).sum::<usize>();
    tracing::debug!(target: "convfuse::copy", devices, chunks, "an array goes in chunks");
    let pass = |stage: &mut Stage<T>, share: &Share<'_>, (samples, y): Job<'_>| {
        let first = share.samples.start;
        let samples = first + samples.start..first + samples.end;
        stage.pass_staged(
            share.model,
            |input, to| sources[input].stage(samples.clone(), to),
            |values| copies::unstage(values, y),
        )
    };
    let mut workers = Vec::new();
    for (lane, mut jobs) in work {
        let share = lane.share;
        let (stages, rest) = lane.pipeline.stages();
        let queue = |jobs: Vec<_>| Arc::new(Mutex::new(jobs.into_iter()));
        // The extra stage is for the last chunk, which is shorter.
        workers.extend(rest.map(|stage| (stage, share, queue(jobs.pop().into_iter().collect()))));
        let jobs = queue(jobs);
        workers.extend(
            stages
                .iter_mut()
                .map(|stage| (stage, share, Arc::clone(&jobs))),
        );
    }
    let (pass, failed_here) = (&pass, &failed);
    sync::all(workers.into_iter().map(|(stage, share, jobs)| {
        move || {
            let next = || lock(&jobs).next();
            while let Some(job) = next().filter(|_| lock(failed_here).is_none()) {
                note(failed_here, pass(stage, share, job));
            }
        }
    }));
    lock(&failed).take().map_or(Ok(()), Err)
}

/// Keeps the first error.
fn note(failed: &Mutex<Option<Error>>, outcome: Result<()>) {
    if let Err(error) = outcome {
        lock(failed).get_or_insert(error);
    }
}

/// Queues all work that computes `y` from pinned inputs.
pub(crate) fn pinned<T: Element>(
    shares: &[Share<'_>],
    inputs: &[&PinnedArray<T>],
    y: &mut PinnedArray<T>,
    options: &Options,
    cut: &Cut,
) -> Result<()> {
    let shape = output_shape(shares, inputs.iter().map(|input| input.shape()))?;
    must_have_shape(&shape, y.shape(), (OPERATOR, "output"))?;
    // The results are row-major arrays.
    let options = &options.clone().output_layout(Layout::Nchw);
    let mut lanes = Vec::new();
    for share in shares {
        if share.model.dtype() != T::DTYPE {
            return Err(Error::DTypeMismatch {
                operator: OPERATOR,
                argument: "pinned array",
                actual: T::DTYPE,
                expected: share.model.dtype(),
            });
        }
        match share.chunks(options, cut)? {
            Some(chunks) => lanes.push(Lane {
                share,
                pipeline: share.pipeline(options, chunks)?,
            }),
            None => {
                let model = share.model;
                let sample = |shape: &[usize]| shape[1..].iter().product::<usize>();
                let first = share.samples.start;
                let upload = |input: &&PinnedArray<T>| {
                    let mut shape = input.shape().to_vec();
                    shape[0] = share.samples.len();
                    let mut samples = Tensor::uninit(model.stream(), &shape, T::DTYPE)?;
                    samples.copy_part_from_pinned(input, first * sample(input.shape()))?;
                    Ok(samples)
                };
                let tensors = inputs.iter().map(upload).collect::<Result<Vec<_>>>()?;
                let tensors: Vec<&Tensor> = tensors.iter().collect();
                let output = model.forward_arranged(&tensors, options)?;
                let first = first * sample(y.shape());
                output.copy_to_part_of_pinned(y, first)?;
            }
        }
    }
    let most = lanes
        .iter()
        .map(|lane| lane.pipeline.len())
        .max()
        .unwrap_or(0);
    for index in 0..most {
        for lane in &mut lanes {
            let first = lane.share.samples.start;
            if index < lane.pipeline.len() {
                let (samples, stage) = lane.pipeline.chunk(index);
                stage.pass(lane.share.model, first + samples.start, inputs, y)?;
            }
        }
    }
    lanes.into_iter().for_each(Lane::keep);
    Ok(())
}
