//! What the batch may change: nothing, unless the caller allows it, and then only rounding.

use convfuse::models::{
    Conv2dGroupNormScaleMaxPoolClamp as Model85,
    Conv3dMultiplyInstanceNormClampMultiplyMax as Model79, Options, Pipeline, Precision, Strategy,
};
use convfuse::spec::{
    Conv2dGroupNormScaleMaxPoolClampSpec as Spec85,
    Conv3dMultiplyInstanceNormClampMultiplyMaxSpec as Spec79, GroupNormSpec, MaxPool2dSpec,
};
use convfuse::weights::Conv2dGroupNormScaleMaxPoolClampWeights as Weights85;
use convfuse::{DType, Stream, Tensor, data};
use libtest_mimic::Trial;
use ndarray::{ArrayD, ArrayView, Axis, IxDyn, Slice};

use crate::backend::{Backend, Outcome};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for backend in Backend::KERNELS {
        let mut add =
            |name, test: fn(Backend) -> Outcome| trials.push(backend.trial("models", name, test));
        add("give_a_sample_the_same_bits_in_any_batch", any_batch);
        add("give_a_sample_the_same_bits_on_more_blocks", spread_batch);
        add(
            "differ_by_rounding_where_the_batch_may_matter",
            batch_dependent,
        );
    }
    // In the emulator, where whole samples take too long, the tests above have small ones.
    trials.push(Backend::Gpu.trial(
        "models",
        "give_a_sample_the_same_bits_by_any_cluster",
        any_cluster,
    ));
    trials
}

/// Pipeline 85 on images that only the general kernels take, whose windows lie side by side, or overlap.
fn general_85(stream: &Stream, overlapping: bool) -> convfuse::Result<Model85> {
    let spec = Spec85 {
        in_channels: 5,
        out_channels: 24,
        group_norm: GroupNormSpec::new(6),
        max_pool: MaxPool2dSpec {
            stride: overlapping.then_some([1, 2]),
            ..MaxPool2dSpec::new([2, 3])
        },
        ..Spec85::kernelbench()
    };
    Model85::init(stream, &spec, 1)
}

fn general_79(stream: &Stream) -> convfuse::Result<Model79> {
    let spec = Spec79 {
        in_channels: 4,
        out_channels: 18,
        ..Spec79::kernelbench()
    };
    Model79::init(stream, &spec, 1)
}

/// The models, with the shape of a sample each.
fn for_each_model(stream: &Stream, test: &dyn Test) -> Outcome {
    test.run_85(&general_85(stream, false)?, &[5, 15, 21])?;
    test.run_85(&general_85(stream, true)?, &[5, 12, 17])?;
    test.run_79(&general_79(stream)?, &[4, 5, 9, 13])?;
    // What the one-launch kernels take.
    test.run_85(
        &Model85::init(stream, &Spec85::kernelbench(), 1)?,
        &[8, 14, 128],
    )?;
    test.run_79(
        &Model79::init(stream, &Spec79::kernelbench(), 1)?,
        &[3, 5, 8, 32],
    )
}

/// A test of both models.
trait Test {
    fn run_85(&self, model: &Model85, sample: &[usize]) -> Outcome;
    fn run_79(&self, model: &Model79, sample: &[usize]) -> Outcome;
}

macro_rules! test_of_models {
    ($name:ident, $function:ident) => {
        struct $name;
        impl Test for $name {
            fn run_85(&self, model: &Model85, sample: &[usize]) -> Outcome {
                $function(model, sample)
            }
            fn run_79(&self, model: &Model79, sample: &[usize]) -> Outcome {
                $function(model, sample)
            }
        }
    };
}
test_of_models!(SplitBatch, split_batch);
test_of_models!(MayMatter, may_matter);

/// An input of `n` samples.
fn input(n: usize, sample: &[usize]) -> ArrayD<f32> {
    let shape: Vec<usize> = [n].iter().chain(sample).copied().collect();
    data::fill(3, IxDyn(&shape))
}

/// The pipeline's results for `x`.
fn run<M: Pipeline>(
    model: &M,
    x: &ArrayD<f32>,
    options: &Options<M::Strategy>,
) -> convfuse::Result<ArrayD<f32>> {
    let x = Tensor::from_array(model.stream(), x)?;
    model.forward_with(&x, options)?.to_f32_array()
}

fn split_batch<M: Pipeline>(model: &M, sample: &[usize]) -> Outcome {
    for precision in Precision::ALL {
        let options = Options::strategy(M::Strategy::FUSED).precision(precision);
        let x = input(3, sample);
        let whole = run(model, &x, &options)?;
        for n in 0..3 {
            let alone = x.select(Axis(0), &[n]);
            let alone = run(model, &alone, &options)?;
            let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits();
            let of_whole = whole.select(Axis(0), &[n]);
            assert!(
                alone.iter().zip(&of_whole).all(same),
                "sample {n}, {precision}"
            );
        }
    }
    Ok(())
}

fn may_matter<M: Pipeline>(model: &M, sample: &[usize]) -> Outcome {
    let options = Options::strategy(M::Strategy::FUSED);
    let x = input(1, sample);
    let invariant = run(model, &x, &options)?;
    let dependent = run(model, &x, &options.batch_invariant(false))?;
    for (got, want) in dependent.iter().zip(&invariant) {
        // So that NaN fails.
        let near = (got - want).abs() <= 1e-4 * (1.0 + want.abs());
        assert!(near, "{got}, {want}");
    }
    Ok(())
}

/// Pipeline 79 on batches for which clusters of every size, and blocks that are alone, share a sample. One sample makes the
/// conversion repeat with another scale, one has a NaN.
fn any_cluster(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let multiprocessors = backend.device()?.info().processors as usize;
    // About as many samples as there are clusters of 8, 4, 5, 5 in two rounds, and 2.
    let sizes = [9, 6, 5, 4, 2].map(|part| multiprocessors / part);
    let most = sizes[4] + 1;
    let (spec, [_, sample @ ..]) = (Spec79::kernelbench(), Spec79::KERNELBENCH_INPUT);
    let mut x = input(most, &sample);
    x[[0, 2, 15, 31, 31].as_slice()] = 1e6;
    x[[1, 0, 7, 7, 7].as_slice()] = f32::NAN;
    let weights = Model79::init(&stream, &spec, 1)?.weights().clone();
    for (dtype, precision) in [
        (DType::F32, Precision::Accurate),
        (DType::F32, Precision::Fast),
        (DType::F16, Precision::Accurate),
        (DType::BF16, Precision::Accurate),
    ] {
        let model = Model79::with_dtype(&stream, &spec, &weights, dtype)?;
        let options =
            Options::strategy(<Model79 as Pipeline>::Strategy::FUSED).precision(precision);
        let run = |x: ArrayView<'_, f32, IxDyn>| -> convfuse::Result<_> {
            let x = Tensor::from_f32_array(&stream, &x, dtype)?;
            model.forward_with(&x, &options)?.to_f32_array()
        };
        let alone = run(x.view())?;
        for n in sizes.into_iter().chain([1]) {
            let some = |x: &ArrayD<f32>| x.slice_axis(Axis(0), (..n).into()).to_owned();
            let shared = run(some(&x).view())?;
            let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits();
            assert!(
                shared.iter().zip(&some(&alone)).all(same),
                "{n} samples, {dtype} {precision}"
            );
        }
    }
    Ok(())
}

fn any_batch(backend: Backend) -> Outcome {
    for_each_model(&backend.stream()?, &SplitBatch)
}

fn batch_dependent(backend: Backend) -> Outcome {
    for_each_model(&backend.stream()?, &MayMatter)
}

/// The one-launch kernel of pipeline 85 spreads the samples of a small batch over more blocks. This batch is too large
/// for that, and most of its parts are small enough. Two rows are so loud that they change the scale on the way.
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
    let spec = Spec85::kernelbench();
    let weights = Weights85::init(&spec, 1);
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let model = Model85::with_dtype(&stream, &spec, &weights, dtype)?;
        for precision in Precision::ALL {
            let options = Options::strategy(<Model85 as Pipeline>::Strategy::FUSED);
            let options = options.precision(precision);
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
                let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits();
                assert!(
                    part.iter().zip(&of_whole).all(same),
                    "{n} samples from {first} on, {dtype}, {precision}"
                );
                first += n;
            }
            assert_eq!(first, batch);
        }
    }
    Ok(())
}
