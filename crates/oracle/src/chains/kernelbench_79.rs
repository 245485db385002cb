//! conv3d, multiply, instance_norm, clamp, multiply, maximum over the channels.

use op_spec::graph::presets::KernelBench79;
use op_spec::{ClampSpec, Conv3dSpec, InstanceNormSpec};

use crate::golden_file::{GoldenFlaw, Reader};
use crate::{Case, Cases};

pub(super) const CASES: Cases = Cases {
    kind: KIND,
    smoke: || {
        let small = KernelBench79 {
            out_channels: 5,
            ..KernelBench79::default()
        };
        vec![case("plain", [2, 3, 5, 7, 6], small)]
    },
    ragged,
    realistic: || {
        vec![
            case("four_samples", [4, 3, 16, 32, 32], KernelBench79::default()),
            case("a_cut", [1, 3, 5, 9, 8], KernelBench79::default()),
        ]
    },
    golden: "conv3d_multiply_instancenorm_clamp_multiply_max",
    read,
};

const KIND: &str = "kernelbench_79";

fn case(name: &str, x: [usize; 5], attributes: KernelBench79) -> Case {
    let chain = attributes.chain().expect("a chain");
    Case::of_graph(&format!("{KIND}/{name}"), chain, &x)
}

fn ragged() -> Vec<Case> {
    let base = KernelBench79 {
        in_channels: 4,
        out_channels: 6,
        kernel_size: [2, 3, 1],
        clamp: ClampSpec::new(-0.4, 0.8),
        ..KernelBench79::default()
    };
    let every_attribute = KernelBench79 {
        conv: Conv3dSpec::default()
            .stride([1, 2, 1])
            .padding([1, 0, 2])
            .dilation([2, 1, 1])
            .groups(2),
        affine: true,
        instance_norm: InstanceNormSpec::default().eps(1e-3),
        ..base
    };
    let without_bias = KernelBench79 {
        bias: false,
        ..base
    };
    let lower_bound_only = KernelBench79 {
        clamp: ClampSpec::new(-0.2, None),
        ..base
    };
    vec![
        case("empty_batch", [0, 4, 5, 7, 6], base),
        case("primes", [3, 4, 5, 7, 11], base),
        case("every_attribute", [2, 4, 5, 8, 7], every_attribute),
        case("without_bias", [2, 4, 5, 7, 6], without_bias),
        case("lower_bound_only", [1, 4, 5, 7, 6], lower_bound_only),
        case("nan_in_one_sample", [2, 4, 5, 7, 6], base).poisoned(),
        case("input_times_3", [1, 4, 5, 7, 6], base).scaled(3.0),
        case("input_times_a_hundredth", [1, 4, 5, 7, 6], base).scaled(0.01),
        case("input_negated", [1, 4, 5, 7, 6], base).scaled(-1.0),
        case("input_mean_100", [1, 4, 5, 7, 6], base).shifted(100.0),
    ]
}

fn read(file: &mut Reader) -> Result<Case, GoldenFlaw> {
    let (out_channels, kernel_size) = file.filter()?;
    let chain = KernelBench79 {
        in_channels: file.in_channels(),
        out_channels,
        kernel_size,
        bias: file.has("bias"),
        instance_norm: InstanceNormSpec::default().eps(file.attribute("eps")?),
        affine: file.has("gamma"),
        clamp: file.clamp()?,
        ..KernelBench79::default()
    };
    file.chain_case(KIND, chain.chain())
}
