//! Host arrays through models: in chunks, pinned, from several threads, and split over devices.

use std::thread;

use convfuse::graph::presets::KernelBench85;
use convfuse::{
    DType, Device, Element, Model, Options, Parameters, PinnedArray, Replicas, Tensor, data, f16,
};
use libtest_mimic::{Failed, Trial};
use ndarray::{ArrayD, IxDyn};

use crate::backend::{Backend, Outcome};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Backend::trials(
        &Backend::DEVICES,
        "arrays",
        &[
            ("have_the_bits_of_one_run", of_f32),
            ("are_rounded_on_the_way", of_f16),
            ("go_through_one_model_from_many_threads", threads),
            ("are_shared_between_devices", shared),
        ],
    );
    trials.push(Backend::Gpu.trial("arrays", "are_shared_by_all_gpus", all_gpus));
    trials
}

/// On a GPU, a batch of several chunks with a remainder of one sample.
fn input(backend: Backend) -> [usize; 4] {
    match backend {
        Backend::Gpu => [37, 8, 128, 128],
        _ => [3, 8, 12, 15],
    }
}

fn model(device: &Device, dtype: DType) -> convfuse::Result<Model> {
    let chain = KernelBench85::default().chain()?;
    let parameters = Parameters::init(&chain, 5)?;
    Model::with_dtype(&device.stream()?, &chain, &parameters, dtype)
}

/// Runs the batch as one tensor.
fn in_one_run(model: &Model, x: &ArrayD<f32>) -> convfuse::Result<ArrayD<f32>> {
    let x = Tensor::from_f32_array(model.stream(), x, model.dtype())?;
    model.forward(&x)?.to_f32_array()
}

fn every_way<T: Element>(backend: Backend) -> Outcome {
    let device = backend.device()?;
    let model = model(&device, T::DTYPE)?;
    let x = data::signed(1, IxDyn(&input(backend)));
    let wanted = in_one_run(&model, &x)?;
    let options = Options::default();
    assert_eq!(model.forward_array(&x)?, wanted);
    let mut y = ArrayD::zeros(wanted.shape());
    let mut pinned_x = PinnedArray::<T>::zeros(&device, x.shape())?;
    pinned_x
        .view_mut()?
        .zip_mut_with(&x, |to, &from| *to = T::from_f32(from));
    let mut pinned_y = PinnedArray::<T>::zeros(&device, wanted.shape())?;
    for _ in 0..if backend == Backend::Gpu { 20 } else { 1 } {
        y.fill(f32::NAN);
        model.forward_array_into(&x, &mut y, &options)?;
        assert_eq!(y, wanted);
        pinned_y.view_mut()?.fill(T::default());
        model.forward_pinned(&pinned_x, &mut pinned_y, &options)?;
        assert_eq!(pinned_y.view()?.mapv(T::to_f32), wanted);
    }
    // The kept pipeline serves a second array without mixing values.
    let x = data::signed(2, IxDyn(&input(backend)));
    let wanted = in_one_run(&model, &x)?;
    assert_eq!(model.forward_array(&x)?, wanted);
    model.trim_memory();
    assert_eq!(model.forward_array(&x)?, wanted);
    Ok(())
}

fn of_f32(backend: Backend) -> Outcome {
    every_way::<f32>(backend)
}

fn of_f16(backend: Backend) -> Outcome {
    every_way::<f16>(backend)
}

fn threads(backend: Backend) -> Outcome {
    let model = model(&backend.device()?, DType::F32)?;
    let (count, rounds) = match backend {
        Backend::Gpu => (4, 10),
        _ => (2, 1),
    };
    let work = |seed: u64| -> Result<(), Failed> {
        let x = data::signed(seed, IxDyn(&input(backend)));
        let wanted = in_one_run(&model, &x)?;
        for _ in 0..rounds {
            assert_eq!(model.forward_array(&x)?, wanted);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..count)
            .map(|seed| scope.spawn(move || work(seed)))
            .collect();
        threads.into_iter().try_for_each(|thread| {
            thread
                .join()
                .map_err(|_| Failed::from("a thread panicked"))?
        })
    })
}

/// Replicas on these devices give the same bits as the single model.
fn replicas(model: &Model, devices: &[Device], input: [usize; 4]) -> Outcome {
    let x = data::signed(1, IxDyn(&input));
    let wanted = in_one_run(model, &x)?;
    let replicas = Replicas::new(model, devices)?;
    assert_eq!(replicas.forward_array(&x)?, wanted);
    let mut pinned_x = PinnedArray::<f32>::zeros(&devices[0], x.shape())?;
    pinned_x.view_mut()?.assign(&x);
    let mut pinned_y = PinnedArray::<f32>::zeros(&devices[0], wanted.shape())?;
    replicas.forward_pinned(&pinned_x, &mut pinned_y, &Options::default())?;
    assert_eq!(pinned_y.view()?, wanted);
    Ok(())
}

/// With a single device, both replicas use it.
fn shared(backend: Backend) -> Outcome {
    let device = backend.device()?;
    let model = model(&device, DType::F32)?;
    replicas(&model, &[device.clone(), device], input(backend))
}

fn all_gpus(backend: Backend) -> Outcome {
    let count = Device::gpu_count()?;
    let devices = (0..count).map(Device::gpu);
    let devices = devices.collect::<convfuse::Result<Vec<Device>>>()?;
    replicas(&model(&devices[0], DType::F32)?, &devices, input(backend))
}
