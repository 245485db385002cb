//! conv2d, group_norm, scale, max_pool2d, clamp.

use op_spec::graph::presets::KernelBench85;
use op_spec::{ClampSpec, Conv2dSpec, GroupNormSpec, MaxPool2dSpec};

use crate::golden_file::{GoldenFlaw, Reader};
use crate::{Case, Cases};

pub(super) const CASES: Cases = Cases {
    kind: KIND,
    smoke: || {
        let small = KernelBench85 {
            in_channels: 3,
            out_channels: 8,
            group_norm: GroupNormSpec::new(4),
            max_pool: MaxPool2dSpec::new(2),
            ..KernelBench85::default()
        };
        vec![case("plain", [2, 3, 12, 14], small)]
    },
    ragged,
    realistic: || {
        vec![
            case("two_samples", [2, 8, 128, 128], KernelBench85::default()),
            case("a_cut", [1, 8, 10, 14], KernelBench85::default()),
        ]
    },
    golden: "conv2d_groupnorm_scale_maxpool_clamp",
    read,
};

const KIND: &str = "kernelbench_85";

fn case(name: &str, x: [usize; 4], attributes: KernelBench85) -> Case {
    let chain = attributes.chain().expect("a chain");
    Case::of_graph(&format!("{KIND}/{name}"), chain, &x)
}

fn ragged() -> Vec<Case> {
    let base = KernelBench85 {
        in_channels: 6,
        out_channels: 10,
        kernel_size: [3, 2],
        group_norm: GroupNormSpec::new(5).eps(1e-3),
        max_pool: MaxPool2dSpec::new([3, 2]),
        clamp: ClampSpec::new(-0.75, 0.9),
        ..KernelBench85::default()
    };
    let every_attribute = KernelBench85 {
        conv: Conv2dSpec::default()
            .stride([2, 1])
            .padding([1, 2])
            .dilation([1, 2])
            .groups(2),
        max_pool: base.max_pool.stride([2, 3]).padding([1, 0]).ceil_mode(true),
        ..base
    };
    let bare = KernelBench85 {
        bias: false,
        affine: false,
        ..base
    };
    let min_above_max = KernelBench85 {
        clamp: ClampSpec::new(0.5, -0.5),
        ..base
    };
    // The rows of a dilated window lie on either side of the input, both in the padding.
    let padding_alone = KernelBench85 {
        max_pool: MaxPool2dSpec::new(2)
            .stride(1)
            .padding([1, 0])
            .dilation([12, 1]),
        ..base
    };
    let without_pooling = KernelBench85 {
        max_pool: MaxPool2dSpec::new(1),
        ..base
    };
    vec![
        case("empty_batch", [0, 6, 13, 17], base),
        case("primes", [3, 6, 13, 17], base),
        case("every_attribute", [2, 6, 17, 19], every_attribute),
        case("without_bias_or_affine", [2, 6, 11, 13], bare),
        case("min_above_max", [1, 6, 11, 13], min_above_max),
        case("windows_around_all_rows", [2, 6, 13, 17], padding_alone),
        case("nan_in_one_sample", [2, 6, 13, 17], base).poisoned(),
        case("input_times_3", [1, 6, 13, 17], base).scaled(3.0),
        case("input_times_a_hundredth", [1, 6, 13, 17], base).scaled(0.01),
        case("input_negated", [1, 6, 13, 17], base).scaled(-1.0),
        case("input_mean_100", [1, 6, 13, 17], base).shifted(100.0),
        case("one_output_pixel", [2, 6, 3, 2], without_pooling),
    ]
}

fn read(file: &mut Reader) -> Result<Case, GoldenFlaw> {
    let (out_channels, kernel_size) = file.filter()?;
    let chain = KernelBench85 {
        in_channels: file.in_channels(),
        out_channels,
        kernel_size,
        bias: file.has("bias"),
        group_norm: GroupNormSpec::new(file.attribute("num_groups")?).eps(file.attribute("eps")?),
        affine: file.has("gamma"),
        max_pool: MaxPool2dSpec::new([file.attribute("pool")?; 2]),
        clamp: file.clamp()?,
        ..KernelBench85::default()
    };
    file.chain_case(KIND, chain.chain())
}
