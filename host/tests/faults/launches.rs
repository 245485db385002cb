//! Runs over memory that is passed to each run: everything that they need is made once, outside of captures,
//! and stays until all streams have read it.

use std::ptr::null_mut;

use convfuse::graph::presets::KernelBench79;
use convfuse::graph::{Chain, Graph, Layer};
use convfuse::model::Launches;
use convfuse::raw::RawPointer;
use convfuse::{DType, Error, InputsError, Model, Options, Result, Stream, Tensor};

use crate::driver::{Driver, Mode};
use crate::things::*;

const SHAPE: [usize; 5] = [2, 3, 5, 6, 7];

/// Returns a model over tensors of its stream, and launches for an input.
fn prepared(home: &Stream, stream: &Stream, x: &Tensor) -> (Model, Result<Launches>) {
    let chain = KernelBench79::default().chain().unwrap();
    let tensors = chain.parameters();
    let tensors = tensors.iter().map(|one| input(home, &one.shape)).collect();
    let model = Model::from_tensors(home, &chain, tensors, DType::F32).unwrap();
    let launches = model.launches(stream, x, &Options::default());
    (model, launches)
}

/// Returns the output of a run over memory of the stream.
pub(crate) fn run(launches: &Launches, stream: &Stream, x: RawPointer) -> Result<Tensor> {
    let (y, workspace) = outputs(launches, stream)?;
    // SAFETY: output and workspace are fresh tensors of the stream, which frees the workspace after the run.
    unsafe { launches.run(stream, &[x], &[], &[y.as_raw()?], workspace.as_raw()?)? };
    Ok(y)
}

/// Allocates an output and a workspace.
fn outputs(launches: &Launches, stream: &Stream) -> Result<(Tensor, Tensor)> {
    let words = launches.workspace_bytes().div_ceil(4) as usize;
    Ok((
        Tensor::zeros(stream, launches.output_shape(), launches.dtype())?,
        Tensor::zeros(stream, &[words], DType::F32)?,
    ))
}

#[test]
fn any_stream_runs_what_was_prepared_and_is_waited_for_when_it_goes() {
    late(|_, device, [home, other]| {
        let x = input(&home, &SHAPE);
        let others = [other, device.stream().unwrap()];
        let (model, launches) = prepared(&home, &others[0], &x);
        let launches = launches.unwrap();
        let at = others.each_ref().map(|stream| x.on(stream).unwrap());
        let outputs: Vec<Tensor> = (others.iter().zip(&at))
            .map(|(stream, x)| run(&launches, stream, x.as_raw().unwrap()).unwrap())
            .collect();
        // Prepared parameters are dropped before any queued work is complete; streams and foreign memory are
        // dropped after it.
        drop((launches, model));
        let next = Tensor::zeros(&home, &[1 << 16], DType::F32).unwrap();
        home.synchronize().unwrap();
        for stream in &others {
            stream.synchronize().unwrap();
        }
        drop((outputs, at, next));
    });
}

#[test]
fn captures_refuse_to_prepare_and_take_what_was_prepared() {
    late(|_, _, [home, stream]| {
        let x = input(&home, &SHAPE);
        let raw = x.on(&stream).unwrap().as_raw().unwrap();
        in_capture(&stream, || {
            assert!(stream.is_capturing().unwrap() && !home.is_capturing().unwrap());
            is_in_capture(prepared(&home, &stream, &x).1);
        });
        let (_model, launches) = prepared(&home, &home, &x);
        let launches = launches.unwrap();
        let (y, space) = outputs(&launches, &stream).unwrap();
        let (output, workspace) = (y.as_raw().unwrap(), space.as_raw().unwrap());
        // SAFETY: all memory is the stream's own, and stays until the graph is gone. This first run of the
        // stream is in a capture.
        captured(&stream, || unsafe {
            launches.run(&stream, &[raw], &[], &[output], workspace)
        })
        .unwrap();
    });
}

#[test]
fn launches_that_are_given_parameters_take_no_memory_wait_for_nothing_and_run_in_captures() {
    late(|script, _, [stream, _]| {
        let conv = Layer::conv2d("conv", 64, 3);
        let chain = Chain::new(64, (conv, Layer::group_norm("norm", 8))).unwrap();
        let x = input(&stream, &[2, 64, 33, 40]);
        let parameters = chain.parameters().iter();
        let parameters: Vec<Tensor> = parameters.map(|one| input(&stream, &one.shape)).collect();
        let made = || Launches::functional(&stream, &chain, &x, &parameters, &Options::default());
        in_capture(&stream, || is_in_capture(made()));
        let calls = || {
            let launched = ["cuLaunchKernel", "cuLaunchKernelEx"].map(|call| script.count(call));
            let others = ["cuMemAllocFromPoolAsync", "cuStreamSynchronize"];
            let [allocated, waited] = others.map(|call| script.count(call));
            [allocated, waited, launched.iter().sum()]
        };
        let before = calls();
        let launches = made().unwrap();
        assert_eq!(calls(), before);
        let kernels = launches.explain().unwrap().launches;
        assert!(
            kernels
                .iter()
                .any(|one| one.kernel.starts_with("implicit_gemm_filters"))
        );
        let (y, space) = outputs(&launches, &stream).unwrap();
        let (output, workspace) = (y.as_raw().unwrap(), space.as_raw().unwrap());
        let address = |tensor: &Tensor| tensor.as_raw().unwrap();
        let (inputs, given) = ([address(&x)], parameters.iter().map(address));
        let given: Vec<RawPointer> = given.collect();
        // SAFETY: all memory is the stream's own, and stays until the graph is gone.
        let run = || unsafe { launches.run(&stream, &inputs, &given, &[output], workspace) };
        let before = calls();
        run().unwrap();
        let [allocated, waited, launched] = before;
        assert_eq!(
            calls(),
            [allocated, waited, launched + kernels.len() as u32]
        );
        captured(&stream, run).unwrap();
    });
}

#[test]
fn a_recorded_run_is_one_call_and_frees_its_graph_behind_it() {
    late(|script, _, [home, stream]| {
        let x = input(&home, &SHAPE);
        let raw = x.on(&stream).unwrap().as_raw().unwrap();
        let (model, launches) = prepared(&home, &stream, &x);
        let launches = launches.unwrap();
        let (y, space) = outputs(&launches, &stream).unwrap();
        let (output, workspace) = (y.as_raw().unwrap(), space.as_raw().unwrap());
        let launched = || {
            let calls = ["cuLaunchKernel", "cuLaunchKernelEx"].map(|call| script.count(call));
            (calls.iter().sum::<u32>(), script.count("cuGraphLaunch"))
        };
        assert_eq!(
            launches.kernels(),
            launches.explain().unwrap().launches.len()
        );
        // SAFETY: all memory is the streams' own, and stays until the work is done.
        let recorded = unsafe { launches.record(&stream, &[raw], &[], &[output], workspace) };
        let mut recorded = recorded.unwrap();
        // Later recordings leave no stream behind with the launches.
        let alive = || script.alive(home.device().ordinal().unwrap());
        let before = alive();
        // SAFETY: as above.
        let again = unsafe { launches.record(&stream, &[raw], &[], &[output], workspace) };
        drop(again.unwrap());
        assert_eq!(alive(), before);
        // The recording outlives the launches and the model that it was made of. What they give back in the
        // order of the model's stream is gone after the wait.
        drop((launches, model));
        home.synchronize().unwrap();
        let (kernels, graphs) = launched();
        for _ in 0..3 {
            // SAFETY: as above.
            unsafe { recorded.launch() }.unwrap();
        }
        assert_eq!(launched(), (kernels, graphs + 3));
        drop(recorded);
        script.fail_next("cuGraphInstantiateWithFlags", 2);
        let (_model, launches) = prepared(&home, &stream, &x);
        // SAFETY: as above.
        let failed = unsafe {
            launches
                .unwrap()
                .record(&stream, &[raw], &[], &[output], workspace)
        };
        assert!(failed.is_err());
        stream.synchronize().unwrap();
    });
}

#[test]
fn runs_of_many_launches_are_captured_on_several_streams() {
    late(|script, _, [stream, other]| {
        let conv = |name: String| Layer::conv2d(&name, 64, 3).padding(1).into();
        let layers: Vec<Layer> = (0..6).map(|index| conv(format!("conv{index}"))).collect();
        let mut graph = Graph::builder("x", 64);
        for (index, layer) in layers.into_iter().enumerate() {
            let before = match index {
                0 => "x".to_owned(),
                _ => format!("y{}", index - 1),
            };
            graph = graph.layer(format!("y{index}"), before, layer);
        }
        let graph = graph.build("y5").unwrap();
        let x = input(&stream, &[2, 64, 33, 40]);
        let parameters = graph.parameters().iter();
        let parameters: Vec<Tensor> = parameters.map(|one| input(&stream, &one.shape)).collect();
        let options = Options::default();
        let launches = Launches::functional(&stream, &graph, &x, &parameters, &options).unwrap();
        assert!(launches.kernels() >= 8, "{}", launches.kernels());
        let (y, space) = outputs(&launches, &stream).unwrap();
        let (output, workspace) = (y.as_raw().unwrap(), space.as_raw().unwrap());
        let address = |tensor: &Tensor| tensor.as_raw().unwrap();
        let given: Vec<RawPointer> = parameters.iter().map(address).collect();
        // SAFETY: all memory is the stream's own, and stays until the graphs are gone.
        let run =
            |on: &Stream| unsafe { launches.run(on, &[address(&x)], &given, &[output], workspace) };
        run(&stream).unwrap();
        let made = script.count("cuStreamCreateWithPriority");
        for _ in 0..3 {
            // Later captures use the streams of the first.
            captured(&stream, || run(&stream)).unwrap();
            assert_eq!(script.count("cuStreamCreateWithPriority"), made + 3);
        }
        // Two runs in one capture, and two captures at one time.
        captured(&stream, || {
            run(&stream)?;
            run(&stream)?;
            captured(&other, || run(&other)).map(drop)
        })
        .unwrap();
        // A capture that fails leaves the streams usable.
        for launch in 1..5 {
            let call = "cuLaunchKernel";
            script.fail(call, script.count(call) + launch, 1);
            in_capture(&stream, || assert!(run(&stream).is_err()));
        }
        captured(&stream, || run(&stream)).unwrap();
    });
}

/// Launches that do not depend on each other use all streams, and each stream joins the capture's.
#[test]
fn all_streams_of_a_capture_join_its_own() {
    late(|script, _, [stream, _]| {
        let mut graph = Graph::builder("x", 4);
        for index in 0..9 {
            graph = graph.layer(format!("y{index}"), "x", Layer::clamp(0.0, 1.0));
            if index < 8 {
                graph = graph.output(format!("y{index}"));
            }
        }
        let graph = graph.build("y8").unwrap();
        let x = input(&stream, &[2, 4, LEN]);
        let options = Options::default();
        let launches = Launches::functional(&stream, &graph, &x, &[], &options).unwrap();
        let ys = launches.outputs().map(|(shape, _)| input(&stream, shape));
        let ys: Vec<Tensor> = ys.collect();
        let address = |tensor: &Tensor| tensor.as_raw().unwrap();
        let ys: Vec<RawPointer> = ys.iter().map(address).collect();
        let x = [address(&x)];
        // SAFETY: all memory is the stream's own, and stays until the graph is gone.
        let run = || unsafe { launches.run(&stream, &x, &[], &ys, null_mut()) };
        captured(&stream, run).unwrap();
        // The capture's stream waits for the three others.
        assert_eq!(script.count("cuStreamWaitEvent"), 6);
    });
}

/// The descriptions of the tensor maps of a channels-last convolution of these channels, and its launches.
fn described(script: Driver, stream: &Stream, channels: usize, rows: usize) -> String {
    script.begin(Mode::Late);
    let conv = Layer::conv2d("conv", 72, [3, 5]);
    let conv = conv.stride([1, 2]).padding([1, 2]).dilation([2, 1]);
    let chain = Chain::new(channels, [conv]).unwrap();
    let tensors = chain.parameters().iter();
    let half = |shape: &[usize]| Tensor::zeros(stream, shape, DType::F16).unwrap();
    let tensors = tensors.map(|one| half(&one.shape)).collect();
    let model = Model::from_tensors(stream, &chain, tensors, DType::F16).unwrap();
    let x = half(&[2, rows, 40, channels]).permute(&[0, 3, 1, 2]);
    model.forward(&x.unwrap()).unwrap();
    script.log(stream.device().ordinal().unwrap())
}

/// Tensor maps have columns, rows and slices in this order, and a swizzle as wide as their lines.
#[test]
fn tensor_maps_are_described_to_the_driver() {
    late(|script, _, [stream, _]| {
        for (channels, swizzle) in [(64, 3), (32, 2), (16, 1)] {
            let bytes = |pixels: usize| 2 * channels * pixels;
            let (row, sample) = (bytes(40), bytes(33 * 40));
            let windows = format!(
                "windows of type 1, swizzle {swizzle}: [{channels}, 40, 33, 1, 2] by [{}, {row}, {sample}, \
                 {sample}], from [-2, -1, 0] to [-3, -3, 0] by [1, 2, 1, 1, 1], {channels} channels of 64 \
                 pixels",
                bytes(1)
            );
            let (filter, filters) = (bytes(15), bytes(15 * 72));
            let of_filters = format!(
                "boxes of type 1, swizzle {swizzle}: [{channels}, 15, 72, 1, 1] by [{}, {filter}, {filters}, \
                 {filters}], [{channels}, 1, 64, 1, 1] by [1, 1, 1, 1, 1]",
                bytes(1)
            );
            let of_results = "boxes of type 1, swizzle 3: [72, 1240, 1, 1, 1] by [144, 178560, 178560, \
                 178560], [64, 64, 1, 1, 1] by [1, 1, 1, 1, 1]";
            let log = described(script, &stream, channels, 33);
            for map in [&windows, &of_filters, of_results] {
                assert!(log.lines().any(|line| line == map), "no {map} in {log}");
            }
        }
    });
}

/// Old drivers set a bit of small maps that devices must not see.
#[test]
fn a_bit_of_small_tensor_maps_is_cleared_for_old_drivers() {
    late(|script, _, [stream, _]| {
        // All bits of a word but one, as its bytes.
        let is_cleared = |rows| {
            let log = described(script, &stream, 64, rows);
            log.contains("[255, 255, 223, 255, 255, 255, 255, 255]")
        };
        // A sample of 12 or 13 rows, of 40 pixels of 64 channels each: two are 122,880 or 133,120 bytes.
        for (version, rows, expected) in [
            (12_080, 12, true),
            (13_010, 12, true),
            (13_010, 13, false),
            (13_020, 12, false),
        ] {
            script.version(version);
            assert_eq!(is_cleared(rows), expected, "{version}, {rows} rows");
        }
    });
}

#[test]
fn another_number_of_inputs_is_refused() {
    late(|_, _, [home, _]| {
        let (_model, launches) = prepared(&home, &home, &input(&home, &SHAPE));
        // SAFETY: the run is refused before it uses an address.
        let refused = unsafe {
            launches
                .unwrap()
                .run(&home, &[], &[], &[null_mut()], null_mut())
        };
        let Err(Error::Inputs(InputsError::Count {
            actual, expected, ..
        })) = refused
        else {
            panic!("{refused:?}");
        };
        assert_eq!((actual, expected), (0, 1));
    });
}

#[test]
fn clusters_are_launched_by_a_function_of_their_own_whose_failure_is_told() {
    late(|script, _, [stream, _]| {
        // Sums are split over the blocks of a cluster (split-K).
        let conv = Layer::conv2d("conv", 256, 3);
        let chain = Chain::new(256, (conv, Layer::group_norm("norm", 32))).unwrap();
        let model = Model::init(&stream, &chain, 1).unwrap();
        let x = input(&stream, &[2, 256, 15, 21]);
        model.forward(&x).unwrap();
        assert!(
            script.count("cuLaunchKernelEx") > 0,
            "no launch in clusters"
        );
        script.fail_next("cuLaunchKernelEx", 1);
        let failed = model.forward(&x).err();
        let Some(Error::Driver(error)) = failed else {
            panic!("{failed:?}");
        };
        assert_eq!((error.call, error.code), ("cuLaunchKernelEx", 1));
    });
}
