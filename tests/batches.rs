//! The batch size does not change results, unless the caller allows it, and then only their rounding.

use convfuse::graph::presets::{KernelBench79, KernelBench85};
use convfuse::model::Precision;
use convfuse::spec::{GroupNormSpec, MaxPool2dSpec};
use convfuse::{DType, Model, Options, Parameters, Stream, Tensor, data};
use libtest_mimic::Trial;
use ndarray::{ArrayD, ArrayView, Axis, IxDyn, Slice};
use oracle::Case;

use crate::backend::{Backend, Outcome};
use crate::chains::{preset_79, preset_85};
use crate::suite::bits;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Backend::trials(
        &Backend::KERNELS,
        "models",
        &[
            ("give_a_sample_the_same_bits_in_any_batch", any_batch),
            ("give_a_sample_the_same_bits_on_more_blocks", spread_batch),
            (
                "differ_by_rounding_where_the_batch_may_matter",
                batch_dependent,
            ),
        ],
    );
    // On a GPU only. Whole samples take the emulator too long; the tests above run small ones.
    let name = "give_a_sample_the_same_bits_by_any_cluster";
    trials.push(Backend::Gpu.trial("models", name, any_cluster));
    trials
}

/// The seed of the models' parameters.
const SEED: u64 = 1;

/// Problem 85 on images that require the general kernels, with adjacent or overlapping pooling windows.
fn general_85(stream: &Stream, overlapping: bool) -> convfuse::Result<Model> {
    let problem = KernelBench85 {
        in_channels: 5,
        out_channels: 24,
        group_norm: GroupNormSpec::new(6),
        max_pool: MaxPool2dSpec::new([2, 3]).stride(if overlapping { [1, 2] } else { [2, 3] }),
        ..KernelBench85::default()
    };
    Model::init(stream, &problem.chain()?, SEED)
}

fn general_79(stream: &Stream) -> convfuse::Result<Model> {
    let problem = KernelBench79 {
        in_channels: 4,
        out_channels: 18,
        ..KernelBench79::default()
    };
    Model::init(stream, &problem.chain()?, SEED)
}

/// Tests each model with the shape of a sample.
fn for_each_model(stream: &Stream, test: fn(&Model, &[usize]) -> Outcome) -> Outcome {
    test(&general_85(stream, false)?, &[5, 15, 21])?;
    test(&general_85(stream, true)?, &[5, 12, 17])?;
    test(&general_79(stream)?, &[4, 5, 9, 13])?;
    // Shapes of the single-launch kernels.
    let of_85 = Model::init(stream, &preset_85().chain, SEED)?;
    test(&of_85, &[8, 14, 128])?;
    let of_79 = Model::init(stream, &preset_79().chain, SEED)?;
    test(&of_79, &[3, 5, 8, 32])
}

/// An input of `n` samples.
fn input(n: usize, sample: &[usize]) -> ArrayD<f32> {
    let shape: Vec<usize> = [n].iter().chain(sample).copied().collect();
    data::fill(3, IxDyn(&shape))
}

/// The model's results for `x`.
fn run(model: &Model, x: &ArrayD<f32>, options: &Options) -> convfuse::Result<ArrayD<f32>> {
    let x = Tensor::from_array(model.stream(), x)?;
    model.forward_with(&x, options)?.to_f32_array()
}

fn split_batch(model: &Model, sample: &[usize]) -> Outcome {
    for precision in Precision::ALL {
        let options = Options::default().precision(precision);
        let x = input(3, sample);
        let whole = run(model, &x, &options)?;
        for n in 0..3 {
            let alone = x.select(Axis(0), &[n]);
            let alone = run(model, &alone, &options)?;
            let of_whole = whole.select(Axis(0), &[n]);
            assert!(bits(&alone) == bits(&of_whole), "sample {n}, {precision}");
        }
    }
    Ok(())
}

fn may_matter(model: &Model, sample: &[usize]) -> Outcome {
    let options = Options::default();
    let x = input(1, sample);
    let invariant = run(model, &x, &options)?;
    let dependent = run(model, &x, &options.batch_invariant(false))?;
    let case = Case {
        name: "batches/may_matter".to_owned(),
        graph: model.graph().clone(),
        parameters: Parameters::init(model.graph(), SEED)?.values().to_vec(),
        x,
        inputs: Vec::new(),
    };
    let expected = case.expected(&oracle::Precision::F32)?;
    expected.check(invariant.view())?;
    expected.check(dependent.view())?;
    Ok(())
}

/// Problem 79 on batches whose samples are shared by clusters of every size, or computed by single blocks.
/// In one sample the optimistic scale fails and the conversion is retried; one has a NaN.
fn any_cluster(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let multiprocessors = backend.device()?.info().processors as usize;
    // About as many samples as clusters of 8, 4, 5, 5 (in two rounds), and 2.
    let sizes = [9, 6, 5, 4, 2].map(|part| multiprocessors / part);
    let most = sizes[4] + 1;
    let [_, sample @ ..] = KernelBench79::INPUT;
    let chain = preset_79().chain;
    let mut x = input(most, &sample);
    x[[0, 2, 15, 31, 31].as_slice()] = 1e6;
    x[[1, 0, 7, 7, 7].as_slice()] = f32::NAN;
    let parameters = Parameters::init(&chain, 1)?;
    for (dtype, precision) in [
        (DType::F32, Precision::Accurate),
        (DType::F32, Precision::Fast),
        (DType::F16, Precision::Accurate),
        (DType::BF16, Precision::Accurate),
    ] {
        let model = Model::with_dtype(&stream, &chain, &parameters, dtype)?;
        let options = Options::default().precision(precision);
        let run = |x: ArrayView<'_, f32, IxDyn>| -> convfuse::Result<_> {
            let x = Tensor::from_f32_array(&stream, &x, dtype)?;
            model.forward_with(&x, &options)?.to_f32_array()
        };
        let alone = run(x.view())?;
        for n in sizes.into_iter().chain([1]) {
            let some = |x: &ArrayD<f32>| x.slice_axis(Axis(0), (..n).into()).to_owned();
            let shared = run(some(&x).view())?;
            assert!(
                bits(&shared) == bits(&some(&alone)),
                "{n} samples, {dtype} {precision}"
            );
        }
    }
    Ok(())
}

fn any_batch(backend: Backend) -> Outcome {
    for_each_model(&backend.stream()?, split_batch)
}

fn batch_dependent(backend: Backend) -> Outcome {
    for_each_model(&backend.stream()?, may_matter)
}

/// The single-launch kernel of problem 85 spreads the samples of a small batch over more blocks. This batch
/// is too large for that, but most of its parts are small enough. Two rows are so large that the scale
/// changes midway.
fn spread_batch(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let (batch, parts) = match backend {
        Backend::Emulator => (4, [1, 1, 2]),
        _ => (40, [1, 15, 24]),
    };
    let mut x = input(batch, &[8, 29, 128]);
    for row in [9, 22] {
        let mut row = x.index_axis_mut(Axis(2), row);
        row *= 100.0;
    }
    let chain = preset_85().chain;
    let parameters = Parameters::init(&chain, 1)?;
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let model = Model::with_dtype(&stream, &chain, &parameters, dtype)?;
        // 16-bit models have a single math mode.
        let kinds = if dtype == DType::F32 { 2 } else { 1 };
        for precision in Precision::ALL.into_iter().take(kinds) {
            let options = Options::default().precision(precision);
            let run = |x: &ArrayD<f32>| -> convfuse::Result<ArrayD<f32>> {
                let x = Tensor::from_f32_array(&stream, x, dtype)?;
                model.forward_with(&x, &options)?.to_f32_array()
            };
            let whole = run(&x)?;
            let mut first = 0;
            for n in parts {
                let of_part = Slice::from(first..first + n);
                let part = run(&x.slice_axis(Axis(0), of_part).to_owned())?;
                let of_whole = whole.slice_axis(Axis(0), of_part);
                assert!(
                    bits(&part) == bits(&of_whole),
                    "{n} samples from {first} on, {dtype}, {precision}"
                );
                first += n;
            }
            assert_eq!(first, batch);
        }
    }
    Ok(())
}
