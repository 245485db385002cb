//! Several streams, threads and devices in one process.

use std::thread;

use convfuse::spec::ClampSpec;
use convfuse::{Device, Model, Tensor, data, ops};
use libtest_mimic::{Failed, Trial};
use ndarray::ArrayD;

use crate::backend::{Backend, Outcome};
use crate::chains::preset_79;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Backend::trials(
        &Backend::DEVICES,
        "streams",
        &[
            ("serve_many_threads_at_once", threads),
            ("measure_time", timing),
        ],
    );
    // On a GPU, `held` tests this, where missing ordering is visible.
    let synchronous = [Backend::Cpu, Backend::Emulator];
    trials.extend(Backend::trials(
        &synchronous,
        "streams",
        &[("order_what_crosses_them", crossing)],
    ));
    trials.push(Backend::Gpu.trial("streams", "serve_every_device_of_the_machine", every_device));
    trials
}

/// A chain of operators that changes its stream at each step, and drops the tensors that it reads.
fn crossing(backend: Backend) -> Outcome {
    let device = backend.device()?;
    let streams = [device.stream()?, device.stream()?, device.stream()?];
    let values = data::signed(1, (16, 4096));
    let mut x = Tensor::from_array(&streams[0], &values)?;
    let rounds = if backend == Backend::Emulator { 6 } else { 60 };
    for round in 1..=rounds {
        let bound = 1.0 - f64::from(round) / 100.0;
        x = ops::clamp(
            &x.on(&streams[round as usize % 3])?,
            &ClampSpec::new(-bound, bound),
        )?;
    }
    let bound = (1.0 - f64::from(rounds) / 100.0) as f32;
    let wanted = values.mapv(|value| value.clamp(-bound, bound)).into_dyn();
    assert_eq!(x.to_array::<f32>()?, wanted);
    Ok(())
}

fn small_model(device: &Device) -> convfuse::Result<(Model, ArrayD<f32>)> {
    let model = Model::init(&device.stream()?, &preset_79().chain, 3)?;
    let y = model.forward_array(&data::fill(1, (1, 3, 5, 6, 7)))?;
    Ok((model, y))
}

/// One model, with parameters uploaded on one stream, used by threads with their own streams.
fn threads(backend: Backend) -> Outcome {
    let device = backend.device()?;
    let (model, wanted) = small_model(&device)?;
    let (count, rounds) = if backend == Backend::Gpu {
        (8, 25)
    } else {
        (4, 2)
    };
    let work = || -> Result<(), Failed> {
        let stream = device.stream()?;
        for _ in 0..rounds {
            let x = Tensor::from_array(&stream, &data::fill(1, (1, 3, 5, 6, 7)))?;
            assert_eq!(model.forward(&x)?.to_array::<f32>()?, wanted);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| {
            thread
                .join()
                .map_err(|_| Failed::from("a thread panicked"))?
        })
    })
}

fn timing(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let x = Tensor::from_array(&stream, &data::signed(1, (16, 1024)))?;
    let start = stream.record()?;
    ops::clamp(&x, &ClampSpec::new(0.0, 1.0))?;
    let end = stream.record()?;
    end.synchronize()?;
    let time = end.since(&start)?;
    assert!(!time.is_zero() && time.as_secs() < 60, "{time:?}");
    Ok(())
}

fn every_device(_: Backend) -> Outcome {
    let mut first = None;
    for ordinal in 0..Device::gpu_count()? {
        let (_, y) = small_model(&Device::gpu(ordinal)?)?;
        // Two devices of the same model give the same bits.
        assert_eq!(*first.get_or_insert_with(|| y.clone()), y, "gpu:{ordinal}");
    }
    Ok(())
}
