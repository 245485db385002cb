//! The cases of pools, and their golden files.

use op_spec::graph::Layer;
use op_spec::{AdaptiveAvgPoolSpec, AvgPool2dSpec, AvgPool3dSpec, AvgPoolSpec, MaxPool3dSpec};
use serde::Deserialize;

use crate::golden_file::{GoldenFlaw, Reader};
use crate::{Case, Cases};

pub(in super::super) const MAX_POOL3D: Cases = Cases {
    kind: "max_pool3d",
    smoke: || vec![max("plain", [2, 3, 4, 6, 8], MaxPool3dSpec::new([2; 3]))],
    ragged: max_ragged,
    realistic: || {
        let stem = MaxPool3dSpec {
            stride: Some([2; 3]),
            padding: [1; 3],
            ..MaxPool3dSpec::new([3; 3])
        };
        vec![
            max("unet", [1, 32, 16, 32, 32], MaxPool3dSpec::new([2; 3])),
            max("stem", [1, 8, 8, 28, 28], stem),
        ]
    },
    golden: "max_pool3d",
    read: |file| {
        let of: Windows<3> = file.attributes()?;
        let spec = MaxPool3dSpec {
            kernel_size: of.kernel,
            stride: Some(of.stride),
            padding: of.padding,
            dilation: of.dilation.unwrap_or([1; 3]),
            ceil_mode: of.ceil_mode,
        };
        file.case("max_pool3d", [Layer::max_pool3d(spec)], &[])
    },
};

pub(in super::super) const AVG_POOL2D: Cases = Cases {
    kind: "avg_pool2d",
    smoke: || vec![images("plain", [2, 3, 8, 12], AvgPoolSpec::new([2, 2]))],
    ragged: images_ragged,
    realistic: || {
        vec![
            images("transition", [2, 64, 28, 28], AvgPoolSpec::new([2, 2])),
            images("pyramid", [1, 16, 60, 60], AvgPoolSpec::new([20, 20])),
            images("head", [4, 128, 7, 7], AvgPoolSpec::new([7, 7])),
        ]
    },
    golden: "avg_pool2d",
    read: |file| {
        let spec = average(file)?;
        file.case("avg_pool2d", [Layer::avg_pool2d(spec)], &[])
    },
};

pub(in super::super) const AVG_POOL3D: Cases = Cases {
    kind: "avg_pool3d",
    smoke: || vec![volumes("plain", [2, 3, 4, 6, 8], AvgPoolSpec::new([2; 3]))],
    ragged: volumes_ragged,
    realistic: || {
        vec![
            volumes("video", [1, 16, 8, 28, 28], AvgPoolSpec::new([2; 3])),
            volumes("head", [2, 64, 2, 7, 7], AvgPoolSpec::new([2, 7, 7])),
        ]
    },
    golden: "avg_pool3d",
    read: |file| {
        let spec = average(file)?;
        file.case("avg_pool3d", [Layer::avg_pool3d(spec)], &[])
    },
};

pub(in super::super) const ADAPTIVE_AVG_POOL2D: Cases = Cases {
    kind: "adaptive_avg_pool2d",
    smoke: || vec![whole("plain", &[2, 3, 8, 12])],
    ragged: || {
        vec![
            whole("empty_batch", &[0, 3, 8, 9]),
            whole("one_value", &[2, 3, 1, 1]),
            whole("row", &[2, 5, 1, 129]),
            whole("odd_planes", &[3, 7, 13, 11]),
            whole("shifted", &[2, 3, 41, 53]).shifted(1000.0),
            // Two parts and a third of an element; planes that are vectors, and that are not.
            whole("parts", &[1, 2, 4, 2049]),
            whole("odd_parts", &[2, 1, 11, 1117]),
            whole("nan_and_infinities", &[2, 31, 5, 7]).special(),
            whole("poisoned_parts", &[1, 2, 67, 71]).poisoned(),
        ]
    },
    realistic: || {
        vec![
            whole("resnet", &[4, 512, 7, 7]),
            whole("high_resolution", &[1, 2, 512, 384]),
        ]
    },
    golden: "adaptive_avg_pool2d",
    read: |file| {
        let spec: AdaptiveAvgPoolSpec<2> = adaptive(file)?;
        file.case("adaptive_avg_pool2d", [Layer::AdaptiveAvgPool2d(spec)], &[])
    },
};

pub(in super::super) const ADAPTIVE_AVG_POOL3D: Cases = Cases {
    kind: "adaptive_avg_pool3d",
    smoke: || vec![whole("plain", &[2, 3, 4, 6, 8])],
    ragged: || {
        vec![
            whole("empty_batch", &[0, 3, 4, 5, 6]),
            whole("one_value", &[2, 3, 1, 1, 1]),
            whole("odd_volumes", &[2, 5, 3, 7, 11]),
            whole("parts", &[1, 2, 17, 16, 32]),
            whole("nan_and_infinities", &[2, 17, 3, 5, 3]).special(),
        ]
    },
    realistic: || {
        vec![
            whole("video", &[2, 128, 2, 7, 7]),
            whole("volume", &[1, 2, 64, 64, 64]),
        ]
    },
    golden: "adaptive_avg_pool3d",
    read: |file| {
        let spec: AdaptiveAvgPoolSpec<3> = adaptive(file)?;
        file.case("adaptive_avg_pool3d", [Layer::AdaptiveAvgPool3d(spec)], &[])
    },
};

fn case(name: &str, layer: Layer, x: &[usize]) -> Case {
    let name = format!("{}/{name}", layer.operator());
    Case::of_layer(&name, layer, x).expect("a chain")
}

fn max(name: &str, x: [usize; 5], spec: MaxPool3dSpec) -> Case {
    case(name, Layer::max_pool3d(spec), &x)
}

fn images(name: &str, x: [usize; 4], spec: AvgPool2dSpec) -> Case {
    case(name, Layer::avg_pool2d(spec), &x)
}

fn volumes(name: &str, x: [usize; 5], spec: AvgPool3dSpec) -> Case {
    case(name, Layer::avg_pool3d(spec), &x)
}

/// Of images or of volumes.
fn whole(name: &str, x: &[usize]) -> Case {
    let layer = match x.len() {
        4 => Layer::adaptive_avg_pool2d(),
        _ => Layer::adaptive_avg_pool3d(),
    };
    case(name, layer, x)
}

fn max_ragged() -> Vec<Case> {
    let plain = MaxPool3dSpec::new;
    let overlapping = MaxPool3dSpec {
        stride: Some([2, 1, 3]),
        padding: [1, 2, 0],
        ..plain([3, 5, 2])
    };
    let dilated = MaxPool3dSpec {
        stride: Some([3, 2, 1]),
        padding: [1, 1, 1],
        dilation: [2, 1, 3],
        ceil_mode: true,
        ..plain([3, 2, 2])
    };
    let hollow = MaxPool3dSpec {
        stride: Some([1; 3]),
        padding: [1; 3],
        dilation: [2; 3],
        ..plain([2; 3])
    };
    let padding_alone = MaxPool3dSpec {
        stride: Some([1; 3]),
        padding: [0, 1, 0],
        dilation: [1, 6, 1],
        ..plain([2; 3])
    };
    vec![
        max("empty_batch", [0, 3, 4, 8, 9], plain([2, 3, 1])),
        max("identity", [2, 3, 2, 5, 7], plain([1; 3])),
        max("whole_volume", [2, 3, 2, 5, 7], plain([2, 5, 7])),
        max("overlapping_with_pad", [2, 3, 7, 11, 13], overlapping),
        max("dilated_ceil_mode", [1, 5, 11, 9, 17], dilated),
        max("window_around_a_single_voxel", [1, 2, 1, 1, 1], hollow),
        max("windows_around_all_rows", [2, 3, 4, 5, 7], padding_alone),
        max("nan_and_infinities", [2, 3, 7, 9, 11], plain([2, 3, 2])).special(),
        max("nan_with_pad", [1, 2, 11, 7, 13], overlapping).special(),
    ]
}

fn images_ragged() -> Vec<Case> {
    let plain = AvgPool2dSpec::new;
    let padded = AvgPoolSpec {
        stride: Some([2, 1]),
        padding: [1, 2],
        ..plain([3, 5])
    };
    let without = AvgPoolSpec {
        count_include_pad: false,
        ..padded
    };
    let hanging = AvgPoolSpec {
        stride: Some([3, 5]),
        padding: [2, 1],
        ceil_mode: true,
        ..plain([4, 3])
    };
    let hanging_without = AvgPoolSpec {
        count_include_pad: false,
        ..hanging
    };
    let divided = AvgPoolSpec {
        divisor_override: Some(-7),
        ..padded
    };
    let divided_whole = AvgPoolSpec {
        divisor_override: Some(3),
        ..plain([5, 7])
    };
    let large = AvgPoolSpec {
        divisor_override: Some(i64::MAX),
        ..plain([2, 2])
    };
    vec![
        images("empty_batch", [0, 3, 8, 9], plain([2, 3])),
        images("identity", [2, 3, 5, 7], plain([1, 1])),
        images("whole_image", [2, 3, 5, 7], plain([5, 7])),
        images("whole_image_divided", [2, 3, 5, 7], divided_whole),
        images("pad", [2, 3, 13, 11], padded),
        images("pad_not_counted", [2, 3, 13, 11], without),
        images("ceil_mode", [1, 5, 17, 23], hanging),
        images("ceil_mode_not_counted", [1, 5, 17, 23], hanging_without),
        images("divided", [2, 3, 13, 11], divided),
        images("largest_divisor", [1, 2, 4, 4], large),
        images("shifted", [1, 2, 33, 31], plain([11, 7])).shifted(1000.0),
        images("nan_and_infinities", [2, 3, 29, 31], plain([3, 2])).special(),
        images("nan_with_pad", [1, 2, 31, 29], without).special(),
    ]
}

fn volumes_ragged() -> Vec<Case> {
    let plain = AvgPool3dSpec::new;
    let padded = AvgPoolSpec {
        stride: Some([2, 1, 3]),
        padding: [1, 2, 0],
        ..plain([3, 5, 2])
    };
    let without = AvgPoolSpec {
        count_include_pad: false,
        ..padded
    };
    let hanging = AvgPoolSpec {
        stride: Some([3, 2, 4]),
        padding: [1, 1, 1],
        ceil_mode: true,
        ..plain([2, 3, 3])
    };
    let divided = AvgPoolSpec {
        divisor_override: Some(5),
        ..hanging
    };
    vec![
        volumes("empty_batch", [0, 3, 4, 8, 9], plain([2, 3, 1])),
        volumes("identity", [2, 3, 2, 5, 7], plain([1; 3])),
        volumes("whole_volume", [2, 3, 2, 5, 7], plain([2, 5, 7])),
        volumes("pad", [2, 3, 7, 11, 13], padded),
        volumes("pad_not_counted", [2, 3, 7, 11, 13], without),
        volumes("ceil_mode", [1, 5, 11, 9, 17], hanging),
        volumes("divided", [1, 5, 11, 9, 17], divided),
        volumes("nan_and_infinities", [2, 3, 7, 9, 11], plain([2, 3, 2])).special(),
        volumes("nan_with_pad", [1, 2, 11, 7, 13], without).special(),
    ]
}

#[derive(Deserialize)]
struct Windows<const D: usize> {
    #[serde(deserialize_with = "extents")]
    kernel: [usize; D],
    #[serde(deserialize_with = "extents")]
    stride: [usize; D],
    #[serde(deserialize_with = "extents")]
    padding: [usize; D],
    #[serde(default)]
    dilation: Option<[usize; 3]>,
    ceil_mode: bool,
    #[serde(default)]
    count_include_pad: bool,
    #[serde(default)]
    divisor_override: Option<i64>,
}

#[derive(Deserialize)]
struct OutputSize<const D: usize> {
    #[serde(deserialize_with = "extents")]
    output_size: [usize; D],
}

/// An extent for each axis.
fn extents<'de, const D: usize, R: serde::Deserializer<'de>>(
    file: R,
) -> Result<[usize; D], R::Error> {
    let values = Vec::deserialize(file)?;
    let count = values.len();
    let wrong = |_| serde::de::Error::invalid_length(count, &"an extent for each axis");
    values.try_into().map_err(wrong)
}

fn average<const D: usize>(file: &Reader) -> Result<AvgPoolSpec<D>, GoldenFlaw> {
    let of: Windows<D> = file.attributes()?;
    Ok(AvgPoolSpec {
        kernel_size: of.kernel,
        stride: Some(of.stride),
        padding: of.padding,
        ceil_mode: of.ceil_mode,
        count_include_pad: of.count_include_pad,
        divisor_override: of.divisor_override,
    })
}

fn adaptive<const D: usize>(file: &Reader) -> Result<AdaptiveAvgPoolSpec<D>, GoldenFlaw> {
    let of: OutputSize<D> = file.attributes()?;
    Ok(AdaptiveAvgPoolSpec {
        output_size: of.output_size,
    })
}
