//! What both models share: strategies, element types, refusals.

use convfuse::models::{
    Conv2dGroupNormScaleMaxPoolClamp as Model85,
    Conv3dMultiplyInstanceNormClampMultiplyMax as Model79, Options, Pipeline, Strategy,
};
use convfuse::spec::{
    Conv2dGroupNormScaleMaxPoolClampSpec as Spec85,
    Conv3dMultiplyInstanceNormClampMultiplyMaxSpec as Spec79, GroupNormSpec,
};
use convfuse::weights::Conv2dGroupNormScaleMaxPoolClampWeights as Weights85;
use convfuse::{DType, Stream, Tensor, data};
use libtest_mimic::Trial;
use ndarray::Array1;

use crate::backend::{Backend, Outcome};
use crate::suite::says;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![Trial::test("models::any::name_their_strategies", || {
        strategy_names()
    })];
    for backend in Backend::DEVICES {
        let mut add =
            |name, test: fn(Backend) -> Outcome| trials.push(backend.trial("models", name, test));
        add("refuse_inputs_that_do_not_fit", inputs);
        add("refuse_parameters_that_do_not_fit", parameters);
    }
    for backend in Backend::KERNELS {
        let mut add =
            |name, test: fn(Backend) -> Outcome| trials.push(backend.trial("models", name, test));
        add("use_fewer_launches_and_less_memory_when_fused", fusing_pays);
    }
    trials
}

fn strategy_names() -> Outcome {
    fn check<S: Strategy>() {
        for &strategy in S::ALL {
            assert_eq!(strategy.to_string().parse(), Ok(strategy));
            assert!(!strategy.summary().is_empty());
        }
        let unknown = "no-such".parse::<S>().unwrap_err();
        assert!(
            unknown.starts_with("strategy: no-such is unknown, must be one of unfused, "),
            "{unknown}"
        );
    }
    check::<<Model85 as Pipeline>::Strategy>();
    check::<<Model79 as Pipeline>::Strategy>();
    Ok(())
}

fn small_85(stream: &Stream) -> convfuse::Result<Model85> {
    let spec = Spec85 {
        in_channels: 3,
        out_channels: 8,
        group_norm: GroupNormSpec::new(4),
        ..Spec85::kernelbench()
    };
    Model85::init(stream, &spec, 1)
}

fn inputs(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let model = small_85(&stream)?;
    let forward = |shape: &[usize], dtype| model.forward(&Tensor::zeros(&stream, shape, dtype)?);
    says(
        forward(&[1, 4, 12, 12], DType::F32),
        "conv2d: input[1] is 4, expected 3",
    )?;
    says(
        forward(&[1, 3, 12], DType::F32),
        "conv2d: input has 3 dimensions, expected 4",
    )?;
    says(
        forward(&[1, 3, 5, 12], DType::F32),
        "max_pool2d: dilated window spans 4 on spatial axis 0, padded input has 3",
    )?;
    says(
        forward(&[1, 3, 12, 12], DType::F16),
        "conv2d_group_norm_scale_max_pool_clamp: input is f16, must be f32",
    )
}

fn parameters(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let spec = Spec85::kernelbench();
    let mut weights = Weights85::init(&spec, 1);
    weights.scale = Array1::ones(63);
    says(
        Model85::new(&stream, &spec, &weights),
        "scale: scale[0] is 63, expected 64",
    )?;
    weights.scale = Array1::ones(64);
    weights.conv_bias = None;
    assert!(Model85::new(&stream, &spec, &weights).is_err());
    Ok(())
}

fn fusing_pays(backend: Backend) -> Outcome {
    fn check<M: Pipeline>(model: &M, x: &Tensor) -> Outcome {
        let stream = x.stream();
        let count = |&strategy: &M::Strategy| -> convfuse::Result<convfuse::Counts> {
            // The first run may also prepare parameters.
            drop(model.forward_with(x, &Options::strategy(strategy))?);
            stream.take_counts();
            drop(model.forward_with(x, &Options::strategy(strategy))?);
            Ok(stream.take_counts())
        };
        let [im2col, unfused, fused @ ..] = M::Strategy::ALL else {
            return Err("two unfused strategies come first".into());
        };
        let (im2col, unfused) = (count(im2col)?, count(unfused)?);
        let mut fewest = unfused.launches;
        for strategy in fused {
            let counts = count(strategy)?;
            let mut most = unfused;
            if *strategy == M::Strategy::FUSED {
                // Where it is not one launch, it has some that prepare what makes the others faster, and an image of the
                // input, which is smaller than a column matrix.
                assert!(counts.launches < unfused.launches, "{strategy}: {counts:?}");
                most = im2col;
            } else {
                assert!(counts.launches <= fewest, "{strategy}: {counts:?}");
                fewest = counts.launches;
            }
            assert!(
                counts.bytes_moved < unfused.bytes_moved,
                "{strategy}: {counts:?}, unfused: {unfused:?}"
            );
            assert!(
                counts.peak_bytes <= most.peak_bytes,
                "{strategy}: {counts:?}, {most:?}"
            );
        }
        assert!(fewest < unfused.launches);
        Ok(())
    }
    let stream = backend.stream()?;
    check(
        &small_85(&stream)?,
        &Tensor::from_array(&stream, &data::fill(1, (2, 3, 11, 14)))?,
    )?;
    let model = Model79::init(&stream, &Spec79::kernelbench(), 1)?;
    check(
        &model,
        &Tensor::from_array(&stream, &data::fill(1, (2, 3, 5, 6, 7)))?,
    )
}
