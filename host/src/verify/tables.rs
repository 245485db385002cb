//! Shapes that every backend must get right: small ones, awkward ones, and ones from practice.
//!
//! Inputs are made from the case's name, so a case keeps its data when others come and go.

use op_spec::{
    Conv2dGroupNormScaleMaxPoolClampSpec as Spec85, Conv2dSpec,
    Conv3dMultiplyInstanceNormClampMultiplyMaxSpec as Spec79, Conv3dSpec, GroupNormSpec,
    MaxPool2dSpec,
};

use super::Case;

mod make;
mod ragged;

pub use ragged::ragged;

use make::{
    Affine, channel_max, clamp, conv2d, conv3d, group_norm, instance_norm, max_pool2d, pipeline_79,
    pipeline_85, scale,
};

/// One plain case per operator and pipeline, small enough for any backend.
#[must_use]
pub fn smoke() -> Vec<Case> {
    let spec_85 = Spec85 {
        in_channels: 3,
        out_channels: 8,
        group_norm: GroupNormSpec::new(4),
        max_pool: MaxPool2dSpec::new([2, 2]),
        ..Spec85::kernelbench()
    };
    let spec_79 = Spec79 {
        out_channels: 5,
        ..Spec79::kernelbench()
    };
    vec![
        conv2d(
            "plain",
            [2, 3, 10, 12],
            [4, 3, 3, 3],
            true,
            Conv2dSpec::default(),
        ),
        conv3d(
            "plain",
            [2, 2, 5, 6, 7],
            [3, 2, 3, 3, 3],
            true,
            Conv3dSpec::default(),
        ),
        group_norm("plain", &[2, 6, 5, 7], 3, 1e-5, Affine::Both),
        instance_norm("plain", &[2, 3, 4, 5, 6], 1e-5, Affine::Neither),
        scale("plain", &[2, 3, 5, 7]),
        max_pool2d("plain", [2, 3, 8, 12], MaxPool2dSpec::new([4, 4])),
        clamp("plain", &[2, 3, 50], Some(-0.25), Some(0.5)),
        channel_max("plain", &[2, 7, 5, 6]),
        pipeline_85("plain", [2, 3, 12, 14], spec_85),
        pipeline_79("plain", [2, 3, 5, 7, 6], spec_79),
    ]
}

/// Layers of the sizes that networks have, batches kept small.
#[must_use]
pub fn realistic() -> Vec<Case> {
    let border = Conv2dSpec {
        padding: [1, 1],
        ..Conv2dSpec::default()
    };
    let stem = Conv2dSpec {
        stride: [2, 2],
        padding: [3, 3],
        ..Conv2dSpec::default()
    };
    let pool = MaxPool2dSpec {
        stride: Some([2, 2]),
        padding: [1, 1],
        ..MaxPool2dSpec::new([3, 3])
    };
    let volume = Conv3dSpec {
        padding: [1; 3],
        ..Conv3dSpec::default()
    };
    vec![
        conv2d("resnet_stem", [1, 3, 112, 112], [64, 3, 7, 7], false, stem),
        conv2d(
            "resnet_block",
            [2, 64, 28, 28],
            [64, 64, 3, 3],
            true,
            border,
        ),
        conv2d(
            "pointwise",
            [2, 96, 27, 27],
            [40, 96, 1, 1],
            true,
            Conv2dSpec::default(),
        ),
        conv2d(
            "mobilenet_depthwise",
            [2, 96, 30, 30],
            [96, 1, 3, 3],
            true,
            Conv2dSpec {
                groups: 96,
                ..border
            },
        ),
        conv3d(
            "video_block",
            [1, 16, 8, 28, 28],
            [32, 16, 3, 3, 3],
            true,
            volume,
        ),
        group_norm("unet", &[2, 64, 62, 62], 16, 1e-5, Affine::Both),
        group_norm(
            "layer_norm_of_images",
            &[2, 48, 56, 56],
            1,
            1e-6,
            Affine::Both,
        ),
        instance_norm("segmentation", &[1, 24, 14, 30, 30], 1e-5, Affine::Both),
        scale("layer_scale", &[2, 96, 56, 56]),
        max_pool2d("resnet", [2, 32, 56, 56], pool),
        clamp("relu6", &[2, 32, 56, 56], Some(0.0), Some(6.0)),
        channel_max("maxout", &[2, 16, 14, 30, 30]),
        pipeline_85("two_samples", [2, 8, 128, 128], Spec85::kernelbench()),
        pipeline_79("four_samples", [4, 3, 16, 32, 32], Spec79::kernelbench()),
    ]
}
