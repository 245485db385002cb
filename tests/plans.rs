//! Plans: runs that were prepared.

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
    }
    for backend in Backend::KERNELS {
        trials.push(backend.trial("plans", "allocate_nothing_when_executed", no_allocation));
    }
    trials.push(Backend::Gpu.trial("plans", "can_be_captured_in_a_cuda_graph", capture));
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

fn capture(backend: Backend) -> Outcome {
    use cust::sys;
    let stream = backend.stream()?;
    let model = model_85(&stream)?;
    let x = Tensor::from_array(&stream, &image(4))?;
    let mut plan = model.plan(&stream, x.shape(), &Options::default())?;
    let mut y = plan.output()?;
    stream.synchronize()?;
    let raw = stream.as_raw().ok_or("a GPU's stream has a handle")?;
    let check = |call: &str, result: sys::CUresult| match result {
        sys::CUresult::CUDA_SUCCESS => Ok(()),
        error => Err(format!("{call}: {error:?}")),
    };
    let device = cust::device::Device::get_device(0)?;
    let _context = cust::context::Context::new(device)?;
    let (mut graph, mut executable) = (std::ptr::null_mut(), std::ptr::null_mut());
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    // SAFETY: `raw` is the stream's live handle; the graph handles are written before they are used.
    unsafe {
        check(
            "cuStreamBeginCapture",
            sys::cuStreamBeginCapture_v2(raw, mode),
        )?
    };
    let queued = plan.execute(&x, &mut y);
    // SAFETY: as above; the graph refers to memory of plan, input and output, which outlive its last launch.
    unsafe {
        check(
            "cuStreamEndCapture",
            sys::cuStreamEndCapture(raw, &mut graph),
        )?;
        queued?;
        check(
            "cuGraphInstantiate",
            sys::cuGraphInstantiateWithFlags(&mut executable, graph, 0),
        )?;
        for _ in 0..3 {
            check("cuGraphLaunch", sys::cuGraphLaunch(executable, raw))?;
        }
    }
    let got = y.to_array::<f32>()?;
    // SAFETY: `to_array` waited for the stream, so the graph has run for the last time.
    unsafe {
        check("cuGraphExecDestroy", sys::cuGraphExecDestroy(executable))?;
        check("cuGraphDestroy", sys::cuGraphDestroy(graph))?;
    }
    assert_eq!(got, model.forward(&x)?.to_array::<f32>()?);
    Ok(())
}
