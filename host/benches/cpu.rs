//! The CPU backend: both chains on a sixteenth of the KernelBench batch, and their operators.
//!
//! `cargo bench -p convfuse --bench cpu` prints times and elements per second; `cargo test --benches`
//! runs each once.

use convfuse::data::{fill, signed};
use convfuse::graph::Chain;
use convfuse::graph::presets::{KernelBench79, KernelBench85};
use convfuse::spec::{ClampSpec, Conv2dSpec, GroupNormSpec, MaxPool2dSpec};
use convfuse::{Device, Model, Result, Stream, Tensor, ops};
use divan::{Bencher, counter::ItemsCount};
use ndarray::{Array, Dimension, IntoDimension};

/// Samples of a batch.
const SAMPLES: usize = 8;

fn main() {
    divan::main();
}

#[divan::bench]
fn kernelbench_85(bencher: Bencher<'_, '_>) {
    let chain = KernelBench85::default().chain();
    bench_chain(bencher, &chain.expect("a chain"), &KernelBench85::INPUT);
}

#[divan::bench]
fn kernelbench_79(bencher: Bencher<'_, '_>) {
    let chain = KernelBench79::default().chain();
    bench_chain(bencher, &chain.expect("a chain"), &KernelBench79::INPUT);
}

fn bench_chain(bencher: Bencher<'_, '_>, chain: &Chain, input: &[usize]) {
    let mut input = input.to_vec();
    input[0] = SAMPLES;
    let stream = stream();
    let model = Model::init(&stream, chain, 1).expect("they fit into memory");
    let x = upload(&stream, &fill(2, input));
    bench(bencher, &x, || model.forward(&x));
}

#[divan::bench]
fn conv2d(bencher: Bencher<'_, '_>) {
    let stream = stream();
    let x = upload(&stream, &fill(1, (SAMPLES, 8, 128, 128)));
    let weight = upload(&stream, &signed(2, (64, 8, 3, 3)));
    let spec = Conv2dSpec::default();
    bench(bencher, &x, || ops::conv2d(&x, &weight, None, &spec));
}

#[divan::bench]
fn group_norm(bencher: Bencher<'_, '_>) {
    let (x, spec) = (convolved(), GroupNormSpec::new(16));
    bench(bencher, &x, || ops::group_norm(&x, None, None, &spec));
}

#[divan::bench]
fn max_pool2d(bencher: Bencher<'_, '_>) {
    let (x, spec) = (convolved(), MaxPool2dSpec::new(4));
    bench(bencher, &x, || ops::max_pool2d(&x, &spec));
}

#[divan::bench]
fn clamp(bencher: Bencher<'_, '_>) {
    let (x, spec) = (convolved(), ClampSpec::new(0.0, 1.0));
    bench(bencher, &x, || ops::clamp(&x, &spec));
}

fn stream() -> Stream {
    Device::cpu().stream().expect("the CPU is there")
}

fn upload<D: Dimension>(stream: &Stream, values: &Array<f32, D>) -> Tensor {
    Tensor::from_array(stream, values).expect("it fits into memory")
}

/// An input in the shape of the convolution's output.
fn convolved() -> Tensor {
    let shape = (SAMPLES, 64, 126, 126).into_dimension();
    upload(&stream(), &signed(1, shape))
}

fn bench(bencher: Bencher<'_, '_>, x: &Tensor, run: impl Fn() -> Result<Tensor> + Sync) {
    bencher
        .counter(ItemsCount::new(x.len()))
        .bench(|| run().expect("the shapes fit"));
}
