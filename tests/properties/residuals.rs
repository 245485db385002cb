//! Random chains with residuals and pools, and pools by themselves, under every strategy.

use convfuse::chain::{Chain, ConvLayer, Layer};
use convfuse::spec::{AvgPoolSpec, ConvSpec, MaxPool2dSpec, MaxPool3dSpec};
use convfuse::{Tensor, data, ops};
use oracle::Case;
use proptest::bool::ANY;
use proptest::option;

use super::runner::{agrees, check, refuses};
use crate::backend::{Backend, Outcome};

/// A convolution or none, a norm or none, functions and sums, a pool of any kind, functions and sums, an average or a maximum.
pub(super) fn random_chains(backend: Backend) -> Outcome {
    let shape = (1..4usize, 1..3usize, 1..4usize, [6..19usize, 6..19], ANY);
    let first = (ANY, ANY, [ANY, ANY, ANY]);
    let second = (0..5u32, 2..4usize, [ANY, ANY], 0..3u32);
    check(
        backend,
        (shape, first, second),
        |bench, ((n, groups, m, [h, w], volumes), first, (pool, window, behind, last))| {
            let (convolution, norm, [function, shortcut, relu]) = first;
            let channels = groups * m;
            let in_channels = if convolution { 3 } else { channels };
            let mut layers = Vec::new();
            if convolution && volumes {
                layers.push(Layer::conv3d(padded("conv", channels, [1, 3, 3])));
            } else if convolution {
                layers.push(Layer::conv2d(padded("conv", channels, [3, 3])));
            }
            layers.extend(norm.then(|| Layer::group_norm("norm", groups)));
            layers.extend(function.then(Layer::silu));
            layers.extend(shortcut.then(|| Layer::add("shortcut")));
            layers.extend(relu.then(Layer::relu));
            match (pool, volumes) {
                (1, false) => layers.push(Layer::max_pool2d(MaxPool2dSpec::new([window, 2]))),
                (1, true) => layers.push(Layer::max_pool3d(MaxPool3dSpec::new([1, window, 2]))),
                (2, false) => layers.push(Layer::avg_pool2d(AvgPoolSpec::new([window, 3]))),
                (2 | 3, true) => layers.push(Layer::avg_pool3d(AvgPoolSpec::new([2, 2, window]))),
                (3, false) => layers.push(Layer::max_pool2d(MaxPool2dSpec::new([2, 2]))),
                _ => {}
            }
            let [late, scale] = behind;
            layers.extend(scale.then(|| Layer::scale("scale")));
            layers.extend(late.then(|| Layer::add("late")));
            layers.push(match (last, volumes) {
                (0, false) => Layer::adaptive_avg_pool2d(),
                (0, true) => Layer::adaptive_avg_pool3d(),
                (1, _) => Layer::channel_max(),
                _ => Layer::add("last"),
            });
            let mut input = vec![n, in_channels, h, w];
            if volumes {
                input.insert(2, 3);
            }
            let chain = Chain::new(in_channels, layers).map_err(|error| error.to_string())?;
            agrees(bench, &Case::of_chain("random/residuals", chain, &input))
        },
    )
}

fn padded<const D: usize>(name: &str, channels: usize, kernel_size: [usize; D]) -> ConvLayer<D> {
    ConvLayer {
        attributes: ConvSpec {
            padding: kernel_size.map(|extent| extent / 2).into(),
            ..ConvSpec::default()
        },
        ..ConvLayer::new(name, channels, kernel_size)
    }
}

pub(super) fn random_pools(backend: Backend) -> Outcome {
    let shape = (
        (1..3usize, 1..4usize),
        [1..8usize, 1..14, 1..16],
        [1..4usize, 1..6, 1..6],
    );
    let attributes = (
        [1..4usize, 1..4, 1..4],
        [0..2usize, 0..3, 0..3],
        [1..3usize, 1..3, 1..3],
        (ANY, ANY, option::of(-3..4i64)),
    );
    check(
        backend,
        (shape, attributes),
        |bench, (((n, c), [d, h, w], kernel_size), (stride, padding, dilation, others))| {
            let (ceil_mode, count_include_pad, divisor_override) = others;
            let maximum = MaxPool3dSpec {
                kernel_size,
                stride: Some(stride),
                padding,
                dilation,
                ceil_mode,
            };
            let volumes = AvgPoolSpec {
                kernel_size,
                stride: Some(stride),
                padding,
                ceil_mode,
                count_include_pad,
                divisor_override,
            };
            let last = |[_, h, w]: [usize; 3]| [h, w];
            let images = AvgPoolSpec {
                kernel_size: last(kernel_size),
                stride: Some(last(stride)),
                padding: last(padding),
                ceil_mode,
                count_include_pad,
                divisor_override,
            };
            // What no chain has an operator may still be asked for; it names the first rule that is broken.
            let input = [n, c, d, h, w];
            let x = || Tensor::from_array(&bench.stream, &data::signed(1, input));
            match Case::of_layer("max_pool3d/random", Layer::max_pool3d(maximum), &input) {
                Ok(case) => agrees(bench, &case)?,
                Err(_) => {
                    let refusal = maximum.problem(&input).err();
                    let refusal =
                        refusal.ok_or("a chain refuses what the specification accepts")?;
                    refuses(x().and_then(|x| ops::max_pool3d(&x, &maximum)), &refusal)?;
                }
            }
            match Case::of_layer("avg_pool3d/random", Layer::avg_pool3d(volumes), &input) {
                Ok(case) => agrees(bench, &case)?,
                Err(_) => {
                    let refusal = volumes.problem(&input).err();
                    let refusal =
                        refusal.ok_or("a chain refuses what the specification accepts")?;
                    refuses(x().and_then(|x| ops::avg_pool3d(&x, &volumes)), &refusal)?;
                }
            }
            let input = [n, c, h, w];
            let x = || Tensor::from_array(&bench.stream, &data::signed(1, input));
            match Case::of_layer("avg_pool2d/random", Layer::avg_pool2d(images), &input) {
                Ok(case) => agrees(bench, &case),
                Err(_) => {
                    let refusal = images.problem(&input).err();
                    let refusal =
                        refusal.ok_or("a chain refuses what the specification accepts")?;
                    refuses(x().and_then(|x| ops::avg_pool2d(&x, &images)), &refusal)
                }
            }
        },
    )
}
