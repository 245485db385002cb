//! Convolutions of sequences with any padding, batch norms and layer norms, on random shapes.

use convfuse::chain::{BatchNormLayer, ConvLayer, Layer};
use convfuse::spec::{BatchNormSpec, Conv1dSpec, Padding, PaddingMode};
use proptest::prelude::{Just, Strategy};
use proptest::prop_oneof;

use super::of_layer;
use super::runner::{agrees, check};
use crate::backend::{Backend, Outcome};

/// Which rule makes the padding, and what it is filled with: mostly numbers and zeros.
pub(super) fn paddings() -> impl Strategy<Value = (bool, PaddingMode)> {
    let mode = prop_oneof![
        3 => Just(PaddingMode::Zeros),
        1 => Just(PaddingMode::Reflect),
        1 => Just(PaddingMode::Replicate),
        1 => Just(PaddingMode::Circular),
    ];
    (proptest::bool::weighted(0.2), mode)
}

/// These numbers, or padding that keeps extents, for which there is no stride.
pub(super) fn ruled<const D: usize>(
    (is_same, mode): (bool, PaddingMode),
    padding: [usize; D],
    stride: [usize; D],
) -> (Padding<D>, PaddingMode, [usize; D]) {
    match is_same {
        true => (Padding::Same, mode, [1; D]),
        false => (padding.into(), mode, stride),
    }
}

pub(super) fn random_conv1d(backend: Backend) -> Outcome {
    let shape = (
        1..3usize,
        1..4usize,
        1..5usize,
        1..6usize,
        1..40usize,
        1..6usize,
    );
    let attributes = (1..4usize, 0..4usize, 1..4usize, paddings());
    check(
        backend,
        (shape, attributes),
        |bench, ((n, groups, c, k, width, filter), (stride, padding, dilation, rule))| {
            let (padding, padding_mode, stride) = ruled(rule, [padding], [stride]);
            let layer = Layer::conv1d(ConvLayer {
                attributes: Conv1dSpec {
                    stride,
                    padding,
                    padding_mode,
                    dilation: [dilation],
                    groups,
                },
                bias: n == 1,
                ..ConvLayer::new("conv", groups * k, [filter])
            });
            agrees(
                bench,
                &of_layer("conv1d/random", layer, &[n, groups * c, width])?,
            )
        },
    )
}

pub(super) fn random_batch_norm(backend: Backend) -> Outcome {
    let shape = (1..4usize, 1..9usize, 1..1500usize);
    check(
        backend,
        (shape, -1000.0..1000.0f32, 0.0..2.0f64),
        |bench, ((n, c, spatial), mean, eps)| {
            let layer = Layer::BatchNorm(BatchNormLayer {
                name: "batch_norm".to_owned(),
                attributes: BatchNormSpec { eps },
                affine: n > 1,
            });
            let case = of_layer("batch_norm/random", layer, &[n, c, spatial])?;
            agrees(bench, &case.shifted(mean))
        },
    )
}

pub(super) fn random_layer_norm(backend: Backend) -> Outcome {
    let shape = (1..4usize, 1..9usize, 1..900usize);
    check(
        backend,
        (shape, -1000.0..1000.0f32),
        |bench, ((n, c, spatial), mean)| {
            let input = [n, c, spatial];
            let layer = Layer::layer_norm("layer_norm", &input[1..]);
            let case = of_layer("layer_norm/random", layer, &input)?;
            agrees(bench, &case.shifted(mean))
        },
    )
}
