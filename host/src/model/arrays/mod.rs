//! Runs of models on the caller's arrays, with overlapping copies and kernels.
//!
//! On a GPU, a batch of more than a few MiB is cut into [chunks](chunks). They go through a [pipeline] of
//! stages, each with its own stream. A sample has the same result bits in any batch, so cutting does not
//! change results. If arrays are not pinned, all threads of rayon's pool copy between them and the pipeline's
//! pinned memory, rounding or widening during the copy.
//!
//! A batch may be *shared* between replicas of a model on several devices. The threads then serve the stages
//! of all pipelines concurrently. For pinned arrays, one thread gives a chunk to each pipeline in turn.

mod chunks;
mod copies;
mod pipeline;
mod shares;
#[cfg(test)]
mod tests;

use ndarray::{ArrayBase, ArrayD, ArrayViewD, ArrayViewMutD, Axis, Data, DataMut, Dimension};

pub(crate) use chunks::Cut;
pub(crate) use shares::{Share, fresh, into, pinned};

use super::{Inputs, Model, Options};
use crate::device::PinnedArray;
use crate::dtype::Element;
use crate::error::Result;

const OPERATOR: &str = "model";

impl Model {
    /// Runs [`forward`](Self::forward) on an array: copies it to the model's device, runs, waits, copies
    /// back.
    ///
    /// On a GPU, a batch of more than 2 MiB is cut into chunks, so that copies in both directions overlap
    /// with kernels. The results have the same bits. All threads of rayon's pool take part. The model keeps
    /// the pipelines of the last two shapes, each with up to 128 MiB of pinned and of device memory, until
    /// [`trim_memory`](Self::trim_memory) or its end.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn forward_array<'a, S: Data<Elem = f32> + 'a, D: Dimension + 'a>(
        &self,
        inputs: impl Into<Inputs<&'a ArrayBase<S, D>>>,
    ) -> Result<ArrayD<f32>> {
        self.forward_array_with(inputs, &Options::default())
    }

    /// [`forward_array`](Self::forward_array) with options. If the options allow results to depend on the
    /// batch, the batch is not cut.
    ///
    /// # Errors
    /// As [`forward_with`](Self::forward_with).
    pub fn forward_array_with<'a, S: Data<Elem = f32> + 'a, D: Dimension + 'a>(
        &self,
        inputs: impl Into<Inputs<&'a ArrayBase<S, D>>>,
        options: &Options,
    ) -> Result<ArrayD<f32>> {
        let (inputs, lacks_batch) = batched(self, inputs.into())?;
        let shares = Share::whole(self, inputs[0].shape());
        let y = fresh(&shares, &inputs, options, &Cut::for_threads(1))?;
        Ok(without_batch(y, lacks_batch))
    }

    /// [`forward_array_with`](Self::forward_array_with) into an existing array. This avoids the cost of
    /// memory that is new to the process, which takes as long as the copies.
    ///
    /// # Errors
    /// As [`forward_array_with`](Self::forward_array_with); [`ShapeMismatch`](crate::Error::ShapeMismatch)
    /// for an array of another shape.
    ///
    /// # Examples
    /// ```
    /// use convfuse::graph::presets::KernelBench79;
    /// use convfuse::{Device, Model, Options, data};
    /// use ndarray::ArrayD;
    ///
    /// let stream = Device::best().stream()?;
    /// let model = Model::init(&stream, &KernelBench79::default().chain()?, 7)?;
    /// let mut y = ArrayD::zeros(model.output_shape(&[2, 3, 5, 6, 7])?);
    /// for seed in 0..3 {
    ///     let x = data::fill(seed, (2, 3, 5, 6, 7));
    ///     model.forward_array_into(&x, &mut y, &Options::default())?;
    ///     println!("{}", y.sum());
    /// }
    /// # Ok::<(), convfuse::Error>(())
    /// ```
    pub fn forward_array_into<'a, S, D, O, E>(
        &self,
        inputs: impl Into<Inputs<&'a ArrayBase<S, D>>>,
        y: &mut ArrayBase<O, E>,
        options: &Options,
    ) -> Result<()>
    where
        S: Data<Elem = f32> + 'a,
        D: Dimension + 'a,
        O: DataMut<Elem = f32>,
        E: Dimension,
    {
        let (inputs, lacks_batch) = batched(self, inputs.into())?;
        let shares = Share::whole(self, inputs[0].shape());
        let mut y = with_batch(y, lacks_batch);
        into(&shares, &inputs, &mut y, options, &Cut::for_threads(1))
    }

    /// Runs [`forward`](Self::forward) on batches in pinned memory, which the GPU copies asynchronously.
    /// Copies and kernels overlap as in [`forward_array`](Self::forward_array). The host does not wait;
    /// [`PinnedArray::view`] does. Nothing is rounded: the arrays hold elements of the model's type.
    ///
    /// # Errors
    /// As [`forward_with`](Self::forward_with); [`ShapeMismatch`](crate::Error::ShapeMismatch) and
    /// [`DTypeMismatch`](crate::Error::DTypeMismatch) for arrays of another shape or type.
    pub fn forward_pinned<'a, T: Element>(
        &self,
        inputs: impl Into<Inputs<&'a PinnedArray<T>>>,
        y: &mut PinnedArray<T>,
        options: &Options,
    ) -> Result<()> {
        let inputs = inputs.into().arranged(OPERATOR, self.graph().inputs())?;
        let shares = Share::whole(self, inputs[0].shape());
        pinned(&shares, &inputs, y, options, &Cut::default())
    }

    /// Frees the memory that [`forward_array`](Self::forward_array) and
    /// [`forward_pinned`](Self::forward_pinned) keep for the next call, once nothing uses it.
    pub fn trim_memory(&self) {
        tracing::debug!(target: "convfuse::memory", "a model gives back what its arrays went through");
        self.pipelines().clear();
    }
}

/// Returns the inputs in the order of the model's graph, and whether they lacked a batch. Such inputs become
/// a batch of one sample.
pub(crate) fn batched<'a, S: Data<Elem = f32>, D: Dimension>(
    model: &Model,
    inputs: Inputs<&'a ArrayBase<S, D>>,
) -> Result<(Vec<ArrayViewD<'a, f32>>, bool)> {
    let inputs = inputs.map(|array| array.view().into_dyn());
    let mut inputs = inputs.arranged(OPERATOR, model.graph().inputs())?;
    let lacks_batch = model.graph().lacks_batch(inputs[0].shape());
    if lacks_batch {
        inputs = inputs.into_iter().map(|x| x.insert_axis(Axis(0))).collect();
    }
    Ok((inputs, lacks_batch))
}

/// Returns the output for [`batched`] inputs, without the batch if the inputs lacked one.
pub(crate) fn without_batch(y: ArrayD<f32>, lacks_batch: bool) -> ArrayD<f32> {
    match lacks_batch {
        true => y.remove_axis(Axis(0)),
        false => y,
    }
}

/// Returns the caller's array for the output for [`batched`] inputs.
pub(crate) fn with_batch<O: DataMut<Elem = f32>, E: Dimension>(
    y: &mut ArrayBase<O, E>,
    lacks_batch: bool,
) -> ArrayViewMutD<'_, f32> {
    let y = y.view_mut().into_dyn();
    match lacks_batch {
        true => y.insert_axis(Axis(0)),
        false => y,
    }
}

/// [`Model::forward_array_into`] with chunks of about this many bytes (input and output together), and this
/// many chunks in flight.
///
/// # Errors
/// As [`Model::forward_array_into`].
#[cfg(any(test, feature = "lab"))]
pub fn forward_array_cut(
    model: &Model,
    x: &ArrayD<f32>,
    y: &mut ArrayD<f32>,
    chunk_bytes: usize,
    stages: usize,
) -> Result<()> {
    let cut = Cut {
        chunk_bytes: [chunk_bytes; 2],
        stages,
        ..Cut::default()
    };
    into(
        &Share::whole(model, x.shape()),
        &[x.view()],
        y,
        &Options::default(),
        &cut,
    )
}
