//! `conv1d`, and paddings of convolutions.

use convfuse::graph::{Chain, ConvLayer, Layer};
use convfuse::spec::{Conv1dSpec, Padding, PaddingMode};
use convfuse::{DType, Stream, Tensor, ops};
use convfuse_cli::{compare, rounded};
use libtest_mimic::Trial;
use oracle::Case;

use crate::backend::{Backend, Outcome};
use crate::suite::{all_right, says};

pub(crate) fn trials() -> Vec<Trial> {
    Backend::trials(
        &Backend::DEVICES,
        "conv1d",
        &[
            ("refuses_what_pytorch_refuses", misuse),
            ("is_followed_by_norms_scale_and_functions", chain),
            ("of_examples_matches_reference", examples),
        ],
    )
}

fn misuse(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let tensor = |shape: &[usize]| Tensor::zeros(&stream, shape, DType::F32);
    let (x, weight) = (tensor(&[1, 2, 6])?, tensor(&[3, 2, 3])?);
    let plain = Conv1dSpec::default();
    says(
        ops::conv1d(&tensor(&[1, 2, 5, 6])?, &weight, None, &plain),
        "conv1d: input has 4 dimensions, expected 3",
    )?;
    let strided = Conv1dSpec {
        padding: Padding::Same,
        stride: [2],
        ..plain
    };
    says(
        ops::conv1d(&x, &weight, None, &strided),
        "conv1d: stride[0] is 2, expected 1 with padding same",
    )?;
    for (padding_mode, limit) in [(PaddingMode::Reflect, 5), (PaddingMode::Circular, 6)] {
        let padded = |by: usize| Conv1dSpec {
            padding: [by].into(),
            padding_mode,
            ..plain
        };
        let y = ops::conv1d(&x, &weight, None, &padded(limit))?;
        assert_eq!(y.shape(), [1, 3, 4 + 2 * limit]);
        let name = padding_mode.name();
        let (by, x) = (limit + 1, &x);
        says(
            ops::conv1d(x, &weight, None, &padded(by)),
            &format!("conv1d: padding[0] is {by}, limit {limit} with padding_mode {name}"),
        )?;
    }
    Ok(())
}

fn chain(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let conv = |name: &str, padding_mode| {
        Layer::conv1d(ConvLayer {
            attributes: Conv1dSpec {
                padding: Padding::Same,
                padding_mode,
                ..Conv1dSpec::default()
            },
            ..ConvLayer::new(name, 12, [4])
        })
    };
    let layers = [
        conv("first", PaddingMode::Reflect),
        Layer::group_norm("group_norm", 3),
        Layer::silu(),
        conv("second", PaddingMode::Zeros),
        Layer::instance_norm("instance_norm"),
        Layer::scale("scale"),
        Layer::relu(),
        Layer::batch_norm("batch_norm"),
        Layer::channel_max(),
    ];
    let case = Case::of_graph("conv1d/chain", Chain::new(5, layers)?, &[2, 5, 37]);
    matches_reference(&stream, &case)
}

/// Files of chains at small sizes.
fn examples(backend: Backend) -> Outcome {
    let stream = backend.stream()?;
    let sequences = include_str!("../examples/chains/keyword_spotting_conv1d.json");
    let case = Case::of_graph(
        "conv1d/example",
        serde_json::from_str::<Chain>(sequences)?,
        &[1, 40, 29],
    );
    matches_reference(&stream, &case)?;
    let images = include_str!("../examples/chains/cyclegan_reflect.json");
    let case = Case::of_graph(
        "conv2d/example",
        serde_json::from_str::<Chain>(images)?,
        &[1, 3, 9, 14],
    );
    matches_reference(&stream, &case)
}

fn matches_reference(stream: &Stream, case: &Case) -> Outcome {
    let mut complaints = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let case = rounded(case, dtype);
        for (way, result) in compare(&case, dtype, stream, |precision| case.expected(precision)) {
            complaints.extend(result.err().map(|complaint| format!("{way}: {complaint}")));
        }
    }
    all_right(&complaints)
}
