//! Captures: a graph cannot wait for work outside of it, and can contain neither allocations nor frees.

use std::ptr::null_mut;

use convfuse::graph::{Chain, Layer};
use convfuse::{DType, Error, Inputs, Model, Options, Stream, Tensor};
use ndarray::Array3;

use crate::driver::Driver;
use crate::things::*;

const SHAPE: [usize; 4] = [1, 2, 5, 5];

#[test]
fn a_capture_reads_of_other_streams_what_it_has_read_before() {
    late(|_, device, [home, stream]| {
        let model = model_of(&home, 2, Layer::clamp(-2.0, 2.0));
        let (mut plan, _, mut y) = planned(&model, &stream, &SHAPE);
        let x = input(&home, &SHAPE);
        // A read by a third stream is ordered with that stream only.
        let third = x.on(&device.stream().unwrap()).unwrap();
        third.to_array::<f32>().unwrap();
        model.forward(&third).unwrap();
        in_capture(&stream, || {
            let refused = plan.execute(&x, &mut y).unwrap_err();
            assert!(
                matches!(refused, Error::OtherStreamInCapture),
                "{refused:?}"
            );
        });
        plan.execute(&x, &mut y).unwrap();
        in_capture(&stream, || plan.execute(&x, &mut y).unwrap());
    });
}

#[test]
fn a_capture_of_the_home_stream_keeps_memory_and_refuses_readers() {
    late(|script, device, [home, reader]| {
        let (ones, mut back) = (array(&device, 1.0), array(&device, 0.0));
        let (x, dropped) = (tensor(&home, &ones), tensor(&home, &ones));
        in_capture(&home, || {
            is_in_capture(x.on(&reader).unwrap().copy_to_pinned(&mut back));
            is_in_capture(Tensor::from_pinned(&home, &ones));
            drop(dropped);
        });
        read(&x, &reader, &mut back);
        assert!(holds(&back, 1.0));
        let alive = script.alive(WITH_POOLS);
        assert!(alive.contains("allocations: 2"), "{alive}");
        // The next allocation reuses the memory.
        drop(tensor(&home, &ones));
        drop(x);
        let alive = script.alive(WITH_POOLS);
        assert!(!alive.contains("allocations"), "{alive}");
    });
}

/// A run with parameters of another stream is dropped in a capture of its own stream: nothing is overwritten
/// too early, and nothing leaks. `run` also returns objects that are dropped later.
fn dropped_in_a_capture<T, L>(
    script: Driver,
    [home, stream]: [Stream; 2],
    run: impl Fn(&Model, &Stream) -> (T, L),
) {
    let (used, later) = run(&model_of(&home, 2, Layer::scale("factor").into()), &stream);
    in_capture(&stream, || drop(used));
    let overwritten = Tensor::zeros(&home, &[2], DType::F32).unwrap();
    assert!(has(&overwritten, 0.0));
    stream.synchronize().unwrap();
    script.expect_no_violations();
    drop((later, overwritten, home, stream));
    let alive = script.alive(WITH_POOLS);
    let left = ["allocations", "executables"].map(|kind| alive.contains(kind));
    assert_eq!(left, [false; 2], "{alive}");
}

#[test]
fn parameters_outlive_what_a_plan_ran_before_the_capture_in_which_it_was_dropped() {
    late(|script, _, streams| {
        dropped_in_a_capture(script, streams, |model, stream| {
            let (mut plan, x, mut y) = planned(model, stream, &SHAPE);
            plan.execute(&x, &mut y).unwrap();
            (plan, (x, y))
        });
    });
}

#[test]
fn a_graph_may_be_dropped_in_a_capture_of_the_stream_that_it_was_launched_on() {
    late(|script, _, streams| {
        dropped_in_a_capture(script, streams, |model, stream| {
            let (plan, x, _) = planned(model, stream, &SHAPE);
            let mut graph = plan.capture(x).unwrap();
            graph.replay().unwrap();
            (graph, ())
        });
    });
}

#[test]
fn a_graph_takes_no_input_of_another_stream() {
    late(|_, _, [home, stream]| {
        let model = model_of(&home, 2, Layer::scale("factor").into());
        // A graph waits for no other stream, so a tensor that another stream still writes would be read too
        // early. A handle on the plan's stream does not change the owner of the memory.
        let theirs = Tensor::zeros(&home, &SHAPE, DType::F32).unwrap();
        for x in [theirs.clone(), theirs.on(&stream).unwrap()] {
            let (plan, _, _) = planned(&model, &stream, &SHAPE);
            let refused = plan.capture(x).err().map(|error| error.to_string());
            let says = "captured plan: the input belongs to another stream than the plan";
            assert_eq!(refused.as_deref(), Some(says));
        }
    });
}

#[test]
fn a_graph_refuses_the_inputs_that_its_plan_refuses() {
    late(|_, _, [_, stream]| {
        let model = model_of(&stream, 2, Layer::clamp(-2.0, 2.0));
        let zeros = |shape: &[usize], dtype| Tensor::zeros(&stream, shape, dtype).unwrap();
        let turned = zeros(&[1, 5, 5, 2], DType::F32).permute(&[0, 3, 1, 2]);
        for x in [
            zeros(&[1, 2, 5, 4], DType::F32),
            zeros(&SHAPE, DType::F16),
            turned.unwrap(),
        ] {
            let (mut plan, _, mut y) = planned(&model, &stream, &SHAPE);
            let refused = plan.execute(&x, &mut y).unwrap_err().to_string();
            let of_graph = plan.capture(x).map(drop).unwrap_err().to_string();
            assert_eq!(of_graph, format!("captured {refused}"));
        }
    });
}

#[test]
fn a_stream_is_named_in_its_capture_and_in_that_of_another() {
    late(|_, device, [home, theirs]| {
        let model = model_of(&home, 2, Layer::clamp(-2.0, 2.0));
        let x = input(&theirs, &SHAPE);
        let raw = theirs.as_raw().unwrap();
        let y = Tensor::zeros(&theirs, &SHAPE, DType::F32).unwrap();
        let launches = model.launches(&theirs, &x, &Options::default()).unwrap();
        in_capture(&theirs, || {
            // SAFETY: the stream outlives everything made of it.
            let named = unsafe { Stream::from_raw(&device, raw) }.unwrap();
            let _legacy = default_stream(&device, 1);
            assert!(named.is_capturing().unwrap());
            let (x, y) = (x.as_raw().unwrap(), y.as_raw().unwrap());
            // SAFETY: `x` has the layout of the launches' input and `y` of their output, and both belong to
            // the stream.
            unsafe { launches.run(&named, &[x], &[], &[y], null_mut()) }.unwrap();
        });
        // SAFETY: as above.
        let again = unsafe { Stream::from_raw(&device, raw) }.unwrap();
        x.on(&again).unwrap();
    });
}

#[test]
fn each_input_of_a_graph_is_written_by_its_name() {
    late(|_, device, [stream, _]| {
        let names = ["first", "second"];
        let chain = Chain::new(1, names.map(Layer::add)).unwrap();
        let model = Model::init(&stream, &chain, 1).unwrap();
        let shape = [1, 1, LEN];
        let plan = model.plan(&stream, &shape, &Options::default()).unwrap();
        let memory = [(); 3].map(|()| foreign(&device));
        let [x, first, second] =
            memory.map(|pointer| over(&stream, pointer).reshape(&shape).unwrap());
        let inputs = Inputs::new(x).with(names[0], first).with(names[1], second);
        let mut captured = plan.capture(inputs).unwrap();
        let values = |value: f32| Array3::from_elem(shape, value);
        captured.write(&values(1.0)).unwrap();
        captured.write_input(names[1], &values(3.0)).unwrap();
        captured.write_input(names[0], &values(2.0)).unwrap();
        for (pointer, value) in memory.into_iter().zip([1.0, 2.0, 3.0]) {
            assert!(has(&over(&stream, pointer), value), "{value}");
        }
    });
}
