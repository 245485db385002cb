//! Validation of random attributes and extents: it never panics, and accepted problems are consistent.

use launch_config::KernelGeometry;
use launch_config::channel_reduction::ChannelReductionGeometry;
use launch_config::conv_transpose::PhaseFiltersGeometry;
use launch_config::elementwise::Bounds;
use launch_config::max_pool2d::PoolGeometry;
use launch_config::norm::NormGeometry;
use op_spec::graph::presets::{KernelBench79, KernelBench85};
use op_spec::{
    ClampSpec, Conv2dSpec, Conv3dSpec, ConvSpec, ConvTranspose2dSpec, ConvTransposeProblem,
    GroupNormSpec, InstanceNormSpec, Layout, MAX_ELEMENTS, MaxPool2dSpec, ReductionOp,
    ReductionSpec, ScaleSpec,
};
use proptest::array::{uniform2, uniform3};
use proptest::collection::vec;
use proptest::prelude::*;

/// Mostly small numbers, some of which fit together, and extreme ones.
pub(crate) fn extent() -> impl Strategy<Value = usize> + Clone {
    prop_oneof![
        12 => 0..9_usize,
        4 => 9..300_usize,
        1 => any::<usize>(),
        1 => (0..64_u32).prop_map(|bit| 1_usize << bit),
        1 => (0..3_usize).prop_map(|i| usize::MAX - i),
    ]
}

fn shape() -> impl Strategy<Value = Vec<usize>> {
    vec(extent(), 0..7)
}

fn conv<const D: usize, S: Strategy<Value = [usize; D]>>(
    extents: impl Fn() -> S,
) -> impl Strategy<Value = ConvSpec<D>> {
    (extents(), extents(), extents(), extent()).prop_map(|(stride, padding, dilation, groups)| {
        ConvSpec::default()
            .stride(stride)
            .padding(padding)
            .dilation(dilation)
            .groups(groups)
    })
}

fn conv2d() -> impl Strategy<Value = Conv2dSpec> {
    conv(|| uniform2(extent()))
}

fn conv3d() -> impl Strategy<Value = Conv3dSpec> {
    conv(|| uniform3(extent()))
}

fn max_pool2d() -> impl Strategy<Value = MaxPool2dSpec> {
    let extents = || uniform2(extent());
    let stride = proptest::option::of(extents());
    (extents(), stride, extents(), extents(), any::<bool>()).prop_map(
        |(kernel_size, stride, padding, dilation, ceil_mode)| {
            MaxPool2dSpec::new(kernel_size)
                .stride(stride.unwrap_or(kernel_size))
                .padding(padding)
                .dilation(dilation)
                .ceil_mode(ceil_mode)
        },
    )
}

/// Computes everything that a launch needs.
fn can_be_launched(geometry: &NormGeometry) {
    let _ = geometry.partial_elements();
    let _ = geometry.stats_shape();
    let _ = geometry.apply(4).shape();
    let _ = geometry.apply(2).shape();
    let _ = geometry.resident_shape(4);
    let _ = geometry.resident_launch(4);
}

/// Computes everything that a launch of a transposed convolution needs. No class has more products than the
/// whole.
fn transposed_can_be_launched(problem: &ConvTransposeProblem<2>) -> Result<(), TestCaseError> {
    prop_assert!(problem.output_shape().elements() <= MAX_ELEMENTS);
    prop_assert!(problem.output.iter().all(|&extent| extent > 0));
    let Ok(geometry) = problem.geometry() else {
        return Ok(());
    };
    let _ = [Layout::Nchw, Layout::Nhwc].map(|layout| geometry.shape(layout));
    for class in geometry.classes() {
        let volumes = problem.as_conv_transpose3d();
        if let Ok(convolution) = class.convolution(&geometry, &volumes) {
            let _ = convolution.geometry();
            let filters = PhaseFiltersGeometry::of(&class, &geometry, &volumes);
            let _ = filters.shape();
            let extents = class.phases.map(|of| of.extent as usize);
            prop_assert_eq!(convolution.output, extents);
            let weight = convolution.weight_shape().elements() as u64;
            prop_assert_eq!(weight, filters.filters() * filters.filter_elements());
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn any_convolution_is_judged(
        spec in conv2d(),
        volume in conv3d(),
        input in shape(),
        weight in shape(),
        bias in proptest::option::of(shape()),
    ) {
        if let Ok(problem) = spec.problem(&input, &weight, bias.as_deref()) {
            prop_assert_eq!(&*problem.input_shape(), &input[..]);
            prop_assert_eq!(&*problem.weight_shape(), &weight[..]);
            prop_assert!(problem.output_shape().elements() <= MAX_ELEMENTS);
            prop_assert!(problem.output.iter().all(|&extent| extent > 0));
            let _ = problem.geometry();
        }
        if let Ok(problem) = volume.problem(&input, &weight, bias.as_deref()) {
            prop_assert!(problem.output_shape().elements() <= MAX_ELEMENTS);
            let _ = problem.geometry();
        }
    }

    #[test]
    fn any_transposed_convolution_is_judged(
        steps in (uniform2(extent()), uniform2(extent())),
        paddings in (uniform2(extent()), uniform2(extent())),
        groups in extent(),
        input in shape(),
        weight in shape(),
        bias in proptest::option::of(shape()),
    ) {
        let spec = ConvTranspose2dSpec::default()
            .stride(steps.0)
            .dilation(steps.1)
            .padding(paddings.0)
            .output_padding(paddings.1)
            .groups(groups);
        if let Ok(problem) = spec.problem(&input, &weight, bias.as_deref()) {
            transposed_can_be_launched(&problem)?;
        }
    }

    #[test]
    fn a_transposed_convolution_has_the_extents_of_the_input_that_a_convolution_makes_its_input_of(
        steps in (uniform2(1..5_usize), uniform2(1..4_usize)),
        padding in uniform2(0..4_usize),
        groups in 1..4_usize,
        channels in (1..4_usize, 1..4_usize),
        image in uniform2(1..30_usize),
        kernel in uniform2(1..6_usize),
    ) {
        let (stride, dilation) = steps;
        let spec = Conv2dSpec::default().stride(stride).padding(padding).dilation(dilation).groups(groups);
        let weight = [channels.0 * groups, channels.1, kernel[0], kernel[1]];
        let input = [2, channels.1 * groups, image[0], image[1]];
        if let Ok(convolution) = spec.problem(&input, &weight, None) {
            // Elements at the end that the convolution's windows do not reach.
            let rest = |axis: usize| {
                let window = (kernel[axis] - 1) * dilation[axis] + 1;
                (image[axis] + 2 * padding[axis] - window) % stride[axis]
            };
            let transposed = ConvTranspose2dSpec::default()
                .stride(stride)
                .padding(padding)
                .dilation(dilation)
                .groups(groups)
                .output_padding([rest(0), rest(1)])
                .problem(&convolution.output_shape(), &weight, None);
            let transposed = transposed.unwrap();
            prop_assert_eq!(&*transposed.output_shape(), &input[..]);
            prop_assert_eq!(transposed.multiply_adds(), convolution.multiply_adds());
            transposed_can_be_launched(&transposed)?;
        }
    }

    #[test]
    fn a_fitting_convolution_covers_its_input(
        spec in (uniform2(1..4_usize), uniform2(0..4_usize), uniform2(1..4_usize), 1..4_usize),
        channels in (1..4_usize, 1..4_usize),
        image in uniform2(1..30_usize),
        kernel in uniform2(1..5_usize),
    ) {
        let (stride, padding, dilation, groups) = spec;
        let spec = Conv2dSpec::default().stride(stride).padding(padding).dilation(dilation).groups(groups);
        let input = [2, channels.0 * groups, image[0], image[1]];
        let weight = [channels.1 * groups, channels.0, kernel[0], kernel[1]];
        let fits = (0..2).all(|i| (kernel[i] - 1) * dilation[i] < image[i] + 2 * padding[i]);
        let problem = spec.problem(&input, &weight, None);
        prop_assert_eq!(problem.is_ok(), fits);
        if let Ok(problem) = problem {
            for axis in 0..2 {
                let window = (kernel[axis] - 1) * dilation[axis] + 1;
                let last = (problem.output[axis] - 1) * stride[axis] + window;
                let padded = image[axis] + 2 * padding[axis];
                prop_assert!(last <= padded && padded < last + stride[axis]);
            }
        }
    }

    #[test]
    fn any_pooling_is_judged(spec in max_pool2d(), input in shape()) {
        if let Ok(problem) = spec.problem(&input) {
            let pool = problem.pool;
            prop_assert!(pool.output_shape().elements() <= MAX_ELEMENTS);
            prop_assert!(pool.output.iter().all(|&extent| extent > 0));
            for axis in 1..3 {
                let last = (pool.output[axis] - 1) as u128 * pool.stride[axis] as u128;
                prop_assert!(last < (pool.input[axis] + pool.padding[axis]) as u128);
            }
            let _ = PoolGeometry::of(&pool);
        }
    }

    #[test]
    fn any_norm_scale_clamp_and_maximum_is_judged(
        num_groups in extent(),
        eps in any::<f64>(),
        input in shape(),
        weight in proptest::option::of(shape()),
        bias in proptest::option::of(shape()),
        min in proptest::option::of(any::<f64>()),
        max in proptest::option::of(any::<f64>()),
    ) {
        let (weight, bias) = (weight.as_deref(), bias.as_deref());
        if let Ok(problem) = (GroupNormSpec::new(num_groups).eps(eps)).problem(&input, weight, bias) {
            prop_assert_eq!(problem.channels_per_group() * num_groups, problem.shape.c);
            if let Ok(geometry) = problem.geometry() {
                prop_assert_eq!(geometry.elements(), problem.shape.elements() as u64);
                can_be_launched(&geometry);
            }
        }
        if let Ok(problem) = (InstanceNormSpec::default().eps(eps)).problem(&input, weight, bias) {
            if let Ok(geometry) = problem.geometry() {
                prop_assert_eq!(geometry.elements(), problem.shape.elements() as u64);
                can_be_launched(&geometry);
            }
            let _ = problem.as_group_norm().geometry();
        }
        if let Ok(problem) = ScaleSpec::default().problem(&input, weight.unwrap_or(&[])) {
            let _ = problem.geometry();
        }
        for &operation in ReductionOp::ALL {
            for dim in [&[1][..], &[-1], &[2, 3], &[1, -1]] {
                let Ok(problem) = ReductionSpec::new(operation, dim).problem(&input) else {
                    continue;
                };
                let passes = problem.passes();
                let count: usize = passes.iter().map(|pass| pass.reduced).product();
                prop_assert_eq!(count, problem.count);
                let mut elements = problem.elements;
                for pass in passes {
                    prop_assert_eq!(pass.outer * pass.reduced * pass.inner, elements);
                    elements = pass.outer * pass.inner;
                    let _ = ChannelReductionGeometry::of(operation, pass);
                }
                prop_assert_eq!(elements, problem.output_elements());
            }
        }
        if let Ok(problem) = ClampSpec::new(min, max).problem(&input) {
            let _ = Bounds::of(&problem);
        }
    }

    #[test]
    fn any_pipeline_is_judged(
        channels in uniform2(extent()),
        kernel in uniform3(extent()),
        conv in conv2d(),
        volume in conv3d(),
        max_pool in max_pool2d(),
        num_groups in extent(),
        flags in uniform2(any::<bool>()),
        input in shape(),
    ) {
        let chain = KernelBench85 {
            in_channels: channels[0],
            out_channels: channels[1],
            kernel_size: [kernel[0], kernel[1]],
            conv,
            bias: flags[0],
            group_norm: GroupNormSpec::new(num_groups),
            affine: flags[1],
            max_pool,
            ..KernelBench85::default()
        };
        let _ = chain.chain().map(|chain| chain.problem(&input));
        let chain = KernelBench79 {
            in_channels: channels[0],
            out_channels: channels[1],
            kernel_size: kernel,
            conv: volume,
            bias: flags[0],
            affine: flags[1],
            ..KernelBench79::default()
        };
        let _ = chain.chain().map(|chain| chain.problem(&input));
    }
}
