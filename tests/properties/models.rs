//! Whole pipelines on random shapes and attributes, under every strategy.

use convfuse::data;
use convfuse::spec::{
    ClampSpec, Conv2dGroupNormScaleMaxPoolClampSpec as Spec85, Conv2dSpec,
    Conv3dMultiplyInstanceNormClampMultiplyMaxSpec as Spec79, Conv3dSpec, GroupNormSpec,
    InstanceNormSpec, MaxPool2dSpec,
};
use convfuse::verify::Operation;
use convfuse::weights::{
    Conv2dGroupNormScaleMaxPoolClampWeights as Weights85,
    Conv3dMultiplyInstanceNormClampMultiplyMaxWeights as Weights79,
};
use proptest::bool::ANY;

use super::runner::{agrees, check};
use crate::backend::{Backend, Outcome};

/// Conv2d, GroupNorm, scale, MaxPool2d, clamp. Half of the pools have windows that lie side by side.
pub(super) fn random_85(backend: Backend) -> Outcome {
    let shape = (
        1..3usize,
        1..3usize,
        1..20usize,
        (1..4usize, 1..24usize),
        [4..34usize, 4..34],
        [1..5usize, 1..5],
    );
    let conv = ([1..4usize, 1..4], [0..3usize, 0..3], [1..3usize, 1..3], ANY);
    let pool = (
        [1..8usize, 1..8],
        proptest::option::of([1..4usize, 1..4]),
        (0..2usize, ANY, ANY),
    );
    check(
        backend,
        (shape, conv, pool),
        |bench, ((n, groups, c, (norm_groups, m), image, kernel_size), conv, pool)| {
            let (stride, padding, dilation, bias) = conv;
            let (window, window_stride, (pool_padding, ceil_mode, affine)) = pool;
            let plain = window_stride.is_none();
            let spec = Spec85 {
                in_channels: groups * c,
                out_channels: groups * norm_groups * m,
                kernel_size,
                conv: Conv2dSpec {
                    stride,
                    padding,
                    dilation,
                    groups,
                },
                bias,
                group_norm: GroupNormSpec::new(norm_groups),
                affine,
                max_pool: MaxPool2dSpec {
                    stride: window_stride,
                    padding: if plain {
                        [0, 0]
                    } else {
                        window.map(|w| pool_padding.min(w / 2))
                    },
                    ceil_mode,
                    ..MaxPool2dSpec::new(window)
                },
                clamp: ClampSpec::new(-0.7, 0.9),
            };
            let k = spec.out_channels;
            let mut weights = Weights85::init(&spec, 1);
            if affine {
                weights.group_norm_weight = Some(data::signed(2, k) * 1.5);
                weights.group_norm_bias = Some(data::signed(3, k) * 0.5);
            }
            weights.scale = data::signed(4, k) * 1.5;
            let x = data::signed(5, (n, spec.in_channels, image[0], image[1]));
            let operation = Operation::Conv2dGroupNormScaleMaxPoolClamp { x, weights, spec };
            agrees(bench, &operation)
        },
    )
}

/// Conv3d, multiply, InstanceNorm3d, clamp, multiply, maximum over channels.
pub(super) fn random_79(backend: Backend) -> Outcome {
    let shape = (
        1..3usize,
        1..3usize,
        1..20usize,
        1..70usize,
        [1..6usize, 2..9, 2..15],
        [1..4usize, 1..4, 1..4],
    );
    let conv = (
        [1..3usize, 1..3, 1..3],
        [0..2usize, 0..2, 0..3],
        [1..3usize, 1..3, 1..3],
        (ANY, ANY),
    );
    check(
        backend,
        (shape, conv),
        |bench,
         ((n, groups, c, k, v, kernel_size), (stride, padding, dilation, (bias, affine)))| {
            let spec = Spec79 {
                in_channels: groups * c,
                out_channels: groups * k,
                kernel_size,
                conv: Conv3dSpec {
                    stride,
                    padding,
                    dilation,
                    groups,
                },
                bias,
                instance_norm: InstanceNormSpec::default(),
                affine,
                clamp: ClampSpec::new(-1.0, 0.8),
            };
            let mut weights = Weights79::init(&spec, 1);
            if affine {
                weights.instance_norm_weight = Some(data::signed(2, spec.out_channels) * 1.5);
                weights.instance_norm_bias = Some(data::signed(3, spec.out_channels) * 0.5);
            }
            let x = data::signed(5, (n, spec.in_channels, v[0], v[1], v[2]));
            let operation =
                Operation::Conv3dMultiplyInstanceNormClampMultiplyMax { x, weights, spec };
            agrees(bench, &operation)
        },
    )
}
