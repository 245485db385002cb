//! Whole chains on random shapes and attributes, under every strategy.

use convfuse::chain::presets::{KernelBench79, KernelBench85};
use convfuse::chain::{Chain, ChainError};
use convfuse::spec::{
    ClampSpec, Conv2dSpec, Conv3dSpec, GroupNormSpec, InstanceNormSpec, MaxPool2dSpec,
};
use oracle::Case;
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
            let attributes = KernelBench85 {
                in_channels: groups * c,
                out_channels: groups * norm_groups * m,
                kernel_size,
                conv: Conv2dSpec {
                    stride,
                    padding: padding.into(),
                    dilation,
                    groups,
                    ..Conv2dSpec::default()
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
            let input = [n, groups * c, image[0], image[1]];
            agrees(
                bench,
                &of_chain("kernelbench_85/random", attributes.chain(), &input)?,
            )
        },
    )
}

/// The case of a chain, on values of both signs.
fn of_chain(name: &str, chain: Result<Chain, ChainError>, input: &[usize]) -> Result<Case, String> {
    let chain = chain.map_err(|refusal| refusal.to_string())?;
    let case = Case::of_chain(name, chain, input);
    Ok(case.scaled(2.0).shifted(-1.0))
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
            let attributes = KernelBench79 {
                in_channels: groups * c,
                out_channels: groups * k,
                kernel_size,
                conv: Conv3dSpec {
                    stride,
                    padding: padding.into(),
                    dilation,
                    groups,
                    ..Conv3dSpec::default()
                },
                bias,
                instance_norm: InstanceNormSpec::default(),
                affine,
                clamp: ClampSpec::new(-1.0, 0.8),
            };
            let input = [n, groups * c, v[0], v[1], v[2]];
            agrees(
                bench,
                &of_chain("kernelbench_79/random", attributes.chain(), &input)?,
            )
        },
    )
}
