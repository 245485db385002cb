//! Runs over memory that each is given: what they need is made once, outside of captures, and stays until
//! streams have read it.

use convfuse::graph::presets::KernelBench79;
use convfuse::model::Launches;
use convfuse::raw::RawPointer;
use convfuse::{DType, Device, Error, InputsError, Model, Options, Stream, Tensor, data};
use cust::sys::CUresult;

use crate::captures::captured;
use crate::ordering::{WITH_POOLS, late};

const SHAPE: [usize; 5] = [2, 3, 5, 6, 7];

/// A model over tensors of its stream, and launches for an input.
fn prepared(home: &Stream, stream: &Stream, x: &Tensor) -> (Model, convfuse::Result<Launches>) {
    let chain = KernelBench79::default().chain().unwrap();
    let values = chain.parameters().iter().enumerate();
    let tensors = values.map(|(seed, parameter)| {
        let values = data::fill(seed as u64, &parameter.shape[..]);
        Tensor::from_array(home, &values).unwrap()
    });
    let model = Model::from_tensors(home, &chain, tensors.collect(), DType::F32).unwrap();
    let launches = model.launches(stream, x, &Options::default());
    (model, launches)
}

/// The output of a run over memory of the stream.
pub(crate) fn run(launches: &Launches, stream: &Stream, x: RawPointer) -> convfuse::Result<Tensor> {
    let y = Tensor::zeros(stream, launches.output_shape(), launches.dtype())?;
    let words = launches.workspace_bytes().div_ceil(4) as usize;
    let workspace = Tensor::zeros(stream, &[words], DType::F32)?;
    // SAFETY: output and workspace are fresh tensors of the stream, which gives the workspace back behind the
    // run.
    unsafe { launches.run(stream, &[x], y.as_raw()?, workspace.as_raw()?)? };
    Ok(y)
}

fn input(device: &Device) -> (Stream, Tensor) {
    let stream = device.stream().unwrap();
    let x = Tensor::from_array(&stream, &data::fill(1, SHAPE)).unwrap();
    (stream, x)
}

#[test]
fn any_stream_runs_what_was_prepared_and_is_waited_for_when_it_goes() {
    let test = "launches::any_stream_runs_what_was_prepared_and_is_waited_for_when_it_goes";
    let Some((script, device)) = late(test, WITH_POOLS) else {
        return;
    };
    let (home, x) = input(&device);
    let others = [(); 2].map(|()| device.stream().unwrap());
    let (model, launches) = prepared(&home, &others[0], &x);
    let launches = launches.unwrap();
    let at = others.each_ref().map(|stream| x.on(stream).unwrap());
    let outputs: Vec<Tensor> = (others.iter().zip(&at))
        .map(|(stream, x)| run(&launches, stream, x.as_raw().unwrap()).unwrap())
        .collect();
    // What was prepared goes before anything that was queued is done; the streams, and memory for others,
    // after it.
    drop((launches, model));
    let next = Tensor::zeros(&home, &[1 << 16], DType::F32).unwrap();
    home.synchronize().unwrap();
    for stream in &others {
        stream.synchronize().unwrap();
    }
    drop((outputs, at, next));
    script.expect_no_violations();
}

#[test]
fn captures_refuse_to_prepare_and_take_what_was_prepared() {
    let test = "launches::captures_refuse_to_prepare_and_take_what_was_prepared";
    let Some((script, device)) = late(test, WITH_POOLS) else {
        return;
    };
    let (home, x) = input(&device);
    let stream = device.stream().unwrap();
    let raw = x.on(&stream).unwrap().as_raw().unwrap();
    let ended = captured(&device, &stream, || {
        assert!(stream.is_capturing().unwrap() && !home.is_capturing().unwrap());
        let (_, refused) = prepared(&home, &stream, &x);
        assert!(
            matches!(refused, Err(Error::InCapture { .. })),
            "{refused:?}"
        );
    });
    assert_eq!(ended, CUresult::CUDA_SUCCESS);
    let (_model, launches) = prepared(&home, &home, &x);
    let launches = launches.unwrap();
    let y = Tensor::zeros(&stream, launches.output_shape(), DType::F32).unwrap();
    let words = launches.workspace_bytes().div_ceil(4) as usize;
    let workspace = Tensor::zeros(&stream, &[words], DType::F32).unwrap();
    let (output, workspace) = (y.as_raw().unwrap(), workspace.as_raw().unwrap());
    // The stream's first run of it is one in a capture.
    let ended = captured(&device, &stream, || {
        // SAFETY: all memory is the stream's own, and stays until the graph is gone.
        unsafe { launches.run(&stream, &[raw], output, workspace).unwrap() };
    });
    assert_eq!(ended, CUresult::CUDA_SUCCESS);
    script.expect_no_violations();
}

#[test]
fn another_number_of_inputs_is_refused() {
    let test = "launches::another_number_of_inputs_is_refused";
    let Some((script, device)) = late(test, WITH_POOLS) else {
        return;
    };
    let (home, x) = input(&device);
    let (_model, launches) = prepared(&home, &home, &x);
    let launches = launches.unwrap();
    let nothing = std::ptr::null_mut();
    // SAFETY: it is refused before an address is used.
    let refused = unsafe { launches.run(&home, &[], nothing, nothing) };
    assert!(
        matches!(
            refused,
            Err(Error::Inputs(InputsError::Count {
                actual: 0,
                expected: 1,
                ..
            }))
        ),
        "{refused:?}"
    );
    script.expect_no_violations();
}
