//! Repeatability at full size: the same bits from every run of a benchmark problem.
//!
//! On a GPU alone, each problem under every strategy in f32, and the fused one also with fast products and in
//! f16 and bf16. `CONVFUSE_REPEATS` says how many runs, 100 by default. All of a test's runs are of one plan
//! on one stream, by turns on two inputs, so that an element that a run leaves as it was cannot pass for one
//! that it wrote; what other work does beside them differs from run to run, since these tests run side by
//! side. Smaller cases, other streams, and shuffled orders of threads in the emulator are `suite::repeats`.

use convfuse::graph::Chain;
use convfuse::model::{Precision, Strategy};
use convfuse::{DType, Model, Options, Parameters, Tensor, data};
use libtest_mimic::Trial;

use crate::backend::{Backend, Outcome};
use crate::chains::{Preset, presets};
use crate::suite::{bits, runs};

pub(crate) fn trials() -> Vec<Trial> {
    presets().iter().flat_map(of).collect()
}

/// A test for each way to run a chain.
fn of(preset: &Preset) -> Vec<Trial> {
    let accurate = |strategy: &Strategy| (DType::F32, strategy.name, strategy.options(), "");
    let strategies = Strategy::all(&preset.chain);
    let mut ways: Vec<_> = strategies.iter().map(accurate).collect();
    for (dtype, precision, suffix) in [
        (DType::F32, Precision::Fast, "_fast"),
        (DType::F16, Precision::Accurate, "_f16"),
        (DType::BF16, Precision::Accurate, "_bf16"),
    ] {
        let options = Options::default().precision(precision);
        ways.push((dtype, Strategy::FUSED, options, suffix));
    }
    let trial = |(dtype, strategy, options, suffix): (DType, &str, Options, &str)| {
        let strategy = strategy.replace('-', "_");
        let name = format!("repeats_bit_for_bit_at_full_size_{strategy}{suffix}");
        let (chain, shape) = (preset.chain.clone(), preset.full);
        Backend::Gpu.trial(preset.name, &name, move |backend| {
            repeats(backend, &chain, dtype, shape, &options)
        })
    };
    ways.into_iter().map(trial).collect()
}

fn repeats(
    backend: Backend,
    chain: &Chain,
    dtype: DType,
    shape: &[usize],
    options: &Options,
) -> Outcome {
    let stream = &backend.stream()?;
    let model = Model::with_dtype(stream, chain, &Parameters::init(chain, 1)?, dtype)?;
    let runs = runs(backend);
    let input = |seed| Tensor::from_f32_array(stream, &data::signed(seed, shape), dtype);
    let inputs = [input(1)?, input(2)?];
    let mut plan = model.plan(stream, shape, options)?;
    let mut y = plan.output()?;
    let mut run = |index: usize| -> convfuse::Result<Vec<u32>> {
        plan.execute(&inputs[index], &mut y)?;
        Ok(bits(&y.to_f32_array()?))
    };
    let first = [run(0)?, run(1)?];
    assert_ne!(first[0], first[1], "different inputs");
    for number in 2..runs.max(4) {
        let index = (number % 2) as usize;
        if run(index)? != first[index] {
            return Err(format!("run {number} differs from the first on its input").into());
        }
    }
    Ok(())
}
