//! Awkward shapes and values, where indexing goes wrong first.

use op_spec::{
    ClampSpec, Conv2dGroupNormScaleMaxPoolClampSpec as Spec85, Conv2dSpec,
    Conv3dMultiplyInstanceNormClampMultiplyMaxSpec as Spec79, Conv3dSpec, GroupNormSpec,
    InstanceNormSpec, MaxPool2dSpec,
};

use super::make::{
    Affine, channel_max, clamp, conv2d, conv3d, group_norm, instance_norm, max_pool2d, pipeline_79,
    pipeline_85, poisoned, scale, scaled, shifted, special,
};
use crate::verify::Case;

/// Extents of 0 and 1, primes, height unlike width, groups, stride unlike dilation, borders.
#[must_use]
pub fn ragged() -> Vec<Case> {
    let mut cases = ragged_convolutions();
    cases.extend(ragged_norms());
    cases.extend(ragged_selections());
    cases.extend(ragged_pipelines());
    cases
}

fn ragged_convolutions() -> Vec<Case> {
    let spec = Conv2dSpec::default();
    let volume = Conv3dSpec::default();
    vec![
        conv2d("one_pixel", [1, 1, 1, 1], [1, 1, 1, 1], true, spec),
        conv2d("empty_batch", [0, 3, 7, 9], [5, 3, 3, 2], true, spec),
        conv2d("primes", [3, 5, 13, 29], [7, 5, 3, 3], false, spec),
        conv2d(
            "filter_as_large_as_image",
            [2, 3, 5, 7],
            [11, 3, 5, 7],
            true,
            spec,
        ),
        conv2d("row_filter", [1, 2, 4, 67], [3, 2, 1, 9], true, spec),
        conv2d("column_filter", [1, 2, 67, 3], [3, 2, 9, 1], true, spec),
        conv2d(
            "stride_2x3_padding_1x4_dilation_3x2_groups_3",
            [2, 6, 23, 19],
            [9, 2, 3, 5],
            true,
            Conv2dSpec {
                stride: [2, 3],
                padding: [1, 4],
                dilation: [3, 2],
                groups: 3,
            },
        ),
        conv2d(
            "depthwise",
            [2, 13, 11, 17],
            [26, 1, 3, 3],
            false,
            Conv2dSpec {
                padding: [1, 1],
                groups: 13,
                ..spec
            },
        ),
        conv2d(
            "padding_wider_than_image",
            [1, 2, 2, 3],
            [3, 2, 3, 3],
            true,
            Conv2dSpec {
                padding: [5, 4],
                ..spec
            },
        ),
        conv2d(
            "stride_beyond_filter",
            [1, 3, 31, 37],
            [5, 3, 2, 3],
            true,
            Conv2dSpec {
                stride: [7, 5],
                ..spec
            },
        ),
        conv3d("one_voxel", [1, 1, 1, 1, 1], [1, 1, 1, 1, 1], false, volume),
        conv3d(
            "empty_batch",
            [0, 2, 4, 5, 6],
            [3, 2, 2, 2, 2],
            true,
            volume,
        ),
        conv3d("primes", [2, 3, 5, 11, 7], [13, 3, 2, 3, 5], true, volume),
        conv3d(
            "slice_filter",
            [1, 2, 7, 5, 9],
            [3, 2, 1, 3, 3],
            true,
            volume,
        ),
        conv3d(
            "stride_2x1x3_padding_1x0x2_dilation_1x2x3_groups_2",
            [2, 4, 9, 8, 17],
            [6, 2, 3, 2, 3],
            true,
            Conv3dSpec {
                stride: [2, 1, 3],
                padding: [1, 0, 2],
                dilation: [1, 2, 3],
                groups: 2,
            },
        ),
    ]
}

fn ragged_norms() -> Vec<Case> {
    vec![
        group_norm("empty_batch", &[0, 6, 5, 7], 3, 1e-5, Affine::Both),
        group_norm("empty_image", &[2, 6, 0, 7], 3, 1e-5, Affine::Both),
        group_norm("one_value_per_group", &[2, 5, 1, 1], 5, 1e-5, Affine::Both),
        group_norm("matrix", &[7, 30], 6, 1e-5, Affine::Both),
        group_norm("one_group", &[2, 7, 11, 13], 1, 1e-3, Affine::Weight),
        group_norm("group_per_channel", &[3, 7, 5, 3], 7, 1e-5, Affine::Bias),
        group_norm("volume", &[2, 6, 3, 5, 7], 2, 1e-5, Affine::Both),
        group_norm("long_rows", &[1, 2, 127, 257], 2, 1e-5, Affine::Both),
        shifted(
            group_norm(
                "mean_1000_times_deviation",
                &[2, 4, 33, 35],
                2,
                1e-5,
                Affine::Both,
            ),
            577.0,
        ),
        instance_norm("empty_batch", &[0, 3, 4, 5], 1e-5, Affine::Both),
        instance_norm("two_values", &[3, 5, 2], 1e-5, Affine::Both),
        instance_norm("sequence", &[3, 4, 101], 1e-3, Affine::Weight),
        instance_norm("image", &[2, 3, 17, 19], 1e-5, Affine::Bias),
        instance_norm(
            "four_spatial_dimensions",
            &[2, 3, 2, 3, 5, 4],
            1e-5,
            Affine::Both,
        ),
        shifted(
            instance_norm(
                "mean_1000_times_deviation",
                &[2, 3, 9, 13, 11],
                1e-5,
                Affine::Neither,
            ),
            -577.0,
        ),
    ]
}

fn ragged_selections() -> Vec<Case> {
    let overlapping = MaxPool2dSpec {
        stride: Some([2, 1]),
        padding: [1, 2],
        ..MaxPool2dSpec::new([3, 5])
    };
    let dilated = MaxPool2dSpec {
        stride: Some([3, 2]),
        padding: [1, 1],
        dilation: [2, 3],
        ceil_mode: true,
        ..MaxPool2dSpec::new([3, 2])
    };
    let hollow = MaxPool2dSpec {
        stride: Some([1, 1]),
        padding: [1, 1],
        dilation: [2, 2],
        ..MaxPool2dSpec::new([2, 2])
    };
    vec![
        scale("empty_batch", &[0, 3, 5]),
        scale("matrix", &[5, 13]),
        scale("one_value", &[1, 1, 1, 1]),
        scale("primes", &[3, 7, 11, 13, 5]),
        max_pool2d("empty_batch", [0, 3, 8, 9], MaxPool2dSpec::new([2, 3])),
        max_pool2d("identity", [2, 3, 5, 7], MaxPool2dSpec::new([1, 1])),
        max_pool2d("whole_image", [2, 3, 5, 7], MaxPool2dSpec::new([5, 7])),
        max_pool2d("overlapping_with_border", [2, 3, 13, 11], overlapping),
        max_pool2d("dilated_ceil_mode", [1, 5, 17, 23], dilated),
        max_pool2d("window_around_a_single_pixel", [1, 2, 1, 1], hollow),
        special(max_pool2d(
            "nan_and_infinities",
            [2, 3, 29, 31],
            MaxPool2dSpec::new([3, 2]),
        )),
        special(max_pool2d(
            "nan_and_infinities_with_border",
            [1, 2, 31, 29],
            overlapping,
        )),
        clamp("scalar", &[], Some(0.1), Some(0.2)),
        clamp("empty", &[0, 3], Some(0.1), Some(0.2)),
        clamp("lower_bound_only", &[3, 1031], Some(0.1), None),
        clamp("upper_bound_only", &[1031], None, Some(0.1)),
        clamp("min_above_max", &[3, 101], Some(0.5), Some(-0.5)),
        clamp("nan_bound", &[101], Some(f64::NAN), Some(0.5)),
        clamp("nan_bound_alone", &[101], None, Some(f64::NAN)),
        special(clamp(
            "nan_and_infinities",
            &[2, 3, 211],
            Some(-0.5),
            Some(0.25),
        )),
        special(clamp(
            "nan_and_infinities_min_above_max",
            &[211],
            Some(0.5),
            Some(-0.25),
        )),
        channel_max("empty_batch", &[0, 3, 5]),
        channel_max("empty_image", &[2, 3, 0]),
        channel_max("one_channel", &[2, 1, 7, 5]),
        channel_max("matrix", &[5, 67]),
        channel_max("many_channels", &[1, 521, 3, 7]),
        special(channel_max("nan_and_infinities", &[2, 11, 7, 13])),
    ]
}

fn ragged_pipelines() -> Vec<Case> {
    let base = Spec85 {
        in_channels: 6,
        out_channels: 10,
        kernel_size: [3, 2],
        group_norm: GroupNormSpec {
            num_groups: 5,
            eps: 1e-3,
        },
        max_pool: MaxPool2dSpec::new([3, 2]),
        clamp: ClampSpec::new(-0.75, 0.9),
        ..Spec85::kernelbench()
    };
    let every_attribute = Spec85 {
        conv: Conv2dSpec {
            stride: [2, 1],
            padding: [1, 2],
            dilation: [1, 2],
            groups: 2,
        },
        max_pool: MaxPool2dSpec {
            stride: Some([2, 3]),
            padding: [1, 0],
            ceil_mode: true,
            ..base.max_pool
        },
        ..base
    };
    let volume = Spec79 {
        in_channels: 4,
        out_channels: 6,
        kernel_size: [2, 3, 1],
        clamp: ClampSpec::new(-0.4, 0.8),
        ..Spec79::kernelbench()
    };
    let every_attribute_3d = Spec79 {
        conv: Conv3dSpec {
            stride: [1, 2, 1],
            padding: [1, 0, 2],
            dilation: [2, 1, 1],
            groups: 2,
        },
        affine: true,
        instance_norm: InstanceNormSpec { eps: 1e-3 },
        ..volume
    };
    vec![
        pipeline_85("empty_batch", [0, 6, 13, 17], base),
        pipeline_85("primes", [3, 6, 13, 17], base),
        pipeline_85("every_attribute", [2, 6, 17, 19], every_attribute),
        pipeline_85(
            "without_bias_or_affine",
            [2, 6, 11, 13],
            Spec85 {
                bias: false,
                affine: false,
                ..base
            },
        ),
        pipeline_85(
            "min_above_max",
            [1, 6, 11, 13],
            Spec85 {
                clamp: ClampSpec::new(0.5, -0.5),
                ..base
            },
        ),
        poisoned(pipeline_85("nan_in_one_sample", [2, 6, 13, 17], base)),
        scaled(pipeline_85("input_times_3", [1, 6, 13, 17], base), 3.0),
        scaled(
            pipeline_85("input_times_a_hundredth", [1, 6, 13, 17], base),
            0.01,
        ),
        scaled(pipeline_85("input_negated", [1, 6, 13, 17], base), -1.0),
        shifted(pipeline_85("input_mean_100", [1, 6, 13, 17], base), 100.0),
        pipeline_85(
            "one_output_pixel",
            [2, 6, 3, 2],
            Spec85 {
                max_pool: MaxPool2dSpec::new([1, 1]),
                ..base
            },
        ),
        pipeline_79("empty_batch", [0, 4, 5, 7, 6], volume),
        pipeline_79("primes", [3, 4, 5, 7, 11], volume),
        pipeline_79("every_attribute", [2, 4, 5, 8, 7], every_attribute_3d),
        pipeline_79(
            "without_bias",
            [2, 4, 5, 7, 6],
            Spec79 {
                bias: false,
                ..volume
            },
        ),
        pipeline_79(
            "lower_bound_only",
            [1, 4, 5, 7, 6],
            Spec79 {
                clamp: ClampSpec {
                    min: Some(-0.2),
                    max: None,
                },
                ..volume
            },
        ),
        poisoned(pipeline_79("nan_in_one_sample", [2, 4, 5, 7, 6], volume)),
        scaled(pipeline_79("input_times_3", [1, 4, 5, 7, 6], volume), 3.0),
        scaled(
            pipeline_79("input_times_a_hundredth", [1, 4, 5, 7, 6], volume),
            0.01,
        ),
        scaled(pipeline_79("input_negated", [1, 4, 5, 7, 6], volume), -1.0),
        shifted(
            pipeline_79("input_mean_100", [1, 4, 5, 7, 6], volume),
            100.0,
        ),
    ]
}
