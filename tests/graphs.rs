//! Plans as CUDA graphs.

use std::ptr::null_mut;

use convfuse::model::Strategy;
use convfuse::{Device, Model, Options, Stream, Tensor, data};
use cust::sys;
use libtest_mimic::{Failed, Trial};
use ndarray::{ArrayD, IxDyn};

use crate::backend::{Backend, Outcome};
use crate::chains::{preset_79, preset_85};
use crate::suite::says;

/// Shapes of the single-launch kernels.
const IMAGES: [usize; 4] = [3, 8, 128, 128];
const VOLUMES: [usize; 5] = [3, 3, 16, 32, 32];

pub(crate) fn trials() -> Vec<Trial> {
    let name = "are_refused_where_there_are_none";
    let without = [Backend::Cpu, Backend::Emulator];
    let mut trials = Backend::trials(&without, "graphs", &[(name, no_graphs)]);
    trials.extend(Backend::trials(
        &[Backend::Gpu],
        "graphs",
        &[
            ("give_what_forward_gives_for_changing_inputs", replays),
            ("replay_side_by_side_on_several_streams", several_streams),
            ("are_captured_on_a_stream_of_the_callers", callers_capture),
        ],
    ));
    trials
}

fn model_85(stream: &Stream) -> convfuse::Result<Model> {
    Model::init(stream, &preset_85().chain, 1)
}

fn model_79(stream: &Stream) -> convfuse::Result<Model> {
    Model::init(stream, &preset_79().chain, 1)
}

/// Both models, each with a shape of a single-launch kernel.
fn models(stream: &Stream) -> convfuse::Result<[(Model, &'static [usize]); 2]> {
    Ok([(model_85(stream)?, &IMAGES), (model_79(stream)?, &VOLUMES)])
}

fn input(seed: u64, shape: &[usize]) -> ArrayD<f32> {
    data::fill(seed, IxDyn(shape))
}

/// The result of a model without plan and graph.
fn plain(model: &Model, options: &Options, x: &ArrayD<f32>) -> convfuse::Result<ArrayD<f32>> {
    let x = Tensor::from_array(model.stream(), x)?;
    model.forward_with(&x, options)?.to_array::<f32>()
}

fn no_graphs(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let plan = model_79(&stream)?.plan(&stream, &[1, 3, 5, 6, 7], &Options::default())?;
    let x = Tensor::from_array(&stream, &data::fill(1, [1, 3, 5, 6, 7]))?;
    let wanted = format!(
        "{} has no CUDA graphs; execute the plan instead",
        stream.device()
    );
    says(plan.capture(x), &wanted)
}

/// Every strategy of both models, on a stream other than that of the parameters.
fn replays(backend: Backend) -> Outcome {
    let device = backend.device()?;
    let (home, stream) = (device.stream()?, device.stream()?);
    for (model, shape) in models(&home)? {
        for strategy in Strategy::all(model.graph()) {
            let options = strategy.options();
            let plan = model.plan(&stream, shape, &options)?;
            let x = Tensor::from_array(&stream, &input(0, shape))?;
            let mut captured = plan.capture(x)?;
            // Capturing does not run the launches.
            let untouched = captured.output().to_array::<f32>()?;
            assert!(untouched.iter().all(|&value| value == 0.0), "{strategy}");
            for seed in [1, 2, 1, 3] {
                let x = input(seed, shape);
                captured.write(&x)?;
                captured.replay()?;
                let wanted = plain(&model, &options, &x)?;
                assert_eq!(captured.output().to_array::<f32>()?, wanted, "{strategy}");
                // A second replay on the same input.
                captured.replay()?;
                assert_eq!(captured.output().to_array::<f32>()?, wanted, "{strategy}");
            }
        }
    }
    Ok(())
}

/// Graphs of both models on separate streams, all queued before waiting for any.
fn several_streams(backend: Backend) -> Outcome {
    fn rounds(device: &Device, model: &Model, shape: &[usize]) -> Outcome {
        let options = Options::default();
        let wanted: Vec<ArrayD<f32>> = (0..4)
            .map(|seed| plain(model, &options, &input(seed, shape)))
            .collect::<Result<_, _>>()?;
        let mut captured = Vec::new();
        for _ in 0..4 {
            let stream = device.stream()?;
            let x = Tensor::from_array(&stream, &input(0, shape))?;
            captured.push(model.plan(&stream, shape, &options)?.capture(x)?);
        }
        for round in 0..20 {
            let seed = |index: usize| (index + round) % wanted.len();
            for (index, captured) in captured.iter_mut().enumerate() {
                captured.write(&input(seed(index) as u64, shape))?;
            }
            for captured in &mut captured {
                captured.replay()?;
            }
            for (index, captured) in captured.iter().enumerate() {
                let got = captured.output().to_array::<f32>()?;
                assert_eq!(got, wanted[seed(index)], "round {round}, stream {index}");
            }
        }
        Ok(())
    }
    let device = backend.device()?;
    let home = device.stream()?;
    let [images, volumes] = models(&home)?;
    std::thread::scope(|scope| {
        let volumes = scope.spawn(|| rounds(&device, &volumes.0, volumes.1));
        rounds(&device, &images.0, images.1)?;
        let panicked = |_| Err(Failed::from("a thread panicked"));
        volumes.join().unwrap_or_else(panicked)
    })
}

/// A capture by direct driver calls, as by another library.
fn callers_capture(backend: Backend) -> Outcome {
    let device = backend.device()?;
    let (home, stream) = (device.stream()?, device.stream()?);
    let model = model_85(&home)?;
    let x = Tensor::from_array(&stream, &data::fill(4, IMAGES))?;
    let mut plan = model.plan(&stream, x.shape(), &Options::default())?;
    let mut y = plan.output()?;
    stream.synchronize()?;
    let raw = stream.as_raw()?.cast();
    let check = |call: &str, result: sys::CUresult| match result {
        sys::CUresult::CUDA_SUCCESS => Ok(()),
        error => Err(format!("{call}: {error:?}")),
    };
    let _context = cust::context::Context::new(cust::device::Device::get_device(0)?)?;
    let (mut graph, mut executable) = (null_mut(), null_mut());
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    // SAFETY: `raw` is the stream's live handle; the graph handles are written before they are used.
    let begun = unsafe { sys::cuStreamBeginCapture_v2(raw, mode) };
    check("cuStreamBeginCapture", begun)?;
    let queued = plan.execute(&x, &mut y);
    // SAFETY: as above; the graph refers to memory of plan, input and output, which outlive its last launch.
    unsafe {
        let ended = sys::cuStreamEndCapture(raw, &mut graph);
        check("cuStreamEndCapture", ended)?;
        queued?;
        let made = sys::cuGraphInstantiateWithFlags(&mut executable, graph, 0);
        check("cuGraphInstantiate", made)?;
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
