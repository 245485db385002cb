//! One model on several devices.

use std::ops::Range;

use ndarray::{ArrayBase, ArrayD, Data, DataMut, Dimension};

use super::arrays::{self, Cut, Share};
use super::inputs::of_input;
use super::{Inputs, Model, Options, Plan};
use crate::device::{Device, PinnedArray, Tensor, must_have_shape};
use crate::dtype::Element;
use crate::error::{Error, Result};

const OPERATOR: &str = "replicas";

/// A model on several devices, such as all GPUs of a host, which share each batch.
///
/// The results do not depend on the number of devices. If all devices are of one kind, they have the same
/// bits as on one device, because the same kernels run. The devices work concurrently: threads of rayon's
/// pool copy arrays for all of them. If the host copies nothing, one thread queues the work of all devices,
/// which takes microseconds.
///
/// # Examples
/// ```
/// use convfuse::graph::presets::KernelBench79;
/// use convfuse::{Device, Model, Replicas, data};
///
/// let gpus = Device::gpu_count().unwrap_or(0);
/// let devices = match gpus {
///     0 => vec![Device::cpu()],
///     _ => (0..gpus).map(Device::gpu).collect::<convfuse::Result<_>>()?,
/// };
/// let model = Model::init(&devices[0].stream()?, &KernelBench79::default().chain()?, 7)?;
/// let replicas = Replicas::new(&model, &devices)?;
/// let x = data::fill(1, (8, 3, 5, 6, 7));
/// assert_eq!(replicas.forward_array(&x)?, model.forward_array(&x)?);
/// # Ok::<(), convfuse::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Replicas {
    models: Box<[Model]>,
}

impl Replicas {
    /// Makes one model per device, each on its own stream. On the model's own device it is the model itself,
    /// with its memory; for the others its parameters are uploaded.
    ///
    /// # Errors
    /// [`Error::NoDevices`]; errors of making streams and of uploads.
    pub fn new(model: &Model, devices: &[Device]) -> Result<Replicas> {
        if devices.is_empty() {
            return Err(Error::NoDevices);
        }
        let on = |device: &Device| match device == model.device() {
            true => Ok(model.clone()),
            false => {
                let stream = device.stream()?;
                Model::with_dtype(&stream, model.graph(), model.parameters()?, model.dtype())
            }
        };
        Ok(Replicas {
            models: devices.iter().map(on).collect::<Result<_>>()?,
        })
    }

    /// The model on each device, in the order of the devices.
    pub fn models(&self) -> &[Model] {
        &self.models
    }

    /// Returns the samples of a batch that each device gets. Shares differ by at most one sample. For a graph
    /// [whose samples depend on each other](op_spec::graph::Graph::couples_samples) the first device gets
    /// all.
    pub fn shares(&self, batch: usize) -> Vec<Range<usize>> {
        let count = self.models.len();
        if self.models[0].graph().couples_samples() {
            let mut shares = vec![batch..batch; count];
            shares[0] = 0..batch;
            return shares;
        }
        let (each, left) = (batch / count, batch % count);
        let start = |index: usize| index * each + index.min(left);
        (0..count)
            .map(|index| start(index)..start(index + 1))
            .collect()
    }

    /// Returns the shares that are not empty. The first device gets an empty batch.
    fn of(&self, input: &[usize]) -> Vec<Share<'_>> {
        let shares = self.shares(input.first().map_or(0, |&extent| extent));
        let shares = self.models.iter().zip(shares).enumerate();
        shares
            .filter(|(index, (_, samples))| *index == 0 || !samples.is_empty())
            .map(|(_, (model, samples))| Share::part(model, input, samples))
            .collect()
    }

    /// [`Model::forward_array`] on all devices concurrently.
    ///
    /// # Errors
    /// As [`Model::forward_array`].
    pub fn forward_array<'a, S: Data<Elem = f32> + 'a, D: Dimension + 'a>(
        &self,
        inputs: impl Into<Inputs<&'a ArrayBase<S, D>>>,
    ) -> Result<ArrayD<f32>> {
        self.forward_array_with(inputs, &Options::default())
    }

    /// [`Model::forward_array_with`] on all devices concurrently. If the options allow results to depend on
    /// the batch, they depend on the number of devices.
    ///
    /// # Errors
    /// As [`Model::forward_array_with`].
    pub fn forward_array_with<'a, S: Data<Elem = f32> + 'a, D: Dimension + 'a>(
        &self,
        inputs: impl Into<Inputs<&'a ArrayBase<S, D>>>,
        options: &Options,
    ) -> Result<ArrayD<f32>> {
        let (inputs, lacks_batch) = arrays::batched(&self.models[0], inputs.into())?;
        let shares = self.of(inputs[0].shape());
        let y = arrays::fresh(&shares, &inputs, options, &Cut::for_threads(shares.len()))?;
        Ok(arrays::without_batch(y, lacks_batch))
    }

    /// [`Model::forward_array_into`] on all devices concurrently.
    ///
    /// # Errors
    /// As [`Model::forward_array_into`].
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
        let (inputs, lacks_batch) = arrays::batched(&self.models[0], inputs.into())?;
        let shares = self.of(inputs[0].shape());
        let mut y = arrays::with_batch(y, lacks_batch);
        let cut = Cut::for_threads(shares.len());
        arrays::into(&shares, &inputs, &mut y, options, &cut)
    }

    /// [`Model::forward_pinned`] on all devices concurrently.
    ///
    /// # Errors
    /// As [`Model::forward_pinned`].
    pub fn forward_pinned<'a, T: Element>(
        &self,
        inputs: impl Into<Inputs<&'a PinnedArray<T>>>,
        y: &mut PinnedArray<T>,
        options: &Options,
    ) -> Result<()> {
        let inputs = inputs.into().arranged(OPERATOR, self.names())?;
        let shares = self.of(inputs[0].shape());
        arrays::pinned(&shares, &inputs, y, options, &Cut::default())
    }

    /// [`Model::forward_with`] for tensors that are already on the devices. Each input has one tensor per
    /// device, in the order of the devices, with any batch.
    ///
    /// # Errors
    /// As [`Model::forward_with`]; [`Error::ShapeMismatch`] for another number of tensors.
    pub fn forward<'a>(
        &self,
        inputs: impl Into<Inputs<&'a [Tensor]>>,
        options: &Options,
    ) -> Result<Vec<Tensor>> {
        let inputs = inputs.into().arranged(OPERATOR, self.names())?;
        must_be_one_each(&inputs, self.names(), self.models.len())?;
        let of_device = |(index, model): (usize, &Model)| {
            let inputs: Vec<&Tensor> = inputs.iter().map(|tensors| &tensors[index]).collect();
            model.forward_arranged(&inputs, options)
        };
        self.models.iter().enumerate().map(of_device).collect()
    }

    /// [`Model::plan`] for each device's share of batches of this shape.
    ///
    /// # Errors
    /// As [`Model::plan`].
    pub fn plan(&self, input: &[usize], options: &Options) -> Result<ReplicaPlans> {
        let shares = self.of(input);
        let plan = |share: &Share<'_>| {
            let stream = share.model().stream().sibling()?;
            share.model().plan(&stream, share.input(), options)
        };
        Ok(ReplicaPlans {
            plans: shares.iter().map(plan).collect::<Result<_>>()?,
        })
    }

    /// [`Model::trim_memory`] on every device.
    pub fn trim_memory(&self) {
        self.models.iter().for_each(Model::trim_memory);
    }

    /// The names of further inputs.
    fn names(&self) -> &[String] {
        self.models[0].graph().inputs()
    }
}

/// Refuses inputs (the first one, and further ones of these names) that do not have one tensor per model.
fn must_be_one_each(inputs: &[&[Tensor]], names: &[String], expected: usize) -> Result<()> {
    let mut inputs = inputs.iter().enumerate();
    inputs.try_for_each(|(index, tensors)| {
        let is_each = must_be_as_many(tensors.len(), expected, "inputs");
        of_input(names, index, is_each)
    })
}

fn must_be_as_many(actual: usize, expected: usize, argument: &'static str) -> Result<()> {
    must_have_shape(&[expected], &[actual], (OPERATOR, argument))
}

/// Plans of one model on several devices, each for a share of a batch.
///
/// Made by [`Replicas::plan`]. A device without samples has no plan.
#[derive(Debug)]
pub struct ReplicaPlans {
    plans: Vec<Plan>,
}

impl ReplicaPlans {
    /// The plans, in the order of the devices.
    pub fn plans(&self) -> &[Plan] {
        &self.plans
    }

    /// Allocates a tensor for each plan's output.
    ///
    /// # Errors
    /// As [`Plan::output`].
    pub fn outputs(&self) -> Result<Vec<Tensor>> {
        self.plans.iter().map(Plan::output).collect()
    }

    /// Queues one run on every device: [`Plan::execute`] for each plan with its inputs and its output.
    ///
    /// # Errors
    /// As [`Plan::execute`]; [`Error::ShapeMismatch`] if the number of tensors is not the number of plans.
    /// Plans before the one that failed run.
    pub fn execute<'a>(
        &mut self,
        inputs: impl Into<Inputs<&'a [Tensor]>>,
        ys: &mut [Tensor],
    ) -> Result<()> {
        let first = self.plans.first().expect("the first device has a plan");
        let names = first.graph().inputs();
        let inputs = inputs.into().arranged(OPERATOR, names)?;
        must_be_one_each(&inputs, names, self.plans.len())?;
        must_be_as_many(ys.len(), self.plans.len(), "outputs")?;
        let mut each = self.plans.iter_mut().zip(ys).enumerate();
        each.try_for_each(|(index, (plan, y))| {
            let inputs: Vec<&Tensor> = inputs.iter().map(|tensors| &tensors[index]).collect();
            plan.execute_arranged(&inputs, &mut [y])
        })
    }

    /// Waits until every device has completed its work.
    ///
    /// # Errors
    /// Errors of that work.
    pub fn synchronize(&self) -> Result<()> {
        let mut streams = self.plans.iter().map(Plan::stream);
        streams.try_for_each(|stream| stream.synchronize())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data;
    use crate::dtype::DType;
    use op_spec::graph::presets::KernelBench79;
    use op_spec::graph::{Chain, Layer};

    const SHAPE: [usize; 5] = [5, 3, 5, 6, 7];

    fn model(device: &Device) -> Model {
        let chain = KernelBench79::default().chain().unwrap();
        Model::init(&device.stream().unwrap(), &chain, 3).unwrap()
    }

    fn bits(array: &ArrayD<f32>) -> Vec<u32> {
        array.iter().map(|value| value.to_bits()).collect()
    }

    /// Checks that arrays, tensors and plans give the same bits.
    fn same_bits(model: &Model, devices: &[Device]) {
        let x = data::signed(1, SHAPE);
        let wanted = bits(&model.forward_array(&x).unwrap());
        let replicas = Replicas::new(model, devices).unwrap();
        let shape = model.output_shape(&SHAPE).unwrap();
        let mut y = ArrayD::zeros(shape.clone());
        let options = Options::default();
        replicas.forward_array_into(&x, &mut y, &options).unwrap();
        assert_eq!(bits(&y), wanted);

        let mut plans = replicas.plan(&SHAPE, &options).unwrap();
        let shares = replicas.shares(SHAPE[0]).into_iter();
        let shares: Vec<_> = shares.filter(|share| !share.is_empty()).collect();
        let input = |(plan, share): (&Plan, &Range<usize>)| {
            let samples = ndarray::Slice::from(share.clone());
            let samples = x.slice_axis(ndarray::Axis(0), samples);
            Tensor::from_array(plan.stream(), &samples).unwrap()
        };
        let xs: Vec<Tensor> = plans.plans().iter().zip(&shares).map(input).collect();
        let mut ys = plans.outputs().unwrap();
        plans.execute(&xs, &mut ys).unwrap();
        plans.synchronize().unwrap();
        let all = |ys: &[Tensor]| {
            let parts = ys.iter().map(|y| bits(&y.to_array::<f32>().unwrap()));
            parts.collect::<Vec<_>>().concat()
        };
        assert_eq!(all(&ys), wanted);
        if xs.len() == devices.len() {
            assert_eq!(all(&replicas.forward(&xs, &options).unwrap()), wanted);
        }
        let refused = plans.execute(&xs, &mut []);
        assert!(matches!(refused, Err(Error::ShapeMismatch { .. })));
    }

    #[test]
    fn any_number_of_devices_makes_the_same_bits() {
        let one = Device::emulator();
        let model = model(&one);
        same_bits(&model, std::slice::from_ref(&one));
        same_bits(&model, &[one, Device::emulator()]);
    }

    #[test]
    fn replicas_hold_what_the_model_holds() {
        let one = Device::emulator();
        let chain = KernelBench79::default().chain().unwrap();
        let parameters = crate::Parameters::init(&chain, 3).unwrap();
        let x = data::signed(1, SHAPE);
        for dtype in [DType::F16, DType::BF16] {
            let stream = one.stream().unwrap();
            let model = Model::with_dtype(&stream, &chain, &parameters, dtype).unwrap();
            let replicas = Replicas::new(&model, &[one.clone(), Device::emulator()]).unwrap();
            assert!(replicas.models().iter().all(|model| model.dtype() == dtype));
            let y = replicas.forward_array(&x).unwrap();
            assert_eq!(bits(&y), bits(&model.forward_array(&x).unwrap()));
        }
    }

    #[test]
    fn more_devices_than_samples_make_the_same_bits() {
        let cpus = vec![Device::cpu(); 7];
        same_bits(&model(&cpus[0]), &cpus);
    }

    #[test]
    fn shares_are_even_and_leave_nothing_out() {
        let cpus = vec![Device::cpu(); 3];
        let replicas = Replicas::new(&model(&cpus[0]), &cpus).unwrap();
        assert_eq!(replicas.shares(8), [0..3, 3..6, 6..8]);
        assert_eq!(replicas.shares(1), [0..1, 1..1, 1..1]);
        let none = Replicas::new(&replicas.models()[0], &[]);
        assert!(matches!(none, Err(Error::NoDevices)));
        // The statistics of a batch are those of all its samples.
        let norm = Layer::batch_norm("norm").training(true);
        let chain = Chain::new(3, (norm, Layer::relu())).unwrap();
        let coupled = Model::init(&cpus[0].stream().unwrap(), &chain, 3).unwrap();
        let replicated = Replicas::new(&coupled, &cpus).unwrap();
        assert_eq!(replicated.shares(8), [0..8, 8..8, 8..8]);
        same_bits(&coupled, &cpus);
        // An input without a batch is a batch of one sample, which the first device computes.
        let sample = crate::data::fill(3, (3, 5, 6, 7));
        let alone = replicas.models()[0].forward_array(&sample).unwrap();
        assert_eq!(replicas.forward_array(&sample).unwrap(), alone);
        let mut y = ndarray::ArrayD::zeros(alone.shape());
        let default = Options::default();
        replicas
            .forward_array_into(&sample, &mut y, &default)
            .unwrap();
        assert_eq!(y, alone);
        let empty = ndarray::Array5::<f32>::zeros((0, 3, 5, 6, 7));
        let (one, all) = (&replicas.models()[0], &replicas);
        assert_eq!(
            one.forward_array(&empty).is_ok(),
            all.forward_array(&empty).is_ok()
        );
    }
}
