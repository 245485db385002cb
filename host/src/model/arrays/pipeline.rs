//! A pipeline of stages on one device, through which the chunks of a batch go.
//!
//! A *stage* has its own stream, input, output, workspace, and pinned staging memory. All work on a chunk is
//! in the order of its stage's stream: copy in, launches, copy out. While one chunk is copied in, another
//! runs and a third is copied out. Kernels of different chunks run side by side if the device has room. For
//! arrays that are not pinned, each thread has its own stage. Copies of the host then overlap with the
//! device's work, and no thread waits for another.

use op_spec::Layout;
use std::ops::Range;

use super::chunks::Chunks;
use crate::device::{PinnedArray, Tensor};
use crate::dtype::Element;
use crate::error::Result;
use crate::model::{Model, Options};
use crate::program::Ready;

const OPERATOR: &str = "model";

/// A pipeline stage for chunks of one number of samples.
pub(super) struct Stage<T: Element> {
    /// The program with its memory; `None` on the CPU device, whose backend runs no kernels.
    ready: Option<Ready>,
    /// The tensors of all inputs, in the graph's order.
    inputs: Vec<Tensor>,
    y: Tensor,
    staged: Option<Staged<T>>,
}

struct Staged<T: Element> {
    inputs: Vec<PinnedArray<T>>,
    y: PinnedArray<T>,
}

impl<T: Element> Stage<T> {
    fn new(model: &Model, input: &[usize], options: &Options) -> Result<Stage<T>> {
        let stream = model.stream().sibling()?;
        let ready = match model.device().is_cpu() {
            true => None,
            false => {
                let program = model.program(input, &model.dense(), options)?;
                Some(Ready::new(OPERATOR, program, &stream)?)
            }
        };
        let problem = model.graph().problem(input)?;
        let further = problem.inputs.iter().map(|input| &input.shape[..]);
        let inputs = std::iter::once(input).chain(further);
        let inputs = inputs.map(|shape| Tensor::uninit(&stream, shape, T::DTYPE));
        Ok(Stage {
            ready,
            inputs: inputs.collect::<Result<_>>()?,
            y: Tensor::uninit(&stream, problem.output_shape(), T::DTYPE)?,
            staged: None,
        })
    }

    fn add_staging(&mut self) -> Result<()> {
        if self.staged.is_none() {
            let like = |tensor: &Tensor| PinnedArray::zeros(tensor.device(), tensor.shape());
            self.staged = Some(Staged {
                inputs: self.inputs.iter().map(like).collect::<Result<_>>()?,
                y: like(&self.y)?,
            });
        }
        Ok(())
    }

    fn run(&mut self, model: &Model) -> Result<()> {
        let inputs: Vec<&Tensor> = self.inputs.iter().collect();
        match &mut self.ready {
            Some(ready) => ready.run(OPERATOR, &inputs, &mut [&mut self.y], &mut || Ok(())),
            None => {
                let layout = |_| Layout::Nchw;
                let outputs = model.run_on_cpu(&inputs, self.y.stream(), layout)?;
                self.y = outputs.into_iter().next().expect("a graph has an output");
                Ok(())
            }
        }
    }

    /// Processes one chunk: `fill` writes each staged input, by its number; then copy in, run, copy out,
    /// wait; `take` gets the staged output.
    pub(super) fn pass_staged(
        &mut self,
        model: &Model,
        fill: impl Fn(usize, &mut [T]),
        take: impl FnOnce(&[T]),
    ) -> Result<()> {
        let staged = self
            .staged
            .as_mut()
            .expect("the pipeline has staging memory");
        for (index, (staged, input)) in staged.inputs.iter_mut().zip(&mut self.inputs).enumerate() {
            let mut view = staged.view_mut()?;
            fill(index, view.as_slice_mut().expect("it is dense"));
            drop(view);
            input.copy_part_from_pinned(staged, 0)?;
        }
        self.run(model)?;
        let staged = self.staged.as_mut().expect("as above");
        self.y.copy_to_part_of_pinned(&mut staged.y, 0)?;
        take(staged.y.view()?.as_slice().expect("it is dense"));
        Ok(())
    }

    /// Queues copy in, run and copy out for samples of pinned arrays.
    pub(super) fn pass(
        &mut self,
        model: &Model,
        first: usize,
        inputs: &[&PinnedArray<T>],
        y: &mut PinnedArray<T>,
    ) -> Result<()> {
        let sample = |tensor: &Tensor| tensor.len() / tensor.shape()[0];
        for (pinned, input) in inputs.iter().zip(&mut self.inputs) {
            let start = first * sample(input);
            input.copy_part_from_pinned(pinned, start)?;
        }
        self.run(model)?;
        self.y.copy_to_part_of_pinned(y, first * sample(&self.y))
    }
}

/// The stages for a batch on one device.
pub(super) struct Pipeline<T: Element> {
    chunks: Chunks,
    options: Options,
    input: Box<[usize]>,
    stages: Vec<Stage<T>>,
    /// The stage for a shorter last chunk.
    rest: Option<Stage<T>>,
}

impl<T: Element> Pipeline<T> {
    /// Makes stages without staging memory. Kernels are loaded, and the new streams are ordered after the
    /// parameters.
    pub(super) fn new(
        model: &Model,
        input: &[usize],
        options: &Options,
        chunks: Chunks,
    ) -> Result<Pipeline<T>> {
        let stage = |samples: usize| {
            let mut input = input.to_vec();
            input[0] = samples;
            Stage::new(model, &input, options)
        };
        let rest = input[0] % chunks.samples;
        Ok(Pipeline {
            chunks,
            options: options.clone(),
            input: input.into(),
            stages: (0..chunks.stages)
                .map(|_| stage(chunks.samples))
                .collect::<Result<_>>()?,
            rest: (rest > 0).then(|| stage(rest)).transpose()?,
        })
    }

    /// Returns whether the pipeline fits batches of this shape under these options.
    pub(super) fn is_for(&self, input: &[usize], options: &Options, chunks: Chunks) -> bool {
        *self.input == *input && self.options == *options && self.chunks == chunks
    }

    pub(super) fn add_staging(&mut self) -> Result<()> {
        self.all().try_for_each(Stage::add_staging)
    }

    /// Returns the number of chunks of a batch.
    pub(super) fn len(&self) -> usize {
        self.input[0].div_ceil(self.chunks.samples)
    }

    /// Returns the samples of a chunk, and its stage.
    pub(super) fn chunk(&mut self, index: usize) -> (Range<usize>, &mut Stage<T>) {
        let (start, end) = (index * self.chunks.samples, self.input[0]);
        let samples = start..end.min(start + self.chunks.samples);
        let turn = index % self.stages.len();
        let stage = match &mut self.rest {
            Some(rest) if samples.len() < self.chunks.samples => rest,
            _ => &mut self.stages[turn],
        };
        (samples, stage)
    }

    /// Returns the samples of each chunk, in order.
    pub(super) fn chunks(&self) -> impl Iterator<Item = Range<usize>> + use<T> {
        let (samples, end) = (self.chunks.samples, self.input[0]);
        let chunk = move |start: usize| start..end.min(start + samples);
        (0..end).step_by(samples).map(chunk)
    }

    /// Returns the stages for chunks of full length, and the stage for a shorter last chunk, if there is one.
    pub(super) fn stages(&mut self) -> (&mut [Stage<T>], Option<&mut Stage<T>>) {
        (&mut self.stages, self.rest.as_mut())
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Stage<T>> {
        self.stages.iter_mut().chain(&mut self.rest)
    }
}
