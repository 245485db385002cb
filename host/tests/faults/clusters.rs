//! A launch whose clusters the launch itself describes goes through a function of the driver of its own.

use convfuse::graph::{Chain, ConvLayer, Layer};
use convfuse::{Device, Error, Model, Result, data};
use ndarray::{ArrayD, IxDyn};

use crate::driver::{Script, Work, scripted};

/// `CUDA_ERROR_INVALID_VALUE`, which passes.
const INVALID_VALUE: u32 = 1;

/// Runs a convolution whose sums the blocks of clusters split.
fn run() -> Result<ArrayD<f32>> {
    let device = Device::gpu(0)?;
    let stream = device.stream()?;
    let conv = Layer::conv2d(ConvLayer::new("conv", 256, [3, 3]));
    let chain = Chain::new(256, [conv, Layer::group_norm("norm", 32)]).expect("a chain");
    let model = Model::init(&stream, &chain, 1)?;
    let input = data::fill(1, IxDyn(&[2, 256, 15, 21]));
    model.forward_array(&input)
}

fn calls(script: &Script) -> u32 {
    let counts = script.counts();
    let of = |(name, count): &(String, u32)| (name == "cuLaunchKernelEx").then_some(*count);
    counts.iter().find_map(of).unwrap_or(0)
}

#[test]
fn clusters_are_launched_by_a_function_of_their_own_whose_failure_is_told() {
    let Some(script) = scripted(
        "clusters::clusters_are_launched_by_a_function_of_their_own_whose_failure_is_told",
    ) else {
        return;
    };
    script.begin(Work::AtOnce);
    run().expect("the driver knows clusters");
    let made = calls(&script);
    assert!(made > 0, "no launch in clusters");
    script.expect_no_violations();
    script.begin(Work::AtOnce);
    script.fail("cuLaunchKernelEx", 1, INVALID_VALUE);
    let Err(Error::Driver(error)) = run() else {
        panic!("a call that failed gave a result");
    };
    assert_eq!(error.call, "cuLaunchKernelEx");
    assert_eq!(error.code, INVALID_VALUE);
}
