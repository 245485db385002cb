//! Cases of convolutions of images and volumes.

use op_spec::graph::{ConvLayer, Layer};
use op_spec::{Conv2dSpec, Conv3dSpec, ConvSpec, Padding, PaddingMode};

use super::golden::{NAMES, layer};
use crate::{Case, Cases};

pub(in super::super) const CONV2D: Cases = Cases {
    kind: "conv2d",
    smoke: || {
        let spec = Conv2dSpec::default();
        vec![conv2d("plain", [2, 3, 10, 12], 4, [3, 3], true, spec)]
    },
    ragged: ragged_images,
    realistic: realistic_images,
    golden: "conv2d",
    read: |file| {
        let layer = Layer::conv2d(layer(file)?);
        file.case("conv2d", [layer], &NAMES)
    },
};

pub(in super::super) const CONV3D: Cases = Cases {
    kind: "conv3d",
    smoke: || {
        let spec = Conv3dSpec::default();
        vec![conv3d("plain", [2, 2, 5, 6, 7], 3, [3, 3, 3], true, spec)]
    },
    ragged: ragged_volumes,
    realistic: || {
        let pad = Conv3dSpec {
            padding: [1; 3].into(),
            ..Conv3dSpec::default()
        };
        vec![
            conv3d("video_block", [1, 16, 8, 28, 28], 32, [3; 3], true, pad),
            conv3d(
                "bottleneck",
                [1, 8, 4, 14, 14],
                8,
                [3; 3],
                true,
                Conv3dSpec::default(),
            ),
        ]
    },
    golden: "conv3d",
    read: |file| {
        let layer = Layer::conv3d(layer(file)?);
        file.case("conv3d", [layer], &NAMES)
    },
};

pub(super) fn conv<const D: usize>(
    out_channels: usize,
    kernel_size: [usize; D],
    bias: bool,
    attributes: ConvSpec<D>,
) -> ConvLayer<D> {
    ConvLayer {
        name: "conv".to_owned(),
        out_channels,
        kernel_size,
        attributes,
        bias,
    }
}

fn conv2d(
    name: &str,
    x: [usize; 4],
    out_channels: usize,
    kernel_size: [usize; 2],
    bias: bool,
    spec: Conv2dSpec,
) -> Case {
    let layer = Layer::conv2d(conv(out_channels, kernel_size, bias, spec));
    Case::of_layer(&format!("conv2d/{name}"), layer, &x).expect("a chain")
}

fn conv3d(
    name: &str,
    x: [usize; 5],
    out_channels: usize,
    kernel_size: [usize; 3],
    bias: bool,
    spec: Conv3dSpec,
) -> Case {
    let layer = Layer::conv3d(conv(out_channels, kernel_size, bias, spec));
    Case::of_layer(&format!("conv3d/{name}"), layer, &x).expect("a chain")
}

fn realistic_images() -> Vec<Case> {
    let plain = Conv2dSpec::default();
    let pad = Conv2dSpec {
        padding: [1, 1].into(),
        ..plain
    };
    let stem = Conv2dSpec {
        stride: [2, 2],
        padding: [3, 3].into(),
        ..plain
    };
    let depthwise = Conv2dSpec { groups: 96, ..pad };
    vec![
        conv2d("resnet_stem", [1, 3, 112, 112], 64, [7, 7], false, stem),
        conv2d("resnet_block", [2, 64, 28, 28], 64, [3, 3], true, pad),
        conv2d("pointwise", [2, 96, 27, 27], 40, [1, 1], true, plain),
        conv2d("squeeze", [1, 64, 14, 14], 40, [1, 1], true, plain),
        conv2d(
            "mobilenet_depthwise",
            [2, 96, 30, 30],
            96,
            [3, 3],
            true,
            depthwise,
        ),
    ]
}

fn ragged_images() -> Vec<Case> {
    let spec = Conv2dSpec::default();
    let everything = Conv2dSpec {
        stride: [2, 3],
        padding: [1, 4].into(),
        dilation: [3, 2],
        groups: 3,
        ..spec
    };
    let depthwise = Conv2dSpec {
        padding: [1, 1].into(),
        groups: 13,
        ..spec
    };
    let wide_pad = Conv2dSpec {
        padding: [5, 4].into(),
        ..spec
    };
    let strided = Conv2dSpec {
        stride: [7, 5],
        ..spec
    };
    let same = Conv2dSpec {
        padding: Padding::Same,
        groups: 2,
        ..spec
    };
    let mode = |padding: [usize; 2], padding_mode| Conv2dSpec {
        padding: padding.into(),
        padding_mode,
        ..spec
    };
    vec![
        conv2d("one_pixel", [1, 1, 1, 1], 1, [1, 1], true, spec),
        conv2d("empty_batch", [0, 3, 7, 9], 5, [3, 2], true, spec),
        conv2d("primes", [3, 5, 13, 29], 7, [3, 3], false, spec),
        conv2d(
            "filter_as_large_as_image",
            [2, 3, 5, 7],
            11,
            [5, 7],
            true,
            spec,
        ),
        conv2d("row_filter", [1, 2, 4, 67], 3, [1, 9], true, spec),
        conv2d("column_filter", [1, 2, 67, 3], 3, [9, 1], true, spec),
        conv2d(
            "stride_2x3_padding_1x4_dilation_3x2_groups_3",
            [2, 6, 23, 19],
            9,
            [3, 5],
            true,
            everything,
        ),
        conv2d("depthwise", [2, 13, 11, 17], 26, [3, 3], false, depthwise),
        conv2d(
            "padding_wider_than_image",
            [1, 2, 2, 3],
            3,
            [3, 3],
            true,
            wide_pad,
        ),
        conv2d(
            "stride_beyond_filter",
            [1, 3, 31, 37],
            5,
            [2, 3],
            true,
            strided,
        ),
        conv2d("same", [2, 4, 9, 11], 6, [3, 5], true, same),
        conv2d(
            "same_of_an_even_filter",
            [2, 4, 9, 11],
            6,
            [4, 2],
            true,
            Conv2dSpec {
                dilation: [1, 3],
                ..same
            },
        ),
        conv2d(
            "reflect",
            [2, 3, 5, 9],
            5,
            [3, 3],
            true,
            mode([4, 1], PaddingMode::Reflect),
        ),
        conv2d(
            "replicate",
            [2, 3, 5, 9],
            5,
            [3, 3],
            true,
            mode([7, 2], PaddingMode::Replicate),
        ),
        conv2d(
            "circular",
            [2, 3, 5, 9],
            5,
            [3, 3],
            true,
            mode([5, 0], PaddingMode::Circular),
        ),
        conv2d(
            "reflect_strided",
            [2, 3, 13, 17],
            4,
            [3, 4],
            false,
            Conv2dSpec {
                stride: [2, 3],
                ..mode([1, 2], PaddingMode::Reflect)
            },
        ),
        conv2d(
            "same_replicate_of_an_even_filter",
            [0, 3, 13, 17],
            4,
            [2, 4],
            false,
            Conv2dSpec {
                padding: Padding::Same,
                ..mode([0, 0], PaddingMode::Replicate)
            },
        ),
    ]
}

fn ragged_volumes() -> Vec<Case> {
    let spec = Conv3dSpec::default();
    let everything = Conv3dSpec {
        stride: [2, 1, 3],
        padding: [1, 0, 2].into(),
        dilation: [1, 2, 3],
        groups: 2,
        ..spec
    };
    let same = Conv3dSpec {
        padding: Padding::Same,
        ..spec
    };
    let mode = |padding: [usize; 3], padding_mode| Conv3dSpec {
        padding: padding.into(),
        padding_mode,
        ..spec
    };
    vec![
        conv3d("one_voxel", [1, 1, 1, 1, 1], 1, [1, 1, 1], false, spec),
        conv3d("empty_batch", [0, 2, 4, 5, 6], 3, [2, 2, 2], true, spec),
        conv3d("primes", [2, 3, 5, 11, 7], 13, [2, 3, 5], true, spec),
        conv3d("slice_filter", [1, 2, 7, 5, 9], 3, [1, 3, 3], true, spec),
        conv3d(
            "stride_2x1x3_padding_1x0x2_dilation_1x2x3_groups_2",
            [2, 4, 9, 8, 17],
            6,
            [3, 2, 3],
            true,
            everything,
        ),
        conv3d(
            "same_of_an_even_filter",
            [1, 2, 4, 5, 7],
            3,
            [2, 3, 4],
            true,
            same,
        ),
        conv3d(
            "reflect",
            [1, 2, 4, 5, 7],
            3,
            [3; 3],
            true,
            mode([1, 2, 3], PaddingMode::Reflect),
        ),
        conv3d(
            "replicate",
            [1, 2, 4, 5, 7],
            3,
            [3; 3],
            true,
            mode([5, 0, 1], PaddingMode::Replicate),
        ),
        conv3d(
            "circular",
            [1, 2, 4, 5, 7],
            3,
            [3; 3],
            true,
            mode([4, 1, 2], PaddingMode::Circular),
        ),
    ]
}
