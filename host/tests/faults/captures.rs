//! Captures: a graph can wait for nothing outside of it, and holds neither allocations nor their end.

use std::ptr::null_mut;

use convfuse::graph::{Chain, Layer};
use convfuse::spec::{ClampSpec, PointwiseSpec};
use convfuse::{DType, Device, Error, Inputs, Model, Options, Stream, Tensor, data};
use cust::sys::{self, CUresult};
use ndarray::Array3;

use crate::ordering::{Current, LEN, WITH_POOLS, array, holds, late, tensor};
use crate::others::{foreign, over};

/// What `work` does on a stream in capture, by the driver's own calls, and how the capture ends.
pub(crate) fn captured(device: &Device, stream: &Stream, work: impl FnOnce()) -> CUresult {
    let _current = Current::of(device);
    let (raw, mut graph) = (stream.as_raw().unwrap().cast(), null_mut());
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    // SAFETY: the stream is alive, `graph` is a place for one handle; nothing else has the graph.
    unsafe {
        let begun = sys::cuStreamBeginCapture_v2(raw, mode);
        assert_eq!(begun, CUresult::CUDA_SUCCESS);
        work();
        let ended = sys::cuStreamEndCapture(raw, &mut graph);
        if !graph.is_null() {
            sys::cuGraphDestroy(graph);
        }
        ended
    }
}

#[test]
fn a_capture_reads_of_other_streams_what_it_has_read_before() {
    let test = "captures::a_capture_reads_of_other_streams_what_it_has_read_before";
    let Some((script, device)) = late(test, WITH_POOLS) else {
        return;
    };
    let (home, stream) = (device.stream().unwrap(), device.stream().unwrap());
    let clamp = Layer::Pointwise(PointwiseSpec::Clamp(ClampSpec::new(-2.0, 2.0)));
    let model = Model::init(&home, Chain::new(2, [clamp]).unwrap(), 1).unwrap();
    let mut plan = model
        .plan(&stream, &[1, 2, 5, 5], &Options::default())
        .unwrap();
    let mut y = plan.output().unwrap();
    let x = Tensor::from_array(&home, &data::fill(1, [1, 2, 5, 5])).unwrap();
    // That a third stream has read it is in the order of that stream alone.
    let third = x.on(&device.stream().unwrap()).unwrap();
    third.to_array::<f32>().unwrap();
    model.forward(&third).unwrap();
    let ended = captured(&device, &stream, || {
        let refused = plan.execute(&x, &mut y);
        assert!(
            matches!(refused, Err(Error::OtherStreamInCapture)),
            "{refused:?}"
        );
    });
    assert_eq!(ended, CUresult::CUDA_SUCCESS);
    plan.execute(&x, &mut y).unwrap();
    let ended = captured(&device, &stream, || plan.execute(&x, &mut y).unwrap());
    assert_eq!(ended, CUresult::CUDA_SUCCESS);
    script.expect_no_violations();
}

#[test]
fn a_capture_of_the_home_stream_keeps_memory_and_refuses_readers() {
    let test = "captures::a_capture_of_the_home_stream_keeps_memory_and_refuses_readers";
    let Some((script, device)) = late(test, WITH_POOLS) else {
        return;
    };
    let (home, reader) = (device.stream().unwrap(), device.stream().unwrap());
    let ones = array(&device, 1.0);
    let mut back = array(&device, 0.0);
    let (x, dropped) = (tensor(&home, &ones), tensor(&home, &ones));
    let ended = captured(&device, &home, || {
        let refused = x.on(&reader).unwrap().copy_to_pinned(&mut back);
        assert!(
            matches!(refused, Err(Error::InCapture { .. })),
            "{refused:?}"
        );
        let refused = Tensor::from_pinned(&home, &ones);
        assert!(
            matches!(refused, Err(Error::InCapture { .. })),
            "{refused:?}"
        );
        drop(dropped);
    });
    assert_eq!(ended, CUresult::CUDA_SUCCESS);
    x.on(&reader).unwrap().copy_to_pinned(&mut back).unwrap();
    assert!(holds(&back, 1.0));
    assert!(
        script.alive(0).contains("allocations: 2"),
        "{}",
        script.alive(0)
    );
    // The next allocation finds the memory.
    drop(tensor(&home, &ones));
    drop(x);
    assert!(
        !script.alive(0).contains("allocations"),
        "{}",
        script.alive(0)
    );
    script.expect_no_violations();
}

/// What a plan on a stream of its own runs: its parameters and its input.
fn scaled(home: &Stream, stream: &Stream) -> (convfuse::Plan, Tensor, Tensor) {
    let chain = Chain::new(2, [Layer::scale("factor")]).unwrap();
    let model = Model::init(home, &chain, 1).unwrap();
    let options = Options::default();
    let plan = model.plan(stream, &[1, 2, 5, 5], &options).unwrap();
    let x = Tensor::from_array(stream, &data::fill(1, [1, 2, 5, 5])).unwrap();
    let y = plan.output().unwrap();
    (plan, x, y)
}

#[test]
fn parameters_outlive_what_a_plan_ran_before_the_capture_in_which_it_was_dropped() {
    let test =
        "captures::parameters_outlive_what_a_plan_ran_before_the_capture_in_which_it_was_dropped";
    let Some((script, device)) = late(test, WITH_POOLS) else {
        return;
    };
    let (home, stream) = (device.stream().unwrap(), device.stream().unwrap());
    let (mut plan, x, mut y) = scaled(&home, &stream);
    plan.execute(&x, &mut y).unwrap();
    // With the plan goes its model.
    let ended = captured(&device, &stream, || drop(plan));
    assert_eq!(ended, CUresult::CUDA_SUCCESS);
    let overwritten = Tensor::zeros(&home, &[2], convfuse::DType::F32).unwrap();
    overwritten.to_array::<f32>().unwrap();
    stream.synchronize().unwrap();
    script.expect_no_violations();
    drop((x, y, overwritten, home, stream));
    assert!(!script.alive(0).contains("allocations"));
}

#[test]
fn a_graph_takes_no_input_of_another_stream() {
    let test = "captures::a_graph_takes_no_input_of_another_stream";
    let Some((script, device)) = late(test, WITH_POOLS) else {
        return;
    };
    let (home, stream) = (device.stream().unwrap(), device.stream().unwrap());
    let (plan, x, y) = scaled(&home, &stream);
    // A graph waits for no other stream, so what that still writes would be read too early.
    let theirs = Tensor::zeros(&home, x.shape(), x.dtype()).unwrap();
    drop((x, y));
    let refused = plan.capture(theirs);
    assert!(
        matches!(
            refused,
            Err(Error::TensorInUse {
                argument: "input",
                ..
            })
        ),
        "{refused:?}"
    );
    script.expect_no_violations();
}

#[test]
fn a_graph_may_be_dropped_in_a_capture_of_the_stream_that_it_was_launched_on() {
    let test =
        "captures::a_graph_may_be_dropped_in_a_capture_of_the_stream_that_it_was_launched_on";
    let Some((script, device)) = late(test, WITH_POOLS) else {
        return;
    };
    let (home, stream) = (device.stream().unwrap(), device.stream().unwrap());
    let (plan, x, y) = scaled(&home, &stream);
    drop(y);
    let mut graph = plan.capture(x).unwrap();
    graph.replay().unwrap();
    let ended = captured(&device, &stream, || drop(graph));
    assert_eq!(ended, CUresult::CUDA_SUCCESS);
    let overwritten = Tensor::zeros(&home, &[2], convfuse::DType::F32).unwrap();
    overwritten.to_array::<f32>().unwrap();
    stream.synchronize().unwrap();
    script.expect_no_violations();
    drop((overwritten, home, stream));
    let alive = script.alive(0);
    assert!(
        !alive.contains("allocations") && !alive.contains("executables"),
        "{alive}"
    );
}

#[test]
fn a_stream_is_named_in_its_capture_and_in_that_of_another() {
    let test = "captures::a_stream_is_named_in_its_capture_and_in_that_of_another";
    let Some((script, device)) = late(test, WITH_POOLS) else {
        return;
    };
    let home = device.stream().unwrap();
    let clamp = Layer::Pointwise(PointwiseSpec::Clamp(ClampSpec::new(-2.0, 2.0)));
    let model = Model::init(&home, Chain::new(2, [clamp]).unwrap(), 1).unwrap();
    let theirs = device.stream().unwrap();
    let x = Tensor::from_array(&theirs, &data::fill(1, [1, 2, 5, 5])).unwrap();
    let raw = theirs.as_raw().unwrap();
    let y = Tensor::zeros(&theirs, &[1, 2, 5, 5], DType::F32).unwrap();
    let launches = model.launches(&theirs, &x, &Options::default()).unwrap();
    let ended = captured(&device, &theirs, || {
        // SAFETY: both streams outlive what is made of them.
        let (named, _legacy) = unsafe {
            let legacy = Stream::from_raw(&device, std::ptr::without_provenance_mut(1));
            (Stream::from_raw(&device, raw).unwrap(), legacy.unwrap())
        };
        assert!(named.is_capturing().unwrap());
        let (x, y) = (x.as_raw().unwrap(), y.as_raw().unwrap());
        // SAFETY: x lies as the launches' input, y as their output, and both are of the stream.
        unsafe { launches.run(&named, &[x], y, null_mut()) }.unwrap();
    });
    assert_eq!(ended, CUresult::CUDA_SUCCESS);
    // SAFETY: as above.
    let again = unsafe { Stream::from_raw(&device, raw) }.unwrap();
    x.on(&again).unwrap();
    drop((launches, y, x));
    script.expect_no_violations();
}

#[test]
fn each_input_of_a_graph_is_written_by_its_name() {
    let test = "captures::each_input_of_a_graph_is_written_by_its_name";
    let Some((script, device)) = late(test, WITH_POOLS) else {
        return;
    };
    let stream = device.stream().unwrap();
    let names = ["first", "second"];
    let chain = Chain::new(1, names.map(Layer::add)).unwrap();
    let model = Model::init(&stream, &chain, 1).unwrap();
    let shape = [1, 1, LEN];
    let plan = model.plan(&stream, &shape, &Options::default()).unwrap();
    let memory = [(); 3].map(|()| foreign(&device));
    let [x, first, second] = memory.map(|pointer| over(&stream, pointer).reshape(&shape).unwrap());
    let inputs = Inputs::new(x).with(names[0], first).with(names[1], second);
    let mut captured = plan.capture(inputs).unwrap();
    let values = |value: f32| Array3::from_elem(shape, value);
    captured.write(&values(1.0)).unwrap();
    captured.write_input(names[1], &values(3.0)).unwrap();
    captured.write_input(names[0], &values(2.0)).unwrap();
    let held = memory.map(|pointer| over(&stream, pointer).to_array::<f32>().unwrap().sum());
    assert_eq!(held, [1.0, 2.0, 3.0].map(|value| value * LEN as f32));
    drop(captured);
    script.expect_no_violations();
}
