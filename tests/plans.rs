//! Plans: runs that were prepared.

use convfuse::models::conv2d_group_norm_scale_max_pool_clamp::Strategy as Strategy85;
use convfuse::models::{
    Conv2dGroupNormScaleMaxPoolClamp as Model85,
    Conv3dMultiplyInstanceNormClampMultiplyMax as Model79, Options, Pipeline, Strategy,
};
use convfuse::spec::{
    Conv2dGroupNormScaleMaxPoolClampSpec as Spec85,
    Conv3dMultiplyInstanceNormClampMultiplyMaxSpec as Spec79,
};
use convfuse::{DType, Stream, Tensor, data};
use libtest_mimic::Trial;
use ndarray::ArrayD;

use crate::backend::{Backend, Outcome};
use crate::suite::says;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for backend in Backend::DEVICES {
        let mut add =
            |name, test: fn(Backend) -> Outcome| trials.push(backend.trial("plans", name, test));
        add("give_what_forward_gives", same_as_forward);
        add("refuse_tensors_that_they_were_not_made_for", misuse);
        add("wait_for_inputs_of_other_streams", foreign_input);
        add("and_models_refuse_other_devices", other_devices);
    }
    for backend in Backend::KERNELS {
        trials.push(backend.trial("plans", "allocate_nothing_when_executed", no_allocation));
        let name = "hold_no_more_memory_than_one_run_takes";
        trials.push(backend.trial("plans", name, least_memory));
    }
    trials
}

fn image(seed: u64) -> ArrayD<f32> {
    data::fill(seed, (2, 8, 11, 14)).into_dyn()
}

fn volume(seed: u64) -> ArrayD<f32> {
    data::fill(seed, (2, 3, 5, 6, 7)).into_dyn()
}

fn model_85(stream: &Stream) -> convfuse::Result<Model85> {
    Model85::init(stream, &Spec85::kernelbench(), 1)
}

fn model_79(stream: &Stream) -> convfuse::Result<Model79> {
    Model79::init(stream, &Spec79::kernelbench(), 1)
}

fn same_as_forward(backend: Backend) -> Outcome {
    fn check<M: Pipeline>(model: &M, stream: &Stream, inputs: [ArrayD<f32>; 2]) -> Outcome {
        for &strategy in M::Strategy::ALL {
            let options = Options::strategy(strategy);
            let mut plan = model.plan(stream, inputs[0].shape(), &options)?;
            let mut y = plan.output()?;
            for _ in 0..2 {
                for x in &inputs {
                    let x = Tensor::from_array(stream, x)?;
                    plan.execute(&x, &mut y)?;
                    let wanted = model.forward_with(&x, &options)?.to_array::<f32>()?;
                    assert_eq!(y.to_array::<f32>()?, wanted, "{strategy}");
                }
            }
        }
        Ok(())
    }
    let stream = backend.stream()?;
    check(&model_85(&stream)?, &stream, [image(1), image(2)])?;
    check(&model_79(&stream)?, &stream, [volume(1), volume(2)])
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
    let name = "conv3d_multiply_instance_norm_clamp_multiply_max";
    says(
        model.forward(&x),
        &format!("{name}: input is on {there}, must be on {here}"),
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
    let x = Tensor::from_array(&stream, &image(1))?;
    let mut plan = model_85(&stream)?.plan(&stream, x.shape(), &Options::default())?;
    let mut y = plan.output()?;
    stream.take_counts();
    plan.execute(&x, &mut y)?;
    let counts = stream.take_counts();
    assert!(counts.launches > 0);
    assert_eq!(counts.peak_bytes, 0);
    assert!(plan.workspace_bytes() > 0);
    Ok(())
}

/// A plan holds what the intermediate tensors of one run take at the run's peak, not all of them.
fn least_memory(backend: Backend) -> Outcome {
    fn check<M: Pipeline>(model: &M, x: &Tensor) -> Outcome {
        let stream = x.stream();
        for &strategy in M::Strategy::ALL {
            let options = Options::strategy(strategy);
            // Parameters that are prepared once belong to the model.
            drop(model.forward_with(x, &options)?);
            stream.take_counts();
            let y = model.forward_with(x, &options)?;
            let peak = stream.take_counts().peak_bytes;
            let held = model.plan(stream, x.shape(), &options)?.workspace_bytes();
            // The output may or may not be there at the peak. Few tensors live then; each starts on 256 bytes.
            let [least, most] = [peak.saturating_sub(y.bytes()), peak + 4 * 256];
            assert!(
                (least..=most).contains(&held),
                "{strategy}: {held} bytes, a run {peak}"
            );
        }
        Ok(())
    }
    let stream = backend.stream()?;
    let images = Tensor::from_array(&stream, &image(1))?;
    let model = model_85(&stream)?;
    check(&model, &images)?;
    check(
        &model_79(&stream)?,
        &Tensor::from_array(&stream, &volume(1))?,
    )?;
    // The convolution's output and the norm's, and the statistics of 32 groups, a block's three numbers each.
    let options = Options::strategy(Strategy85::UnfusedDirect);
    let held = model
        .plan(&stream, images.shape(), &options)?
        .workspace_bytes();
    let convolved = 2 * 64 * 9 * 12 * 4;
    assert!(
        (2 * convolved..2 * convolved + 1024).contains(&held),
        "{held}"
    );
    Ok(())
}
