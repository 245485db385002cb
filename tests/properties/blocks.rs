//! Chains of a convolution, perhaps a norm, functions and perhaps a pool, in any of the orders that networks have.

use convfuse::chain::{Chain, ConvLayer, GroupNormLayer, InstanceNormLayer, Layer};
use convfuse::spec::{
    Conv2dSpec, GeluApproximation, GroupNormSpec, InstanceNormSpec, MaxPool2dSpec,
};
use oracle::Case;
use proptest::bool::ANY;
use proptest::collection::vec;

use super::runner::{agrees, check};
use crate::backend::{Backend, Outcome};

/// A function of single values, or a factor for each channel.
fn function(index: usize) -> Layer {
    match index {
        0 => Layer::relu(),
        1 => Layer::leaky_relu(0.01),
        2 => Layer::leaky_relu(-0.5),
        3 => Layer::silu(),
        4 => Layer::gelu(GeluApproximation::Tanh),
        5 => Layer::sigmoid(),
        6 => Layer::tanh(),
        7 => Layer::hardswish(),
        8 => Layer::elu(1.0),
        9 => Layer::softplus(1.0, 20.0),
        10 => Layer::mish(),
        11 => Layer::clamp(-0.5, 0.75),
        _ => Layer::scale("scale"),
    }
}

/// What stands between convolution and functions.
fn norm(kind: usize, groups: usize, affine: bool) -> Vec<Layer> {
    let group_norm = Layer::GroupNorm(GroupNormLayer {
        name: "norm".to_owned(),
        attributes: GroupNormSpec::new(groups),
        affine,
    });
    let instance_norm = Layer::InstanceNorm(InstanceNormLayer {
        name: "norm".to_owned(),
        attributes: InstanceNormSpec::default(),
        affine,
    });
    let scale = || Layer::scale("before");
    match kind {
        0 => Vec::new(),
        1 => vec![instance_norm],
        2 => vec![scale(), instance_norm],
        3 => vec![scale(), group_norm],
        _ => vec![group_norm],
    }
}

pub(super) fn random_blocks(backend: Backend) -> Outcome {
    let shape = (
        1..3usize,
        1..3usize,
        1..20usize,
        (1..4usize, 1..12usize),
        [3..20usize, 3..20],
        [1..4usize, 1..4],
    );
    let conv = ([1..3usize, 1..3], [0..2usize, 0..2], ANY, ANY);
    // Functions before and behind a pool, which half of the chains have.
    let behind = (
        (0..8usize, ANY),
        vec(0..14usize, 0..4),
        (
            ANY,
            [1..4usize, 1..4],
            proptest::option::of([1..3usize, 1..3]),
        ),
        vec(0..14usize, 0..3),
    );
    check(
        backend,
        (shape, conv, behind),
        |bench, ((n, groups, c, (norm_groups, m), image, kernel_size), conv, behind)| {
            let (stride, padding, bias, depthwise) = conv;
            let ((kind, affine), before, (pools, window, window_stride), after) = behind;
            let groups = if depthwise { groups * c } else { groups };
            let c = if depthwise { 1 } else { c };
            let conv = Layer::conv2d(ConvLayer {
                attributes: Conv2dSpec {
                    stride,
                    padding: padding.into(),
                    groups,
                    ..Conv2dSpec::default()
                },
                bias,
                ..ConvLayer::new("conv", groups * norm_groups * m, kernel_size)
            });
            let mut layers = vec![conv];
            layers.extend(norm(kind, norm_groups, affine));
            layers.extend(before.into_iter().map(function));
            if pools {
                layers.push(Layer::max_pool2d(MaxPool2dSpec {
                    stride: window_stride,
                    ..MaxPool2dSpec::new(window)
                }));
            }
            layers.extend(after.into_iter().map(function));
            let chain = Chain::new(groups * c, layers).map_err(|refusal| refusal.to_string())?;
            let input = [n, groups * c, image[0], image[1]];
            let case = Case::of_chain("blocks/random", chain, &input);
            agrees(bench, &case.scaled(2.0).shifted(-1.0))
        },
    )
}
