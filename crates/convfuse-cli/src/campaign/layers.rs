//! Layers with random attributes.

use convfuse::graph::{BroadcastParameter, ConvLayer, Layer, LayerNormLayer};
use convfuse::spec::{
    AvgPoolSpec, ClampSpec, ConvSpec, ConvTransposeSpec, Dims, GeluApproximation, MaxPoolSpec,
    Padding, PaddingMode, PointwiseSpec, ReductionOp, ReductionSpec,
};

use super::choices::Choices;

/// A reduction over the channels.
pub(super) fn channel_reduction(c: &mut Choices) -> ReductionSpec {
    let operations = ReductionOp::ALL;
    let operation = operations[c.within(0, operations.len() - 1)];
    ReductionSpec::new(operation, &[1]).keepdim(c.once_in(3))
}

/// A reduction of a tensor of this rank, over the channels or over any axes.
pub(super) fn reduction(c: &mut Choices, rank: usize) -> Layer {
    let mut reduction = channel_reduction(c);
    if c.once_in(2) {
        let mut dim = Vec::new();
        for axis in 1..rank as isize {
            if c.once_in(2) {
                // Some axes count from the end.
                dim.push(if c.once_in(3) {
                    axis - rank as isize
                } else {
                    axis
                });
            }
        }
        let dim = if dim.is_empty() { &[-1] } else { &dim[..] };
        reduction.dim = Dims::new(dim);
    }
    reduction.into()
}

/// Attributes of a convolution in `groups` groups, most of them PyTorch's defaults.
pub(super) fn conv_attributes<const D: usize>(c: &mut Choices, groups: usize) -> ConvSpec<D> {
    let padding_mode = c.of([
        PaddingMode::Zeros,
        PaddingMode::Zeros,
        PaddingMode::Zeros,
        PaddingMode::Reflect,
        PaddingMode::Replicate,
        PaddingMode::Circular,
    ]);
    let mut spec = ConvSpec::default()
        .padding(c.each::<D>(0, 3))
        .dilation(c.each::<D>(1, 3))
        .padding_mode(padding_mode)
        .groups(groups);
    // `Padding::Same` requires a stride of 1.
    match c.once_in(6) {
        true => spec.padding = Padding::Same,
        false => spec.stride = c.each(1, 3),
    }
    spec
}

/// Attributes of a transposed convolution in `groups` groups. Output padding stays within the limit of
/// strides and dilations. In most cases the padding leaves a non-empty output for any input.
pub(super) fn transposed_attributes<const D: usize>(
    c: &mut Choices,
    groups: usize,
    kernel_size: [usize; D],
) -> ConvTransposeSpec<D> {
    let (stride, dilation) = (c.each::<D>(1, 4), c.each::<D>(1, 3));
    let axes = std::array::from_fn::<usize, D, _>(|axis| axis);
    let reach = axes.map(|axis| dilation[axis] * (kernel_size[axis] - 1));
    let most = match c.once_in(4) {
        true => [3; D],
        false => reach.map(|reach| reach / 2),
    };
    ConvTransposeSpec::default()
        .stride(stride)
        .dilation(dilation)
        .padding(most.map(|most| c.within(0, most)))
        .output_padding(axes.map(|axis| c.within(0, stride[axis].max(dilation[axis]) - 1)))
        .groups(groups)
}

/// A convolution that mostly keeps its input's extents, as in networks.
pub(super) fn usual_conv<const D: usize>(
    c: &mut Choices,
    name: &str,
    groups: usize,
    out_channels: usize,
    kernel_size: [usize; D],
) -> ConvLayer<D> {
    let attributes = match c.below(3) {
        0 => ConvSpec::default(),
        1 => ConvSpec::default().padding(kernel_size.map(|extent| extent / 2)),
        _ => conv_attributes(c, groups),
    };
    ConvLayer::new(name, out_channels, kernel_size)
        .attributes(attributes.groups(groups))
        .bias(!c.once_in(3))
}

/// Epsilon of a norm: mostly PyTorch's default, otherwise a large or a tiny one.
pub(super) fn eps(c: &mut Choices) -> f64 {
    c.of([1e-5, 1e-5, 1e-3, 1.0, 1e-8])
}

pub(super) fn group_norm(c: &mut Choices, name: &str, num_groups: usize) -> Layer {
    Layer::from(
        Layer::group_norm(name, num_groups)
            .eps(eps(c))
            .affine(!c.once_in(3)),
    )
}

pub(super) fn instance_norm(c: &mut Choices, name: &str) -> Layer {
    Layer::from(Layer::instance_norm(name).eps(eps(c)).affine(c.once_in(2)))
}

pub(super) fn layer_norm(
    c: &mut Choices,
    name: &str,
    normalized_shape: &[usize],
) -> LayerNormLayer {
    Layer::layer_norm(name, normalized_shape)
        .eps(eps(c))
        .elementwise_affine(!c.once_in(3))
        .bias(!c.once_in(3))
}

pub(super) fn batch_norm(c: &mut Choices, name: &str) -> Layer {
    Layer::from(Layer::batch_norm(name).eps(eps(c)).affine(!c.once_in(3)))
}

/// A batch norm with the batch's statistics: in training, or without running statistics.
pub(super) fn batch_norm_by_batch(c: &mut Choices, name: &str) -> Layer {
    let norm = Layer::batch_norm(name).eps(eps(c)).affine(!c.once_in(3));
    Layer::from(match c.once_in(2) {
        true => norm.training(true),
        false => norm.track_running_stats(false),
    })
}

/// Clamp bounds: of both signs, a single one, equal ones, and a minimum above the maximum.
pub(super) fn clamp(c: &mut Choices) -> PointwiseSpec {
    let bounds = [-0.5, 0.75, 0.0, -2.0, 1e-3, 6.0, f64::INFINITY];
    let bound = |c: &mut Choices| c.of(bounds);
    PointwiseSpec::Clamp(match c.below(8) {
        0..=3 => ClampSpec::new(-0.5, bound(c)),
        4 | 5 => ClampSpec::new(bound(c), bound(c)),
        6 => ClampSpec::new(bound(c), None),
        _ => ClampSpec::new(None, bound(c)),
    })
}

/// A constant operand of arithmetic: of both signs, and with values that f32 does not represent.
fn constant(c: &mut Choices) -> f64 {
    c.of([0.5, -0.3, 1.0, 2.0, -1.7, 1e-2, 37.0])
}

/// A parameter of arithmetic, with one value or one per channel.
pub(super) fn parameter(c: &mut Choices) -> BroadcastParameter {
    let parameter = BroadcastParameter::new("parameter");
    match c.below(3) {
        0 => parameter,
        1 => parameter.shape(&[1]),
        _ => parameter.shape(&[]),
    }
}

/// The number of pointwise functions.
pub(super) const FUNCTIONS: u32 = 19;

/// Further drawn layers after the functions and the factor.
const SLOPE: u32 = FUNCTIONS + 1;
const SUM: u32 = FUNCTIONS + 2;

/// Pointwise function `number` with random attributes.
pub(super) fn function(c: &mut Choices, number: u32) -> Layer {
    Layer::Pointwise(match number {
        0 => PointwiseSpec::Relu {},
        1 => clamp(c),
        2 => PointwiseSpec::LeakyRelu {
            negative_slope: c.of([0.01, 0.0, -0.5, 1.5]),
        },
        3 => PointwiseSpec::Silu {},
        4 => PointwiseSpec::Gelu {
            approximate: c.of([GeluApproximation::None, GeluApproximation::Tanh]),
        },
        5 => PointwiseSpec::Sigmoid {},
        6 => PointwiseSpec::Tanh {},
        7 => PointwiseSpec::Hardswish {},
        8 => PointwiseSpec::Elu {
            alpha: c.of([1.0, 0.0, -0.7, 2.5]),
        },
        9 => PointwiseSpec::Softplus {
            beta: c.of([1.0, 0.5, 3.0]),
            threshold: c.of([20.0, 2.0, 0.0]),
        },
        10 => PointwiseSpec::Mish {},
        11 => PointwiseSpec::Hardtanh {
            min_val: c.of([-1.0, 0.0, -0.5]),
            max_val: c.of([1.0, 6.0, 0.0]),
        },
        12 => PointwiseSpec::Hardsigmoid {},
        13 => PointwiseSpec::Add { value: constant(c) },
        14 => PointwiseSpec::Sub { value: constant(c) },
        15 => PointwiseSpec::Mul { value: constant(c) },
        16 => PointwiseSpec::Div { value: constant(c) },
        17 => PointwiseSpec::Minimum { value: constant(c) },
        _ => PointwiseSpec::Maximum { value: constant(c) },
    })
}

/// Up to `most` layers: functions, factors, shared slopes and, while `inputs` has names left, arithmetic
/// with these inputs.
pub(super) fn functions(
    c: &mut Choices,
    most: usize,
    scales: &mut Vec<&str>,
    inputs: &mut Vec<&str>,
) -> Vec<Layer> {
    let mut layers = Vec::new();
    for _ in 0..c.within(0, most) {
        layers.extend(match c.below(FUNCTIONS + 4) {
            FUNCTIONS => scales.pop().map(|name| Layer::scale(name).into()),
            SLOPE => Some(Layer::prelu("slope", 1).into()),
            SUM => inputs.pop().map(Layer::add),
            number if number > SUM => {
                let layers: [fn(&str) -> Layer; 2] =
                    [|other| Layer::sub(other), |other| Layer::mul(other)];
                inputs.pop().map(c.of(layers))
            }
            number => Some(function(c, number)),
        });
    }
    layers
}

/// The largest dilation of a pooling window. Adjacent window elements may lie on either side of a smaller
/// input, both in the padding.
const MOST_DILATION: usize = 8;

/// Pooling windows of images or volumes. Most windows do not overlap; some exceed the size limit, and some
/// contain the whole input.
macro_rules! max_pool {
    ($name:ident, $dimensions:literal) => {
        pub(super) fn $name(c: &mut Choices, most: usize) -> Layer {
            let kernel_size = c.each::<$dimensions>(1, most);
            let mut spec = MaxPoolSpec::new(kernel_size);
            spec.stride = c.once_in(2).then(|| c.each(1, 4));
            spec.padding = kernel_size.map(|extent| c.within(0, extent / 2));
            if c.once_in(4) {
                spec.dilation = c.each(1, MOST_DILATION);
            }
            Layer::from(spec.ceil_mode(c.once_in(3)))
        }
    };
}

max_pool!(max_pool2d, 2);
max_pool!(max_pool3d, 3);

pub(super) fn averages<const D: usize>(c: &mut Choices, most: usize) -> AvgPoolSpec<D> {
    let kernel_size = c.each::<D>(1, most);
    let mut spec = AvgPoolSpec::new(kernel_size);
    spec.stride = c.once_in(2).then(|| c.each(1, 4));
    spec.padding(kernel_size.map(|extent| c.within(0, extent / 2)))
        .ceil_mode(c.once_in(3))
        .count_include_pad(!c.once_in(2))
        .divisor_override(c.once_in(4).then(|| c.of([1, 3, -2, 7])))
}
