//! Tests of the models of all chains: strategies, element types, refusals.

use convfuse::graph::presets::KernelBench85;
use convfuse::model::Strategy;
use convfuse::spec::GroupNormSpec;
use convfuse::{
    Counts, DType, Error, MissingParameter, Model, Parameters, ParametersError, Stream, Tensor,
    data,
};
use libtest_mimic::Trial;
use ndarray::ArrayD;

use crate::backend::{Backend, Outcome};
use crate::chains::{preset_79, preset_85, presets};
use crate::suite::says;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![Trial::test(
        "models::any::name_their_strategies",
        strategy_names,
    )];
    trials.extend(Backend::trials(
        &Backend::DEVICES,
        "models",
        &[
            ("refuse_inputs_that_do_not_fit", inputs),
            ("refuse_parameters_that_do_not_fit", parameters),
        ],
    ));
    let name = "use_fewer_launches_and_less_memory_when_fused";
    trials.extend(Backend::trials(
        &Backend::KERNELS,
        "models",
        &[(name, fusing_pays)],
    ));
    trials
}

fn strategy_names() -> Outcome {
    for preset in presets() {
        let strategies = Strategy::all(&preset.chain);
        for strategy in &strategies {
            let parsed = Strategy::parse(&preset.chain, strategy.name)?;
            assert_eq!(parsed.as_slice(), std::slice::from_ref(strategy));
            // The text of a partition gives the same partition.
            let summary = strategy.summary(&preset.chain);
            let [parsed] = &Strategy::parse(&preset.chain, &summary)?[..] else {
                return Err(format!("{strategy}: a partition is one strategy").into());
            };
            if strategy.partition.is_some() {
                assert_eq!(parsed.partition, strategy.partition, "{strategy}");
            }
            assert_eq!(strategy.has_precision(), strategy.name == Strategy::FUSED);
        }
        let names: Vec<&str> = strategies.iter().map(|strategy| strategy.name).collect();
        let last = names.len() - 1;
        assert_eq!(names[0], "unfused-direct");
        assert_eq!(names[last], Strategy::FUSED);
        // A named partition that does not match its chain would be `None`, as for the fused strategy.
        let none = |strategy: &Strategy| strategy.partition.is_none();
        assert!(!strategies[..last].iter().any(none));
        let number_of_partial = match preset.number {
            85 => 3,
            _ => 2,
        };
        assert_eq!(names.len(), 2 + number_of_partial);
        assert_eq!(Strategy::parse(&preset.chain, Strategy::ALL)?, strategies);
        let of_another = match preset.number {
            85 => "clamp-multiply-max",
            _ => "norm-scale",
        };
        assert_eq!(Strategy::parse(&preset.chain, of_another)?, []);
        let unknown = Strategy::parse(&preset.chain, "no-such").unwrap_err();
        let unknown = unknown.to_string();
        assert!(unknown.contains("no-such"), "{unknown}");
    }
    Ok(())
}

fn small_85(stream: &Stream) -> convfuse::Result<Model> {
    let problem = KernelBench85 {
        in_channels: 3,
        out_channels: 8,
        group_norm: GroupNormSpec::new(4),
        ..KernelBench85::default()
    };
    Model::init(stream, &problem.chain()?, 1)
}

fn inputs(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let model = small_85(&stream)?;
    let forward = |shape: &[usize], dtype| model.forward(&Tensor::zeros(&stream, shape, dtype)?);
    says(
        forward(&[1, 4, 12, 12], DType::F32),
        "layer 0: conv2d: input[1] is 4, expected 3",
    )?;
    says(
        forward(&[1, 3, 12], DType::F32),
        "layer 1: group_norm: the input has rank 3 and no batch, expected rank 4",
    )?;
    says(
        forward(&[1, 3, 5, 12], DType::F32),
        "layer 3: max_pool2d: the dilated window spans 4 elements of spatial axis 0, the padded input has 3",
    )?;
    says(
        forward(&[1, 3, 12, 12], DType::F16),
        "model: input is f16, must be f32",
    )
}

/// A change of parameter values.
type Edit = fn(&mut Vec<(String, ArrayD<f32>)>);

fn parameters(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let chain = preset_85().chain;
    let model = |edit: Edit| {
        let parameters = Parameters::init(&chain, 1)?;
        let named = parameters.iter();
        let mut named = named
            .map(|(name, values)| (name.to_owned(), values.clone()))
            .collect();
        edit(&mut named);
        Model::new(&stream, &chain, &Parameters::new(&chain, named)?)
    };
    says(
        model(|named| named[4].1 = ArrayD::ones(vec![63, 1, 1])),
        "scale: shape is [63, 1, 1], expected [64, 1, 1]",
    )?;
    says(
        model(|named| drop(named.remove(1))),
        "missing: conv.bias of shape [64]; \
         given: conv.weight, group_norm.bias, group_norm.weight, scale",
    )?;
    // Complete parameters of another chain.
    let bare = KernelBench85 {
        bias: false,
        ..KernelBench85::default()
    };
    let refused = Model::new(&stream, &chain, &Parameters::init(&bare.chain()?, 1)?);
    let missing =
        |all: &[MissingParameter]| matches!(all, [one] if one.parameter.name == "conv.bias");
    assert!(
        matches!(&refused, Err(Error::Parameters(ParametersError::Missing { parameters, .. })) if missing(parameters)),
        "{refused:?}"
    );
    model(|_| ())?;
    Ok(())
}

fn fusing_pays(backend: Backend) -> Outcome {
    fn check(model: &Model, x: &Tensor) -> Outcome {
        let stream = x.stream();
        let count = |strategy: &Strategy| -> convfuse::Result<Counts> {
            // The first run may also prepare parameters.
            drop(model.forward_with(x, &strategy.options())?);
            stream.take_counts();
            drop(model.forward_with(x, &strategy.options())?);
            Ok(stream.take_counts())
        };
        let strategies = Strategy::all(model.graph());
        let (unfused, fused) = strategies.split_first().ok_or("no strategy")?;
        let unfused = count(unfused)?;
        let mut fewest = unfused.launches;
        for strategy in fused {
            let counts = count(strategy)?;
            let mut most = unfused.peak_bytes;
            if strategy.name == Strategy::FUSED {
                // Strategies of several launches also prepare inputs of faster kernels, and copy the input
                // to NHWC with channels padded to a whole K-vector.
                assert!(counts.launches < unfused.launches, "{strategy}: {counts:?}");
                most += 8 * x.bytes();
            } else {
                assert!(counts.launches <= fewest, "{strategy}: {counts:?}");
                fewest = counts.launches;
            }
            assert!(
                counts.bytes_moved < unfused.bytes_moved,
                "{strategy}: {counts:?}, unfused: {unfused:?}"
            );
            assert!(counts.peak_bytes <= most, "{strategy}: {counts:?}, {most}");
        }
        assert!(fewest < unfused.launches);
        Ok(())
    }
    let stream = backend.stream()?;
    check(
        &small_85(&stream)?,
        &Tensor::from_array(&stream, &data::fill(1, (2, 3, 11, 14)))?,
    )?;
    let model = Model::init(&stream, &preset_79().chain, 1)?;
    check(
        &model,
        &Tensor::from_array(&stream, &data::fill(1, (2, 3, 5, 6, 7)))?,
    )
}
