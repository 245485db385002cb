//! Repeatability at full size: the same bits from every run of a benchmark problem.
//!
//! On a GPU alone, each problem under every strategy in f32, and the fused one also with fast products and in f16 and
//! bf16. `CONVFUSE_REPEATS` says how many runs, 100 by default. All of a test's runs are of one plan on one stream, by
//! turns on two inputs, so that an element that a run leaves as it was cannot pass for one that it wrote; what other
//! work does beside them differs from run to run, since these tests run side by side. Smaller cases, other streams, and
//! shuffled orders of threads in the emulator are `suite::repeats`.

use convfuse::models::{
    Conv2dGroupNormScaleMaxPoolClamp as Model85,
    Conv3dMultiplyInstanceNormClampMultiplyMax as Model79, Options, Pipeline, Precision, Strategy,
};
use convfuse::spec::{
    Conv2dGroupNormScaleMaxPoolClampSpec as Spec85,
    Conv3dMultiplyInstanceNormClampMultiplyMaxSpec as Spec79,
};
use convfuse::weights::{
    Conv2dGroupNormScaleMaxPoolClampWeights as Weights85,
    Conv3dMultiplyInstanceNormClampMultiplyMaxWeights as Weights79,
};
use convfuse::{DType, Stream, Tensor, data};
use libtest_mimic::Trial;

use crate::backend::{Backend, Outcome};
use crate::suite::runs;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = of(
        "kernelbench_85",
        &Spec85::KERNELBENCH_INPUT,
        |stream, dtype| {
            let spec = Spec85::kernelbench();
            Model85::with_dtype(stream, &spec, &Weights85::init(&spec, 1), dtype)
        },
    );
    trials.extend(of(
        "kernelbench_79",
        &Spec79::KERNELBENCH_INPUT,
        |stream, dtype| {
            let spec = Spec79::kernelbench();
            Model79::with_dtype(stream, &spec, &Weights79::init(&spec, 1), dtype)
        },
    ));
    trials
}

/// A test for each way to run a model.
fn of<M: Pipeline + 'static>(
    operator: &str,
    shape: &'static [usize],
    model: fn(&Stream, DType) -> convfuse::Result<M>,
) -> Vec<Trial> {
    let accurate = |&strategy: &M::Strategy| (DType::F32, Options::strategy(strategy), "");
    let mut ways: Vec<_> = M::Strategy::ALL.iter().map(accurate).collect();
    let fused = Options::strategy(M::Strategy::FUSED);
    ways.push((DType::F32, fused.precision(Precision::Fast), "_fast"));
    ways.push((DType::F16, fused, "_f16"));
    ways.push((DType::BF16, fused, "_bf16"));
    let trial = |(dtype, options, suffix): (DType, Options<M::Strategy>, &str)| {
        let strategy = options.strategy.to_string().replace('-', "_");
        let name = format!("repeats_bit_for_bit_at_full_size_{strategy}{suffix}");
        Backend::Gpu.trial(operator, &name, move |backend| {
            let stream = backend.stream()?;
            repeats(&model(&stream, dtype)?, shape, &options, runs(backend))
        })
    };
    ways.into_iter().map(trial).collect()
}

fn repeats<M: Pipeline>(
    model: &M,
    shape: &[usize],
    options: &Options<M::Strategy>,
    runs: u64,
) -> Outcome {
    let stream = model.stream();
    let input = |seed| Tensor::from_f32_array(stream, &data::signed(seed, shape), model.dtype());
    let inputs = [input(1)?, input(2)?];
    let mut plan = model.plan(stream, shape, options)?;
    let mut y = plan.output()?;
    let mut bits = |index: usize| -> convfuse::Result<Vec<u32>> {
        plan.execute(&inputs[index], &mut y)?;
        let y = y.to_f32_array()?;
        Ok(y.iter().map(|value| value.to_bits()).collect())
    };
    let first = [bits(0)?, bits(1)?];
    assert_ne!(first[0], first[1], "different inputs");
    for run in 2..runs.max(4) {
        let index = (run % 2) as usize;
        if bits(index)? != first[index] {
            return Err(format!("run {run} differs from the first on its input").into());
        }
    }
    Ok(())
}
