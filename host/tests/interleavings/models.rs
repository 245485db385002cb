//! Several threads plan, run and capture models, and send arrays through them.

use convfuse::graph::Layer;
use convfuse::graph::presets::KernelBench85;
use convfuse::{DType, Model, Options, PinnedArray, Stream, Tensor, lab};
use ndarray::ArrayD;
use shuttle::thread;

use super::{device, explore};
use crate::driver::Driver;
use crate::things::{LEN, WITH_POOLS, holds, model_of};

/// A model with the one kernel that the driver executes.
fn clamp(stream: &Stream) -> Model {
    model_of(stream, 1, Layer::clamp(-2.0, 0.5))
}

fn ones(stream: &Stream) -> Tensor {
    let ones = ArrayD::ones(vec![1, 1, 1, LEN]);
    Tensor::from_array::<f32, _, _>(stream, &ones).unwrap()
}

fn model_85(stream: &Stream) -> Model {
    Model::init(stream, KernelBench85::default().chain().unwrap(), 1).unwrap()
}

fn prepared_once(script: Driver) {
    let log = script.log(WITH_POOLS);
    assert_eq!(log.matches("implicit_gemm_filters").count(), 1, "{log}");
}

/// Two threads plan for different batches, whose programs read the same prepared parameters. The first thread
/// prepares them on its stream, and both read them. Then plans and model are dropped, in any order.
#[test]
fn parameters_are_prepared_once_and_outlive_their_readers() {
    explore(10, |script| {
        let device = device();
        let home = device.stream().unwrap();
        let model = model_85(&home);
        thread::scope(|scope| {
            for samples in [2, 3] {
                let (model, device) = (model.clone(), &device);
                scope.spawn(move || {
                    let (stream, shape) = (device.stream().unwrap(), [samples, 8, 11, 14]);
                    let mut plan = model.plan(&stream, &shape, &Options::default()).unwrap();
                    drop(model);
                    let x = Tensor::zeros(&stream, &shape, DType::F32).unwrap();
                    let mut y = plan.output().unwrap();
                    plan.execute(&x, &mut y).unwrap();
                });
            }
            drop(model);
        });
        home.synchronize().unwrap();
        prepared_once(script);
    });
}

/// Several threads request one program, and building it fails for the first: it gets the error, and the
/// others build it.
#[test]
fn a_program_that_cannot_be_made_fails_for_one_thread_alone() {
    explore(10, |script| {
        let device = device();
        let model = model_85(&device.stream().unwrap());
        script.fail("cuModuleGetFunction", 1, 304);
        let failed = thread::scope(|scope| {
            let run = || {
                let stream = device.stream().unwrap();
                let x = Tensor::zeros(&stream, &[2, 8, 11, 14], DType::F32).unwrap();
                model.forward(&x).is_err()
            };
            let threads = [scope.spawn(run), scope.spawn(run), scope.spawn(run)];
            threads.map(|thread| thread.join().unwrap())
        });
        assert_eq!(failed.iter().filter(|&&failed| failed).count(), 1);
        prepared_once(script);
    });
}

/// A graph is captured while another plan runs on the same stream, and memory of that stream is allocated and
/// freed.
#[test]
fn a_capture_is_nobody_elses_business() {
    explore(150, |_| {
        let device = device();
        let stream = device.stream().unwrap();
        let model = clamp(&stream);
        let back = || PinnedArray::<f32>::zeros(&device, &[1, 1, 1, LEN]).unwrap();
        let mut backs = [back(), back()];
        let [first, second] = &mut backs;
        thread::scope(|scope| {
            scope.spawn(|| {
                let x = ones(&stream);
                let plan = model.plan_for(&stream, &x, &Options::default()).unwrap();
                let mut captured = plan.capture(x).unwrap();
                captured.replay().unwrap();
                let y = captured.output().slice(0..1).unwrap();
                y.copy_to_pinned(first).unwrap();
            });
            scope.spawn(|| {
                let x = ones(&stream);
                model.forward(&x).unwrap().copy_to_pinned(second).unwrap();
            });
        });
        assert!(backs.iter().all(|back| holds(back, 0.5)));
    });
}

/// Two threads send arrays through one model in chunks, and a third trims the model's memory.
#[test]
fn each_chunk_of_an_array_has_a_place_to_itself() {
    explore(15, |_| {
        let device = device();
        let model = clamp(&device.stream().unwrap());
        let shape = vec![9, 1, 1, 1 << 15];
        let pass = |value: f32| {
            let x = ArrayD::from_elem(shape.clone(), value);
            let mut y = ArrayD::zeros(shape.clone());
            lab::forward_array_cut(&model, &x, &mut y, 1 << 19, 2).unwrap();
            assert!(y.iter().all(|&y| y == value));
        };
        thread::scope(|scope| {
            scope.spawn(|| pass(0.25));
            scope.spawn(|| pass(-0.25));
            scope.spawn(|| model.trim_memory());
        });
    });
}
