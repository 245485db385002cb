//! Plans: prepared runs.

use convfuse::graph::{Chain, Layer};
use convfuse::model::Strategy;
use convfuse::{DType, Model, Options, Parameters, Stream, Tensor, data};
use libtest_mimic::Trial;
use ndarray::ArrayD;

use crate::backend::{Backend, Outcome};
use crate::chains::{Preset, preset_79, preset_85, presets};
use crate::suite::{bits, says};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Backend::trials(
        &Backend::DEVICES,
        "plans",
        &[
            ("give_what_forward_gives", same_as_forward),
            ("refuse_tensors_that_they_were_not_made_for", misuse),
            ("wait_for_inputs_of_other_streams", foreign_input),
            ("and_models_refuse_other_devices", other_devices),
        ],
    );
    trials.extend(Backend::trials(
        &Backend::KERNELS,
        "plans",
        &[
            ("allocate_nothing_when_executed", no_allocation),
            ("hold_no_more_memory_than_one_run_takes", least_memory),
        ],
    ));
    let name = "of_several_launches_give_the_same_bits_when_runs_are_queued";
    trials.push(Backend::Gpu.trial("plans", name, queued_runs));
    trials
}

/// A small input.
fn input(preset: &Preset, seed: u64) -> ArrayD<f32> {
    data::fill(seed, preset.small)
}

fn volume(seed: u64) -> ArrayD<f32> {
    input(&preset_79(), seed)
}

fn model_79(stream: &Stream) -> convfuse::Result<Model> {
    Model::init(stream, &preset_79().chain, 1)
}

fn same_as_forward(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    for preset in presets() {
        let model = Model::init(&stream, &preset.chain, 1)?;
        let inputs = [input(&preset, 1), input(&preset, 2)];
        for strategy in Strategy::all(&preset.chain) {
            let options = strategy.options();
            let mut plan = model.plan(&stream, preset.small, &options)?;
            let mut y = plan.output()?;
            for _ in 0..2 {
                for x in &inputs {
                    let x = Tensor::from_array(&stream, x)?;
                    plan.execute(&x, &mut y)?;
                    let wanted = model.forward_with(&x, &options)?.to_array::<f32>()?;
                    assert_eq!(y.to_array::<f32>()?, wanted, "{strategy}");
                }
            }
        }
    }
    Ok(())
}

fn misuse(backend: Backend) -> Outcome {
    let device = backend.device()?;
    let (stream, other) = (device.stream()?, device.stream()?);
    let mut plan = model_79(&stream)?.plan(&stream, &[2, 3, 5, 6, 7], &Options::default())?;
    let x = Tensor::from_array(&stream, &volume(1))?;
    let mut y = plan.output()?;
    let smaller = Tensor::zeros(&stream, &[1, 3, 5, 6, 7], DType::F32)?;
    says(
        plan.execute(&smaller, &mut y),
        "plan: input has shape [1, 3, 5, 6, 7], must be [2, 3, 5, 6, 7]",
    )?;
    let half = Tensor::zeros(&stream, &[2, 3, 5, 6, 7], DType::F16)?;
    says(
        plan.execute(&half, &mut y),
        "plan: input is f16, must be f32",
    )?;
    let mut elsewhere = Tensor::zeros(&other, plan.output_shape(), DType::F32)?;
    says(
        plan.execute(&x, &mut elsewhere),
        "plan: the output belongs to another stream than the plan",
    )?;
    let alias = y.clone();
    says(
        plan.execute(&x, &mut y),
        "plan: the output is shared with other tensors",
    )?;
    drop(alias);
    plan.execute(&x, &mut y)?;
    Ok(())
}

fn foreign_input(backend: Backend) -> Outcome {
    let device = backend.device()?;
    let (stream, other) = (device.stream()?, device.stream()?);
    let model = model_79(&stream)?;
    let mut plan = model.plan(&stream, &[2, 3, 5, 6, 7], &Options::default())?;
    let mut y = plan.output()?;
    let x = Tensor::from_array(&other, &volume(3))?;
    plan.execute(&x, &mut y)?;
    assert_eq!(y.to_array::<f32>()?, model.forward(&x)?.to_array::<f32>()?);
    Ok(())
}

fn other_devices(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let elsewhere = match backend {
        Backend::Cpu => Backend::Emulator.stream()?,
        _ => Backend::Cpu.stream()?,
    };
    let (here, there) = (stream.device(), elsewhere.device());
    let model = model_79(&stream)?;
    let x = Tensor::from_array(&elsewhere, &volume(1))?;
    says(
        model.plan(&elsewhere, x.shape(), &Options::default()),
        &format!("plan: the model is on {here}, must be on {there}"),
    )?;
    says(
        model.forward(&x),
        &format!("model: input is on {there}, must be on {here}"),
    )?;
    let mut plan = model.plan(&stream, x.shape(), &Options::default())?;
    let mut y = plan.output()?;
    says(
        plan.execute(&x, &mut y),
        &format!("plan: input is on {there}, must be on {here}"),
    )
}

fn no_allocation(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let preset = preset_85();
    let x = Tensor::from_array(&stream, &input(&preset, 1))?;
    let model = Model::init(&stream, &preset.chain, 1)?;
    let mut plan = model.plan(&stream, x.shape(), &Options::default())?;
    let mut y = plan.output()?;
    stream.take_counts();
    plan.execute(&x, &mut y)?;
    let counts = stream.take_counts();
    assert!(counts.launches > 0);
    assert_eq!(counts.peak_bytes, 0);
    assert!(plan.workspace_bytes() > 0);
    Ok(())
}

/// The workspace of a plan is the peak memory of the intermediate tensors, not their sum.
fn least_memory(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    for preset in presets() {
        let model = Model::init(&stream, &preset.chain, 1)?;
        let x = Tensor::from_array(&stream, &input(&preset, 1))?;
        for strategy in Strategy::all(&preset.chain) {
            let options = strategy.options();
            // Parameters that are prepared once belong to the model, not to the plan.
            drop(model.forward_with(&x, &options)?);
            stream.take_counts();
            let y = model.forward_with(&x, &options)?;
            let peak = stream.take_counts().peak_bytes;
            let held = model.plan(&stream, x.shape(), &options)?.workspace_bytes();
            // The peak may include the output. Few tensors exist at that time; each is aligned to 256 bytes.
            let [least, most] = [peak.saturating_sub(y.bytes()), peak + 4 * 256];
            assert!(
                (least..=most).contains(&held),
                "{strategy}: {held} bytes, a run {peak}"
            );
        }
    }
    // The outputs of convolution and norm, and the statistics of 32 groups with three numbers per block.
    let chain = preset_85().chain;
    let options = Strategy::parse(&chain, "unfused-direct")?[0].options();
    let model = Model::init(&stream, &chain, 1)?;
    let held = model.plan(&stream, &[2, 8, 11, 14], &options)?;
    let held = held.workspace_bytes();
    let convolved = 2 * 64 * 9 * 12 * 4;
    assert!(
        (2 * convolved..2 * convolved + 1024).contains(&held),
        "{held}"
    );
    Ok(())
}

/// Launches may start before earlier ones end. A launch without a wait would read the previous run's values
/// from the workspace. The runs therefore alternate between two inputs, without a wait in between.
fn queued_runs(backend: Backend) -> Outcome {
    let stream = &backend.stream()?;
    let images = [
        Layer::from(Layer::conv2d("conv", 256, 3)),
        Layer::from(Layer::group_norm("norm", 32)),
    ];
    let volumes = [
        Layer::from(Layer::conv3d("conv", 64, 3)),
        Layer::from(Layer::instance_norm("norm")),
    ];
    let problems: [(Chain, &[usize]); 4] = [
        // Few pixels and long sums, which use split-K if there are clusters; then more pixels.
        (Chain::new(256, images.clone())?, &[2, 256, 15, 21]),
        (Chain::new(256, images)?, &[2, 256, 52, 78]),
        (Chain::new(32, volumes.clone())?, &[2, 32, 18, 34, 34]),
        (Chain::new(3, volumes)?, &[2, 3, 10, 34, 34]),
    ];
    for (chain, shape) in problems {
        for dtype in [DType::F32, DType::F16] {
            let model = Model::with_dtype(stream, &chain, &Parameters::init(&chain, 1)?, dtype)?;
            let mut plan = model.plan(stream, shape, &Options::default())?;
            let input = |seed| Tensor::from_f32_array(stream, &data::signed(seed, shape), dtype);
            let inputs = [input(1)?, input(2)?];
            let mut outputs = Vec::new();
            for x in &inputs {
                let mut y = plan.output()?;
                plan.execute(x, &mut y)?;
                outputs.push(y);
                stream.synchronize()?;
            }
            let values = |y: &Tensor| Ok::<_, convfuse::Error>(bits(&y.to_f32_array()?));
            let wanted = [values(&outputs[0])?, values(&outputs[1])?];
            assert_ne!(wanted[0], wanted[1], "different inputs");
            for round in 0..20 {
                for _ in 0..10 {
                    for (x, y) in inputs.iter().zip(&mut outputs) {
                        plan.execute(x, y)?;
                    }
                }
                for (y, wanted) in outputs.iter().zip(&wanted) {
                    assert!(values(y)? == *wanted, "{shape:?}, {dtype}, round {round}");
                }
            }
        }
    }
    Ok(())
}
