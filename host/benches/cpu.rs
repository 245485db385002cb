//! The CPU backend: both chains on a sixteenth of the KernelBench batch, and their operators.
//!
//! `cargo bench -p convfuse --bench cpu` prints times and elements per second; `cargo test --benches`
//! runs each once.

use convfuse::data::{fill, signed};
use convfuse::spec::chain::Chain;
use convfuse::spec::chain::presets::{KernelBench79, KernelBench85};
use convfuse::spec::{ClampSpec, Conv2dSpec, GroupNormSpec, MaxPool2dSpec, PointwiseSpec};
use convfuse::{Parameters, cpu};
use divan::{Bencher, counter::ItemsCount};

const CLAMP: PointwiseSpec = PointwiseSpec::Clamp(ClampSpec::new(0.0, 1.0));

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
    let problem = chain.problem(&input).expect("the benchmark's shape");
    let parameters = Parameters::init(chain, 1).expect("they fit into memory");
    let x = fill(2, input);
    bencher
        .counter(ItemsCount::new(x.len()))
        .bench(|| cpu::run(chain, &problem, &parameters, x.view()));
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
        .bench(|| cpu::pointwise(x.view(), &CLAMP));
}
