//! The CPU backend: both pipelines on a sixteenth of the KernelBench batch, and their operators.
//!
//! `cargo bench -p convfuse --bench cpu` prints times and elements per second; `cargo test --benches`
//! runs each once.

use convfuse::cpu;
use convfuse::data::{fill, signed};
use convfuse::spec::{
    ClampSpec, Conv2dGroupNormScaleMaxPoolClampSpec, Conv2dSpec,
    Conv3dMultiplyInstanceNormClampMultiplyMaxSpec, GroupNormSpec, MaxPool2dSpec,
};
use convfuse::weights::{
    Conv2dGroupNormScaleMaxPoolClampWeights, Conv3dMultiplyInstanceNormClampMultiplyMaxWeights,
};
use divan::{Bencher, counter::ItemsCount};

/// Samples of a batch.
const SAMPLES: usize = 8;

fn main() {
    divan::main();
}

#[divan::bench]
fn conv2d_group_norm_scale_max_pool_clamp(bencher: Bencher<'_, '_>) {
    let spec = Conv2dGroupNormScaleMaxPoolClampSpec::kernelbench();
    let weights = Conv2dGroupNormScaleMaxPoolClampWeights::init(&spec, 1);
    let x = fill(2, (SAMPLES, 8, 128, 128));
    bencher
        .counter(ItemsCount::new(x.len()))
        .bench(|| cpu::conv2d_group_norm_scale_max_pool_clamp(x.view(), &weights, &spec));
}

#[divan::bench]
fn conv3d_multiply_instance_norm_clamp_multiply_max(bencher: Bencher<'_, '_>) {
    let spec = Conv3dMultiplyInstanceNormClampMultiplyMaxSpec::kernelbench();
    let weights = Conv3dMultiplyInstanceNormClampMultiplyMaxWeights::init(&spec, 1);
    let x = fill(2, (SAMPLES, 3, 16, 32, 32));
    bencher
        .counter(ItemsCount::new(x.len()))
        .bench(|| cpu::conv3d_multiply_instance_norm_clamp_multiply_max(x.view(), &weights, &spec));
}

#[divan::bench]
fn conv2d(bencher: Bencher<'_, '_>) {
    let x = fill(1, (SAMPLES, 8, 128, 128));
    let weight = signed(2, (64, 8, 3, 3));
    bencher
        .counter(ItemsCount::new(x.len()))
        .bench(|| cpu::conv2d(x.view(), weight.view(), None, &Conv2dSpec::default()));
}

#[divan::bench]
fn group_norm(bencher: Bencher<'_, '_>) {
    let x = signed(1, (SAMPLES, 64, 126, 126)).into_dyn();
    bencher
        .counter(ItemsCount::new(x.len()))
        .bench(|| cpu::group_norm(x.view(), None, None, &GroupNormSpec::new(16)));
}

#[divan::bench]
fn max_pool2d(bencher: Bencher<'_, '_>) {
    let x = signed(1, (SAMPLES, 64, 126, 126));
    bencher
        .counter(ItemsCount::new(x.len()))
        .bench(|| cpu::max_pool2d(x.view(), &MaxPool2dSpec::new([4, 4])));
}

#[divan::bench]
fn clamp(bencher: Bencher<'_, '_>) {
    let x = signed(1, (SAMPLES, 64, 126, 126)).into_dyn();
    bencher
        .counter(ItemsCount::new(x.len()))
        .bench(|| cpu::clamp(x.view(), &ClampSpec::new(0.0, 1.0)));
}
