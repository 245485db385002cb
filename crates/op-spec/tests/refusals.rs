//! Specifications refuse and accept the same as PyTorch; errors name the actual and the expected value.

use launch_config::KernelGeometry;
use op_spec::{
    BatchNormSpec, ClampSpec, Conv2dSpec, Conv3dSpec, ConvTranspose1dSpec, ConvTranspose2dSpec,
    GroupNormSpec, InstanceNormSpec, LogSoftmaxSpec, MAX_ELEMENTS, MaxPool2dSpec, PointwiseSpec,
    PreluSpec, ReductionOp, ReductionSpec, ScaleSpec, SoftmaxSpec, SpecError,
};

#[test]
fn conv2d_refuses() {
    let spec = Conv2dSpec::default();
    let input = [2, 6, 10, 12];
    let weight = [4, 6, 3, 3];
    refused! {
        spec.problem(&[6, 10, 12], &weight, None) => "conv2d: input has rank 3, expected 4";
        spec.problem(&input, &[4, 6, 3], None) => "conv2d: weight has rank 3, expected 4";
        spec.problem(&input, &[4, 5, 3, 3], None) => "conv2d: weight[1] is 5, expected 6";
        spec.problem(&input, &weight, Some(&[5])) => "conv2d: bias[0] is 5, expected 4";
        spec.problem(&input, &weight, Some(&[4, 1])) => "conv2d: bias has rank 2, expected 1";
        spec.problem(&input, &[0, 6, 3, 3], None) => "conv2d: out_channels is 0, minimum 1";
        spec.problem(&input, &[4, 6, 3, 0], None) => "conv2d: kernel_size[1] is 0, minimum 1";
        spec.problem(&[2, 6, 0, 12], &weight, None) => "conv2d: input[2] is 0, minimum 1";
        spec.problem(&[2, 0, 10, 12], &[4, 0, 3, 3], None) => "conv2d: in_channels is 0, minimum 1";
        spec.problem(&[2, 6, 10, 2], &weight, None)
            => "conv2d: the dilated window spans 3 elements of spatial axis 1, the padded input has 2";
        spec.dilation([5, 1]).problem(&input, &weight, None)
            => "conv2d: the dilated window spans 11 elements of spatial axis 0, the padded input has 10";
        spec.stride([1, 0]).problem(&input, &weight, None)
            => "conv2d: stride[1] is 0, minimum 1";
        spec.dilation([0, 1]).problem(&input, &weight, None)
            => "conv2d: dilation[0] is 0, minimum 1";
        spec.groups(0).problem(&input, &weight, None) => "conv2d: groups is 0, minimum 1";
        spec.groups(4).problem(&input, &weight, None)
            => "conv2d: in_channels is 6, which is not a multiple of groups 4";
        spec.groups(3).problem(&input, &[4, 2, 3, 3], None)
            => "conv2d: out_channels is 4, which is not a multiple of groups 3";
    }
}

#[test]
fn conv2d_accepts() {
    let spec = Conv2dSpec::default();
    let shape = |spec: Conv2dSpec, input: [usize; 4], weight: [usize; 4]| {
        spec.problem(&input, &weight, None).unwrap().output_shape()
    };
    assert_eq!(*shape(spec, [0, 3, 8, 9], [4, 3, 3, 2]), [0, 4, 6, 8]);
    assert_eq!(*shape(spec, [1, 1, 1, 1], [1, 1, 1, 1]), [1, 1, 1, 1]);
    let padded = spec.padding([2, 4]).stride([3, 1]);
    assert_eq!(*shape(padded, [1, 2, 1, 2], [5, 2, 3, 3]), [1, 5, 1, 8]);
    // More than 2^32 elements in input and output.
    let huge = shape(spec, [70_000, 8, 128, 128], [64, 8, 3, 3]);
    assert_eq!(huge.elements(), 70_000 * 64 * 126 * 126);
}

#[test]
fn conv3d_refuses_and_accepts() {
    let spec = Conv3dSpec::default();
    refused! {
        spec.problem(&[2, 3, 5, 6], &[4, 3, 2, 2, 2], None) => "conv3d: input has rank 4, expected 5";
        spec.problem(&[2, 3, 2, 6, 6], &[4, 3, 3, 3, 3], None)
            => "conv3d: the dilated window spans 3 elements of spatial axis 0, the padded input has 2";
    }
    let problem = spec.problem(&[2, 3, 5, 6, 7], &[4, 3, 1, 2, 3], Some(&[4]));
    assert_eq!(*problem.unwrap().output_shape(), [2, 4, 5, 5, 5]);
}

#[test]
fn conv_transpose_refuses() {
    let spec = ConvTranspose2dSpec::default();
    let (input, weight) = ([2, 6, 10, 12], [6, 4, 3, 3]);
    let strided = spec.stride([2, 3]);
    refused! {
        spec.problem(&[6, 10, 12], &weight, None) => "conv_transpose2d: input has rank 3, expected 4";
        spec.problem(&input, &[6, 4, 3], None) => "conv_transpose2d: weight has rank 3, expected 4";
        spec.problem(&input, &[5, 4, 3, 3], None) => "conv_transpose2d: weight[0] is 5, expected 6";
        spec.problem(&input, &weight, Some(&[5])) => "conv_transpose2d: bias[0] is 5, expected 4";
        spec.problem(&input, &[6, 0, 3, 3], None) => "conv_transpose2d: out_channels is 0, minimum 1";
        spec.problem(&input, &[6, 4, 3, 0], None) => "conv_transpose2d: kernel_size[1] is 0, minimum 1";
        spec.problem(&[2, 6, 0, 12], &weight, None) => "conv_transpose2d: input[2] is 0, minimum 1";
        spec.problem(&[2, 0, 10, 12], &[0, 4, 3, 3], None) => "conv_transpose2d: in_channels is 0, minimum 1";
        spec.stride([1, 0]).problem(&input, &weight, None) => "conv_transpose2d: stride[1] is 0, minimum 1";
        spec.dilation([0, 1]).problem(&input, &weight, None) => "conv_transpose2d: dilation[0] is 0, minimum 1";
        spec.groups(0).problem(&input, &weight, None) => "conv_transpose2d: groups is 0, minimum 1";
        spec.groups(4).problem(&input, &weight, None)
            => "conv_transpose2d: in_channels is 6, which is not a multiple of groups 4";
        spec.groups(3).check(6, 4, [3, 3])
            => "conv_transpose2d: out_channels is 4, which is not a multiple of groups 3";
        spec.output_padding([0, 1]).problem(&input, &weight, None)
            => "conv_transpose2d: output_padding[1] is 1, limit 0 (less than stride or dilation)";
        strided.output_padding(2).problem(&input, &weight, None)
            => "conv_transpose2d: output_padding[0] is 2, limit 1 (less than stride or dilation)";
        spec.padding([0, 7]).problem(&input, &weight, None)
            => "conv_transpose2d: padding[1] is 7 on both sides, which removes all 14 elements of the output";
        ConvTranspose1dSpec::default().stride(1 << 33).problem(&[1, 1, 1 << 33], &[1, 1, 1], None)
            => "conv_transpose1d: output has more elements than memory addresses, limit 2305843009213693951";
    }
}

#[test]
fn conv_transpose_accepts() {
    let spec = ConvTranspose2dSpec::default();
    let shape = |spec: ConvTranspose2dSpec, input: [usize; 4], weight: [usize; 4]| {
        spec.problem(&input, &weight, None).unwrap().output_shape()
    };
    assert_eq!(*shape(spec, [0, 3, 8, 9], [3, 4, 3, 2]), [0, 4, 10, 10]);
    let strided = spec.stride([2, 1]).dilation([1, 3]).output_padding([1, 2]);
    // (5 - 1) * 2 + 2 + 1 + 1 and (6 - 1) + 3 * 2 + 2 + 1.
    assert_eq!(*shape(strided, [1, 2, 5, 6], [2, 7, 3, 3]), [1, 7, 12, 14]);
    let grouped = spec.groups(3).padding([1, 0]);
    assert_eq!(*shape(grouped, [2, 6, 4, 4], [6, 5, 3, 1]), [2, 15, 4, 4]);
}

#[test]
fn group_norm_refuses() {
    let spec = GroupNormSpec::new(4);
    refused! {
        spec.problem(&[2, 30, 5], None, None)
            => "group_norm: channels is 30, which is not a multiple of num_groups 4";
        GroupNormSpec::new(0).problem(&[2, 30, 5], None, None) => "group_norm: num_groups is 0, minimum 1";
        spec.problem(&[4], None, None) => "group_norm: input has rank 1, minimum 2";
        spec.problem(&[2, 8, 5], Some(&[4]), None) => "group_norm: weight[0] is 4, expected 8";
        spec.problem(&[2, 8, 5], None, Some(&[8, 1])) => "group_norm: bias has rank 2, expected 1";
        spec.problem(&[1, 4, 1, 1], None, None)
            => "group_norm: values per group is 1, minimum 2 (one value has no deviation)";
        spec.eps(f64::NAN).problem(&[2, 8, 5], None, None)
            => "group_norm: eps is NaN, minimum 0";
        spec.eps(-1e-5).problem(&[2, 8, 5], None, None)
            => "group_norm: eps is -0.00001, minimum 0";
    }
}

/// Inputs without elements.
const EMPTY: [&[usize]; 3] = [&[0, 8, 5], &[2, 8, 0], &[2, 0, 5]];

#[test]
fn group_norm_accepts() {
    let spec = GroupNormSpec::new(4);
    let with_values = [&[2, 4][..], &[2, 4, 1, 1], &[1, 8, 1]];
    for input in EMPTY.into_iter().chain(with_values) {
        spec.problem(input, None, None).unwrap();
    }
    for eps in [0.0, f64::INFINITY] {
        spec.eps(eps).problem(&[2, 8, 5], None, None).unwrap();
    }
}

#[test]
fn instance_norm_refuses_and_accepts() {
    let spec = InstanceNormSpec::default();
    for input in [&[2, 8][..], &[2, 8, 1], &[2, 8, 1, 1, 1]] {
        refused! {
            spec.problem(input, None, None)
                => "instance_norm: spatial elements is 1, minimum 2 (one value has no deviation)";
        }
    }
    refused! {
        InstanceNormSpec::default().eps(f64::NAN).problem(&[2, 8, 5], None, None)
            => "instance_norm: eps is NaN, minimum 0";
    }
    for input in EMPTY
        .into_iter()
        .chain([&[2, 3, 4, 5, 6, 7][..], &[1, 1, 2]])
    {
        spec.problem(input, None, None).unwrap();
    }
}

#[test]
fn prelu_takes_one_slope_or_one_for_each_channel() {
    refused! {
        PreluSpec::default().problem(&[2, 3, 4], &[4]) => "prelu: weight[0] is 4, expected 1 or 3, the number of channels";
        PreluSpec::default().problem(&[2, 3, 4], &[3, 1]) => "prelu: weight has rank 2, expected 1";
        PreluSpec::default().problem(&[3], &[3]) => "prelu: input has rank 1, minimum 2";
        PreluSpec::default().problem(&[1 << 40, 1 << 40], &[1])
            => format!("prelu: input has more elements than memory addresses, limit {MAX_ELEMENTS}");
    }
    let each = PreluSpec::default()
        .problem(&[2, 3, 4, 5], &[3])
        .unwrap()
        .shape;
    assert_eq!((each.n, each.c, each.spatial), (2, 3, 20));
    for (input, elements) in [(&[][..], 1), (&[7], 7), (&[2, 3, 4], 24), (&[0, 3], 0)] {
        let all = PreluSpec::default().problem(input, &[1]).unwrap().shape;
        assert_eq!((all.n, all.c, all.spatial), (1, 1, elements));
    }
}

#[test]
fn scale_and_max_refuse_and_accept() {
    let max = |dim: &[isize]| ReductionSpec::new(ReductionOp::Max, dim);
    let softmax = SoftmaxSpec::new;
    let expected = "expected axes of the input behind the batch, each once";
    refused! {
        ScaleSpec::default().problem(&[2, 3, 4], &[4]) => "scale: scale[0] is 4, expected 3";
        ScaleSpec::default().problem(&[2], &[2]) => "scale: input has rank 1, minimum 2";
        max(&[1]).problem(&[2, 0, 4]) => "max: input[1] is 0, minimum 1";
        max(&[1, 2]).problem(&[2, 3, 0]) => "max: input[2] is 0, minimum 1";
        max(&[1]).problem(&[2]) => "max: input has rank 1, minimum 2";
        max(&[]).problem(&[2, 3]) => format!("max: dim is [], {expected}");
        max(&[1, 0]).problem(&[2, 3]) => format!("max: dim is 0, {expected}");
        max(&[1, -2]).problem(&[2, 3, 4]) => format!("max: dim is -2, {expected}");
        softmax(&[0]).problem(&[2, 3]) => format!("softmax: dim is 0, {expected}");
        softmax(&[]).problem(&[2, 3]) => format!("softmax: dim is [], {expected}");
        softmax(&[1]).problem(&[2]) => "softmax: input has rank 1, minimum 2";
        softmax(&[1, 3]).problem(&[2, 3, 4, 5]) =>
            "softmax: dim has too many groups of adjacent axes, limit 1";
        LogSoftmaxSpec::new(&[4]).problem(&[2, 3]) => format!("log_softmax: dim is 4, {expected}");
        max(&[3]).problem(&[2, 3, 4]) => format!("max: dim is 3, {expected}");
        max(&[1, 1]).problem(&[2, 3, 4]) => format!("max: dim is 1, {expected}");
        max(&[isize::MIN]).problem(&[2, 3, 4]) => format!("max: dim is {}, {expected}", isize::MIN);
        max(&[isize::MAX]).problem(&[2, 3, 4]) => format!("max: dim is {}, {expected}", isize::MAX);
        max(&[1]).problem(&[2, 1 << 40, 1 << 40])
            => format!("max: input has more elements than memory addresses, limit {MAX_ELEMENTS}");
        max(&[1, 3, 5, 7]).problem(&[2; 9])
            => "max: dim has too many groups of adjacent axes, limit 3";
    }
    ScaleSpec::default().problem(&[0, 3], &[3]).unwrap();
    for (input, outputs) in [(&[2, 1][..], 2), (&[0, 1, 7], 0)] {
        let problem = max(&[1 - input.len() as isize]).problem(input).unwrap();
        assert_eq!(problem.output_elements(), outputs);
    }
    // Groups of axes, the largest first. Axes with one element join any group.
    let passes = |dim: &[isize], input: &[usize]| {
        let problem = max(dim).problem(input).unwrap();
        let passes = problem.passes().iter();
        passes
            .map(|pass| [pass.outer, pass.reduced, pass.inner])
            .collect::<Vec<_>>()
    };
    assert_eq!(passes(&[2, 3], &[2, 3, 4, 5]), [[6, 20, 1]]);
    assert_eq!(passes(&[1], &[2, 3, 4, 5]), [[2, 3, 20]]);
    assert_eq!(passes(&[1, 3], &[2, 3, 1, 5]), [[2, 15, 1]]);
    assert_eq!(passes(&[1, 3], &[2, 3, 4, 5]), [[24, 5, 1], [2, 3, 4]]);
    assert_eq!(passes(&[-1, 1], &[2, 6, 4, 5, 3]), [[2, 6, 60], [40, 3, 1]]);
    assert_eq!(passes(&[1], &[2, 1, 4]), [[2, 1, 4]]);
    assert_eq!(
        passes(&[1, 3, 5], &[1, 3, 2, 4, 2, 5, 7]),
        [[48, 5, 7], [6, 4, 14], [1, 3, 28]]
    );
}

#[test]
fn max_pool2d_refuses() {
    let spec = MaxPool2dSpec::new([3, 2]);
    let input = [2, 3, 8, 9];
    refused! {
        spec.problem(&[3, 8, 9]) => "max_pool2d: input has rank 3, expected 4";
        spec.problem(&[2, 0, 8, 9]) => "max_pool2d: input[1] is 0, minimum 1";
        MaxPool2dSpec::new([0, 2]).problem(&input) => "max_pool2d: kernel_size[0] is 0, minimum 1";
        spec.stride([1, 0]).problem(&input) => "max_pool2d: stride[1] is 0, minimum 1";
        spec.padding([2, 0]).problem(&input)
            => "max_pool2d: padding[0] is 2, limit kernel_size[0] / 2 = 1";
        MaxPool2dSpec::new([3, 10]).problem(&input)
            => "max_pool2d: the dilated window spans 10 elements of spatial axis 1, the padded input has 9";
    }
}

#[test]
fn max_pool2d_accepts() {
    let shape = |spec: MaxPool2dSpec, input: [usize; 4]| {
        let [_, p, q] = spec.problem(&input).unwrap().pool.output;
        [p, q]
    };
    let fours = MaxPool2dSpec::new(4);
    assert_eq!(shape(fours, [128, 64, 126, 126]), [31, 31]);
    assert_eq!(shape(MaxPool2dSpec::new([3, 2]), [0, 1, 3, 2]), [1, 1]);
    let ceil = MaxPool2dSpec::new([3, 2]).ceil_mode(true);
    assert_eq!(shape(ceil, [1, 1, 7, 5]), [3, 3]);
    // With ceil_mode a window may be larger than the image by less than the stride.
    assert_eq!(shape(ceil, [1, 1, 1, 1]), [1, 1]);
    // The last window would start in the padding on the right and is left out.
    let padded = ceil.padding(1).stride(2);
    assert_eq!(shape(padded, [1, 1, 2, 2]), [2, 2]);
    assert_eq!(shape(padded, [1, 1, 3, 3]), [2, 2]);
}

#[test]
fn clamp_resolves_its_bounds_as_pytorch_does() {
    let bounds = |min: Option<f64>, max: Option<f64>| ClampSpec::new(min, max).bounds();
    let infinity = f64::INFINITY;
    refused! {
        bounds(None, None) => "clamp: min and max are both absent, at least one is needed";
    }
    let (min_val, max_val) = (0.5, -0.5);
    let hardtanh = PointwiseSpec::Hardtanh { min_val, max_val };
    refused! {
        hardtanh.problem(&[2]) => "hardtanh: min_val is 0.5, above max_val, which is -0.5";
    }
    assert_eq!(bounds(Some(1.0), None), Ok((1.0, infinity)));
    assert_eq!(bounds(None, Some(1.0)), Ok((-infinity, 1.0)));
    assert_eq!(bounds(Some(f64::NAN), None), Ok((-infinity, infinity)));
    assert_eq!(bounds(None, Some(f64::NAN)), Ok((-infinity, infinity)));
    assert!(bounds(Some(f64::NAN), Some(1.0)).unwrap().0.is_nan());
    assert_eq!(ClampSpec::new(0.0, 1.0).problem(&[]).unwrap().len, 1);
    assert_eq!(ClampSpec::new(0.0, 1.0).problem(&[3, 0]).unwrap().len, 0);
}

#[test]
fn kernels_refuse_planes_beyond_32_bits_and_nothing_smaller() {
    let spec = Conv2dSpec::default();
    let geometry = |h, w| {
        let problem = spec.problem(&[1, 1, h, w], &[1, 1, 1, 1], None).unwrap();
        problem.geometry()
    };
    assert!(geometry(1 << 15, 1 << 15).is_ok());
    refused! {
        geometry(1 << 16, 1 << 15) => "conv2d: padded input plane is 2147483648, limit 2147483647 on a GPU";
    }
    let batch = spec
        .problem(&[1 << 24, 64, 8, 8], &[1, 64, 1, 1], None)
        .unwrap();
    assert_eq!(batch.geometry().unwrap().n, 1 << 24);
}

#[test]
fn batch_norm_refuses() {
    let spec = BatchNormSpec::default();
    let input = [2, 6, 10, 12];
    refused! {
        spec.problem(&[6], Some([&[6]; 2]), None, None) => "batch_norm: input has rank 1, minimum 2";
        spec.problem(&input, Some([&[5], &[6]]), None, None) => "batch_norm: running_mean[0] is 5, expected 6";
        spec.problem(&input, Some([&[6], &[6, 1]]), None, None) => "batch_norm: running_var has rank 2, expected 1";
        spec.problem(&input, None, Some(&[7]), None) => "batch_norm: weight[0] is 7, expected 6";
        spec.problem(&input, None, None, Some(&[7])) => "batch_norm: bias[0] is 7, expected 6";
        spec.problem(&[1, 6, 1], None, None, None)
            => "batch_norm: values per channel is 1, minimum 2 (one value has no deviation)";
        spec.training(true).problem(&[1, 6], Some([&[6]; 2]), None, None)
            => "batch_norm: values per channel is 1, minimum 2 (one value has no deviation)";
        spec.training(true).momentum(None).problem(&input, Some([&[6]; 2]), None, None)
            => "batch_norm: momentum is null, expected a finite number in training";
        spec.training(true).momentum(f64::INFINITY).check()
            => "batch_norm: momentum is not finite, expected a finite number in training";
    }
    for eps in [-1e-5, 0.0, f64::NAN] {
        let spec = BatchNormSpec::default().eps(eps);
        let refusal = spec.problem(&input, None, None, None).unwrap_err();
        assert!(matches!(refusal, SpecError::Eps { .. }), "{refusal}");
    }
    // As at inference in PyTorch: a single value, an empty batch, no deviation.
    for input in [[1, 6, 1, 1], [0, 6, 3, 3], [2, 6, 0, 3]] {
        let spec = BatchNormSpec::default();
        assert!(spec.problem(&input, Some([&[6]; 2]), None, None).is_ok());
        // With the batch's statistics, only a single value is refused.
        let by_batch = spec.problem(&input, None, None, None);
        assert_eq!(by_batch.is_ok(), input != [1, 6, 1, 1]);
    }
}
