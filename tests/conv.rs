//! Convolutions: what follows them, and their kernels.

use convfuse::graph::{Chain, Layer, Partition};
use convfuse::spec::{Conv1dSpec, Conv2dSpec, Padding, PaddingMode};
use convfuse::{DType, Error, Options, Tensor, data, ops};
use libtest_mimic::Trial;
use oracle::Case;

use crate::backend::{Backend, Outcome};
use crate::suite::match_reference;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Backend::trials(
        &Backend::DEVICES,
        "conv1d",
        &[
            ("is_followed_by_norms_scale_and_functions", chain),
            ("of_examples_matches_reference", examples),
        ],
    );
    let name = "takes_the_kernels_that_the_table_chooses";
    trials.extend(Backend::trials(
        &Backend::KERNELS,
        "conv2d",
        &[(name, kernels)],
    ));
    trials
}

const TYPES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

fn chain(backend: Backend) -> Outcome {
    let conv = |name: &str, padding_mode| {
        Layer::from(
            Layer::conv1d(name, 12, 4).attributes(
                Conv1dSpec::default()
                    .padding(Padding::Same)
                    .padding_mode(padding_mode),
            ),
        )
    };
    let layers = [
        conv("first", PaddingMode::Reflect),
        Layer::from(Layer::group_norm("group_norm", 3)),
        Layer::silu(),
        conv("second", PaddingMode::Zeros),
        Layer::from(Layer::instance_norm("instance_norm")),
        Layer::from(Layer::scale("scale")),
        Layer::relu(),
        Layer::from(Layer::batch_norm("batch_norm")),
        Layer::from(Layer::max(&[1])),
    ];
    let case = Case::of_graph("conv1d/chain", Chain::new(5, layers)?, &[2, 5, 37]);
    match_reference(backend, &[case], &TYPES)
}

/// Files of chains with small inputs.
fn examples(backend: Backend) -> Outcome {
    let sequences = include_str!("../examples/chains/keyword_spotting_conv1d.json");
    let images = include_str!("../examples/chains/cyclegan_reflect.json");
    let case = |name: &str, file, input: &[usize]| -> serde_json::Result<Case> {
        Ok(Case::of_graph(
            name,
            serde_json::from_str::<Chain>(file)?,
            input,
        ))
    };
    let cases = [
        case("conv1d/example", sequences, &[1, 40, 29])?,
        case("conv2d/example", images, &[1, 3, 9, 14])?,
    ];
    match_reference(backend, &cases, &TYPES)
}

/// Partitions: the default rows of the kernel table, one explicit row, and none.
fn kernels(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let x = Tensor::from_array(&stream, &data::signed(1, (3, 64, 9, 11)))?;
    let weight = Tensor::from_array(&stream, &data::signed(2, (64, 64, 3, 3)))?;
    let spec = Conv2dSpec::default();
    let by = |row| {
        let options = Options::default().partition(Partition::of_layer(row));
        ops::conv2d_with(&x, &weight, None, &spec, &options)
    };
    let chosen = ops::conv2d(&x, &weight, None, &spec)?.to_array::<f32>()?;
    assert_eq!(by("implicit-gemm")?.to_array::<f32>()?, chosen);
    assert_ne!(by("direct")?.to_array::<f32>()?, chosen);
    let refused = by("depthwise");
    assert!(
        matches!(refused, Err(Error::NoKernels { .. })),
        "{refused:?}"
    );
    Ok(())
}
