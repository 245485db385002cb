//! Chains of the kinds that have specialized kernels.

use convfuse::graph::presets::{KernelBench79, KernelBench85};
use convfuse::graph::{ConvLayer, Layer};
use convfuse::spec::{Conv2dSpec, Conv3dSpec, GroupNormSpec, InstanceNormSpec, MaxPool2dSpec};

use super::super::choices::Choices;
use super::super::layers::{
    averages, batch_norm, batch_norm_by_batch, channel_reduction, eps, function, functions,
    group_norm, instance_norm, max_pool2d, max_pool3d, parameter, reduction, usual_conv,
};
use super::{Plan, any_transposed, bounds, of_graph, several, shape};

pub(super) fn kernelbench_85(c: &mut Choices) -> Plan {
    let (groups, of_group) = (c.size(1, 2), c.size(1, 19));
    let (norm_groups, m) = (c.size(1, 3), c.size(1, 24));
    let kernel_size = c.each(1, 4);
    let conv = usual_conv(c, "conv", groups, groups * norm_groups * m, kernel_size);
    let window = c.each(1, 7);
    let side_by_side = !c.once_in(2);
    let chain = KernelBench85 {
        in_channels: groups * of_group,
        out_channels: conv.out_channels,
        kernel_size: conv.kernel_size,
        conv: conv.attributes,
        bias: conv.bias,
        group_norm: GroupNormSpec::new(norm_groups).eps(eps(c)),
        affine: !c.once_in(3),
        max_pool: MaxPool2dSpec::new(window)
            .stride(if side_by_side {
                window
            } else {
                c.each::<2>(1, 3)
            })
            .padding(match side_by_side {
                true => [0; 2],
                false => window.map(|extent: usize| c.within(0, extent / 2)),
            })
            .ceil_mode(c.once_in(4)),
        clamp: bounds(c),
    };
    let input = shape(c, groups * of_group, 2, 4, 36);
    of_graph(chain.chain(), &input)
}

pub(super) fn kernelbench_79(c: &mut Choices) -> Plan {
    let (groups, of_group, k) = (c.size(1, 2), c.size(1, 19), c.size(1, 70));
    let kernel_size = c.each(1, 3);
    let conv = usual_conv(c, "conv", groups, groups * k, kernel_size);
    let chain = KernelBench79 {
        in_channels: groups * of_group,
        out_channels: groups * k,
        kernel_size,
        conv: conv.attributes,
        bias: conv.bias,
        instance_norm: InstanceNormSpec::default().eps(eps(c)),
        affine: c.once_in(2),
        clamp: bounds(c),
    };
    let mut input = shape(c, groups * of_group, 3, 2, 14);
    input[2] = input[2].min(6);
    let mut plan = of_graph(chain.chain(), &input);
    let last = plan.layers.len() - 1;
    plan.layers[last] = channel_reduction(c).into();
    plan
}

/// A chain for the single-launch kernel of problem 85, with any height, batch, groups and bounds.
pub(super) fn one_launch_85(c: &mut Choices) -> Plan {
    let num_groups = c.of([16, 1, 2, 4, 8, 32, 64]);
    let chain = KernelBench85 {
        conv: Conv2dSpec::default(),
        bias: !c.once_in(3),
        group_norm: GroupNormSpec::new(num_groups).eps(eps(c)),
        affine: !c.once_in(3),
        clamp: bounds(c),
        ..KernelBench85::default()
    };
    let (height, n) = (c.size(10, 133), c.size(1, 4));
    of_graph(chain.chain(), &[n, 8, height, 128])
}

/// The same for problem 79.
pub(super) fn one_launch_79(c: &mut Choices) -> Plan {
    let chain = KernelBench79 {
        conv: Conv3dSpec::default(),
        bias: !c.once_in(3),
        instance_norm: InstanceNormSpec::default().eps(eps(c)),
        clamp: bounds(c),
        ..KernelBench79::default()
    };
    let (depth, height, n) = (c.size(3, 24), c.size(3, 40), c.size(1, 4));
    of_graph(chain.chain(), &[n, 3, depth, height, 32])
}

/// A norm of any kind with `groups` groups of channels, or none.
fn any_norm(c: &mut Choices, groups: usize) -> Vec<Layer> {
    match c.below(7) {
        0 => vec![group_norm(c, "norm", groups)],
        1 => Vec::new(),
        2 => vec![instance_norm(c, "norm")],
        3 => vec![
            Layer::from(Layer::scale("before")),
            instance_norm(c, "norm"),
        ],
        4 => vec![
            Layer::from(Layer::scale("before")),
            group_norm(c, "norm", groups),
        ],
        5 if c.once_in(2) => vec![batch_norm_by_batch(c, "norm")],
        5 => vec![batch_norm(c, "norm")],
        _ => vec![group_norm(c, "norm", 1)],
    }
}

/// The layers that follow a convolution with `channels` output channels in networks: a norm, slopes,
/// functions, sums, a pool, functions, sums, a last pool.
fn behind(c: &mut Choices, groups: usize, channels: usize, dimensions: usize) -> Vec<Layer> {
    let (mut scales, mut inputs) = (vec!["last", "first"], vec!["late", "shortcut"]);
    let mut layers = any_norm(c, groups);
    if c.once_in(5) {
        layers.push(Layer::prelu("slopes", channels).into());
    }
    layers.extend(functions(c, 3, &mut scales, &mut inputs));
    layers.extend(match (c.below(5), dimensions) {
        (1 | 2, 2) => Some(max_pool2d(c, 4)),
        (3, 2) => Some(averages::<2>(c, 3).into()),
        (1, 3) => Some(max_pool3d(c, 2)),
        (2, 3) => Some(averages::<3>(c, 2).into()),
        _ => None,
    });
    layers.extend(functions(c, 2, &mut scales, &mut inputs));
    layers.extend(match (c.below(6), dimensions) {
        (1, 2) => Some(Layer::adaptive_avg_pool2d(1)),
        (1, 3) => Some(Layer::adaptive_avg_pool3d(1)),
        (2, _) => Some(reduction(c, dimensions + 2)),
        _ => None,
    });
    layers
}

/// A convolution with up to `most` channels per group, of its input and of a norm, and the layers after it.
fn block<const D: usize>(
    c: &mut Choices,
    most: [usize; 2],
    most_extent: usize,
    most_input: usize,
) -> Plan
where
    Layer: From<ConvLayer<D>>,
{
    let (groups, of_group) = (c.size(1, 2), c.size(1, most[0]));
    let (norm_groups, m) = (c.size(1, 4), c.size(1, most[1]));
    let kernel_size = c.each(1, most_extent);
    let out_channels = groups * norm_groups * m;
    let mut layers = vec![Layer::from(usual_conv(
        c,
        "conv",
        groups,
        out_channels,
        kernel_size,
    ))];
    layers.extend(behind(c, norm_groups, out_channels, D));
    several(layers, shape(c, groups * of_group, D, 3, most_input))
}

pub(super) fn blocks(c: &mut Choices) -> Plan {
    block::<2>(c, [19, 12], 4, 24)
}

pub(super) fn volumes(c: &mut Choices) -> Plan {
    block::<3>(c, [9, 9], 3, 10)
}

/// A convolution from `channels` to `filters` channels, and the layers after it.
fn conv_block(
    c: &mut Choices,
    [channels, filters]: [usize; 2],
    kernel_size: [usize; 2],
    input: Vec<usize>,
) -> Plan {
    let padding = kernel_size.map(|extent| if extent > 1 { c.within(0, 1) } else { 0 });
    let conv = ConvLayer::new("conv", filters, kernel_size)
        .attributes(
            Conv2dSpec::default()
                .padding(padding)
                .stride([c.within(1, 2); 2]),
        )
        .bias(!c.once_in(3));
    let groups = if filters.is_multiple_of(8) { 8 } else { 1 };
    let mut layers = vec![Layer::from(conv)];
    layers.extend(behind(c, groups, filters, 2));
    debug_assert_eq!(input[1], channels);
    several(layers, input)
}

/// Many channels and pixels, as required by warp-specialized tiles.
pub(super) fn wide(c: &mut Choices) -> Plan {
    let channels = [c.size(4, 24) * 8, c.size(8, 48) * 8];
    let kernel_size = c.of([[1, 1], [3, 3], [1, 3]]);
    let input = shape(c, channels[0], 2, 8, 40);
    conv_block(c, channels, kernel_size, input)
}

/// Few pixels, and long sums that may use split-K over a cluster.
pub(super) fn long_sums(c: &mut Choices) -> Plan {
    let channels = [c.size(128, 1100), c.size(16, 300)];
    let kernel_size = c.of([[1, 1], [3, 3]]);
    let input = shape(c, channels[0], 2, 3, 12);
    conv_block(c, channels, kernel_size, input)
}

/// Hundreds of tiles per sample.
pub(super) fn many_tiles(c: &mut Choices) -> Plan {
    let channels = [c.size(1, 4), c.size(1, 20)];
    let kernel_size = c.of([[1, 1], [2, 2], [3, 3]]);
    let mut input = shape(c, channels[0], 2, 90, 300);
    input[0] = 1;
    conv_block(c, channels, kernel_size, input)
}

/// A convolution as in image networks, and the layers after it.
pub(super) fn networks(c: &mut Choices) -> Plan {
    let (channels, is_depthwise) = (8 * c.size(1, 12), c.below(3) == 0);
    let filters = if is_depthwise {
        channels
    } else {
        8 * c.size(1, 12)
    };
    let extent = c.of([1, 3, 5, 7]);
    let conv = ConvLayer::new("conv", filters, [extent; 2]).attributes(
        Conv2dSpec::default()
            .padding([c.of([0, extent / 2]); 2])
            .stride([c.of([4, 2, 1]); 2])
            .groups(if is_depthwise { channels } else { 1 }),
    );
    let mut layers = vec![Layer::from(conv.bias(c.once_in(2)))];
    match c.below(3) {
        0 => {
            let number = c.below(4);
            layers.extend([batch_norm(c, "norm"), function(c, number)]);
        }
        1 => layers.extend([batch_norm(c, "norm"), Layer::add("shortcut"), Layer::relu()]),
        _ => layers.extend(behind(c, 8, filters, 2)),
    }
    several(layers, shape(c, channels, 2, 7, 40))
}

pub(super) fn depthwise(c: &mut Choices) -> Plan {
    let channels = c.size(1, 24);
    let kernel_size = c.each::<2>(1, 5);
    let conv = usual_conv(c, "conv", channels, channels, kernel_size);
    let mut layers = vec![Layer::from(conv)];
    layers.extend(behind(c, 1, channels, 2));
    several(layers, shape(c, channels, 2, 5, 70))
}

/// A convolution, perhaps with a batch norm or a function: a single launch without statistics.
pub(super) fn alone(c: &mut Choices) -> Plan {
    let (groups, of_group, m) = (c.size(1, 2), c.size(1, 40), c.size(1, 70));
    let kernel_size = c.each::<2>(1, 4);
    let conv = usual_conv(c, "conv", groups, groups * m, kernel_size);
    let mut layers = vec![Layer::from(conv)];
    if c.once_in(2) {
        layers.push(batch_norm(c, "norm"));
    }
    if c.once_in(3) {
        let parameter = parameter(c);
        layers.push(match c.below(3) {
            0 => Layer::add(parameter),
            1 => Layer::sub(parameter),
            _ => Layer::mul(parameter),
        });
    }
    let number = c.below(3);
    layers.push(function(c, number));
    several(layers, shape(c, groups * of_group, 2, 4, 32))
}

/// A transposed convolution of images or volumes, with the layers of the next launch, perhaps before a norm.
pub(super) fn transposed(c: &mut Choices) -> Plan {
    let is_flat = !c.once_in(3);
    let (mut layers, channels, input) = match is_flat {
        true => {
            let (conv, channels) = any_transposed(c, [4, 5]);
            let input = shape(c, channels, 2, 1, 12);
            (vec![Layer::from(conv.clone())], conv.out_channels, input)
        }
        false => {
            let (conv, channels) = any_transposed(c, [3, 3, 3]);
            let input = shape(c, channels, 3, 1, 5);
            (vec![Layer::from(conv.clone())], conv.out_channels, input)
        }
    };
    if c.once_in(2) {
        layers.push(batch_norm(c, "statistics"));
    }
    if c.once_in(3) {
        layers.push(Layer::mul(parameter(c)));
    }
    let (mut scales, mut inputs) = (vec!["scale"], vec!["residual"]);
    layers.extend(functions(c, 3, &mut scales, &mut inputs));
    if c.once_in(4) {
        layers.extend(behind(c, 1, channels, if is_flat { 2 } else { 3 }));
    }
    several(layers, input)
}

/// Chains without a convolution, as other libraries leave them to fuse.
pub(super) fn tails(c: &mut Choices) -> Plan {
    let (norm_groups, m) = (c.size(1, 4), c.size(1, 20));
    let (mut scales, mut inputs) = (vec!["early"], vec!["residual"]);
    let mut layers = functions(c, 1, &mut scales, &mut inputs);
    layers.extend(behind(c, norm_groups, norm_groups * m, 2));
    if layers.len() < 2 {
        layers.extend([Layer::from(Layer::scale("scale")), Layer::relu()]);
    }
    several(layers, shape(c, norm_groups * m, 2, 2, 60))
}

/// A convolution of images, perhaps with a norm, a function and a pool, and a reduction of all positions.
pub(super) fn classifiers(c: &mut Choices) -> Plan {
    let (channels, filters) = (c.size(1, 40), 8 * c.size(1, 5));
    let input = shape(c, channels, 2, 2, 9);
    let mut layers = vec![Layer::from(Layer::conv2d("conv", filters, 3).padding(1))];
    match c.below(3) {
        0 => layers.push(batch_norm(c, "norm")),
        1 => layers.push(group_norm(c, "norm", 4)),
        _ => {}
    }
    if c.once_in(2) {
        layers.push(Layer::relu());
    }
    let positions = match c.once_in(2) {
        true => {
            layers.push(Layer::adaptive_avg_pool2d(1));
            1
        }
        false => input[2] * input[3],
    };
    let hidden = c.size(1, 40);
    layers.extend([
        Layer::flatten(),
        Layer::linear("first", filters * positions, hidden).into(),
    ]);
    if c.once_in(2) {
        let number = c.below(5);
        layers.push(function(c, number));
        layers.push(Layer::linear("second", hidden, c.within(1, 12)).into());
    }
    if c.once_in(3) {
        layers.push(Layer::softmax(&[1]));
    }
    several(layers, input)
}
