//! Repeatability at full size: every run of a benchmark problem gives the same bits.
//!
//! Runs only on a GPU: each problem under every strategy in f32, and the fused strategy also in the fast
//! math mode and in f16 and bf16. `CONVFUSE_REPEATS` is the number of runs, 100 by default. All runs of a
//! test use the same plan on one stream, and alternate between two inputs: an element that a run fails to
//! write then differs. These tests run in parallel, so the concurrent work differs between runs.
//! `suite::repeats` covers smaller cases, other streams, and shuffled thread orders in the emulator.

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

/// A test for each strategy, type and math mode of a chain.
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
