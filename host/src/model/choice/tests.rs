//! What is chosen, on devices that need not be there.

mod partitions;

use op_spec::chain::presets::{KernelBench79, KernelBench85};
use op_spec::chain::{ConvLayer, GroupNormLayer, Layer, Partition};
use op_spec::{Conv2dSpec, Conv3dSpec, GroupNormSpec, MaxPool2dSpec};

use super::*;
use crate::ops::Precision;

const H200: DeviceProperties = DeviceProperties {
    multiprocessors: 132,
    shared_bytes_per_block: 232_448,
    has_warpgroup_products: true,
};
const A100: DeviceProperties = DeviceProperties {
    multiprocessors: 108,
    shared_bytes_per_block: 166_912,
    has_warpgroup_products: false,
};
/// A small device of compute capability 8.6.
const SM_86: DeviceProperties = DeviceProperties {
    multiprocessors: 46,
    shared_bytes_per_block: 101_376,
    has_warpgroup_products: false,
};

fn of_85() -> KernelBench85 {
    KernelBench85::default()
}

fn of_79() -> KernelBench79 {
    KernelBench79::default()
}

/// 85 with filters of one channel.
fn depthwise(kernel_size: [usize; 2]) -> KernelBench85 {
    KernelBench85 {
        in_channels: 16,
        out_channels: 16,
        kernel_size,
        conv: Conv2dSpec {
            groups: 16,
            ..Conv2dSpec::default()
        },
        ..of_85()
    }
}

fn chosen(
    chain: &Chain,
    input: &[usize],
    dtype: DType,
    properties: &DeviceProperties,
    options: &Options,
) -> Result<Vec<Chosen>> {
    choose(Question {
        chain,
        problem: &chain.problem(input)?,
        dtype,
        properties,
        options,
    })
}

/// The rows that do the runs, separated by `|`, or the refusal.
fn rows(
    chain: &Chain,
    input: &[usize],
    dtype: DType,
    properties: &DeviceProperties,
    options: &Options,
) -> String {
    match chosen(chain, input, dtype, properties, options) {
        Ok(runs) => {
            let rows: Vec<&str> = runs.iter().map(|run| run.row).collect();
            rows.join(" | ")
        }
        Err(error) => error.to_string(),
    }
}

/// A chain on an input, and the rows on an H200, an A100 and the small device.
type Expected<'a> = (&'a str, Chain, &'a [usize], [&'a str; 3]);

fn check(table: &[Expected<'_>], dtypes: &[DType], options: &Options) {
    for (what, chain, input, expected) in table {
        for &dtype in dtypes {
            let got = [H200, A100, SM_86]
                .map(|properties| rows(chain, input, dtype, &properties, options));
            assert_eq!(got, *expected, "{what}, {dtype}");
        }
    }
}

const DTYPES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];
const GEMM: [&str; 3] = ["implicit-gemm"; 3];
const FULL_85: [usize; 4] = KernelBench85::INPUT;

fn chain_85(attributes: KernelBench85) -> Chain {
    attributes.chain().unwrap()
}

fn chain_79(attributes: KernelBench79) -> Chain {
    attributes.chain().unwrap()
}

/// The first and the last two rows of the table in `DESIGN.md`.
#[test]
fn convolution_norm_and_pool() {
    let one_launch = ["one-launch-2d", "implicit-gemm", "implicit-gemm"];
    let rest = ["direct | norm-scale-pool-clamp"; 3];
    let bare = KernelBench85 {
        bias: false,
        affine: false,
        group_norm: GroupNormSpec::new(64),
        ..of_85()
    };
    let more_channels = KernelBench85 {
        in_channels: 16,
        ..of_85()
    };
    let more_filters = KernelBench85 {
        out_channels: 128,
        ..of_85()
    };
    let wide_filter = KernelBench85 {
        kernel_size: [3, 5],
        ..of_85()
    };
    let other_pool = KernelBench85 {
        max_pool: MaxPool2dSpec::new([2, 2]),
        ..of_85()
    };
    let overlapping = KernelBench85 {
        max_pool: MaxPool2dSpec {
            stride: Some([2, 2]),
            ..MaxPool2dSpec::new([4, 4])
        },
        ..of_85()
    };
    let few_products = KernelBench85 {
        in_channels: 1,
        out_channels: 8,
        group_norm: GroupNormSpec::new(4),
        ..of_85()
    };
    let far_apart = KernelBench85 {
        in_channels: 64,
        conv: Conv2dSpec {
            dilation: [300, 300],
            ..Conv2dSpec::default()
        },
        ..of_85()
    };
    check(
        &[
            ("the benchmark", chain_85(of_85()), &FULL_85, one_launch),
            (
                "one sample",
                chain_85(of_85()),
                &[1, 8, 128, 128],
                one_launch,
            ),
            ("lowest", chain_85(of_85()), &[2, 8, 10, 128], one_launch),
            ("too low", chain_85(of_85()), &[2, 8, 9, 128], GEMM),
            ("highest", chain_85(of_85()), &[2, 8, 133, 128], one_launch),
            ("too high", chain_85(of_85()), &[2, 8, 134, 128], GEMM),
            ("narrow", chain_85(of_85()), &[128, 8, 128, 120], GEMM),
            ("bare", chain_85(bare), &FULL_85, one_launch),
            ("channels", chain_85(more_channels), &[9, 16, 99, 128], GEMM),
            ("filters", chain_85(more_filters), &FULL_85, GEMM),
            ("filter", chain_85(wide_filter), &FULL_85, GEMM),
            ("pool", chain_85(other_pool), &FULL_85, GEMM),
            ("overlapping pool", chain_85(overlapping), &FULL_85, GEMM),
            (
                "few products",
                chain_85(few_products),
                &[9, 1, 60, 60],
                rest,
            ),
            ("dilation", chain_85(far_apart), &[1, 64, 700, 700], rest),
        ],
        &DTYPES,
        &Options::default(),
    );
}

/// The third row.
#[test]
fn depthwise_convolutions() {
    let of_volumes = KernelBench79 {
        in_channels: 16,
        conv: Conv3dSpec {
            groups: 16,
            ..Conv3dSpec::default()
        },
        ..of_79()
    };
    let two_filters = KernelBench85 {
        out_channels: 32,
        ..depthwise([3, 3])
    };
    let rest = ["direct | norm-scale-pool-clamp"; 3];
    let input = [4, 16, 60, 60];
    check(
        &[
            ("small", chain_85(depthwise([3, 3])), &input, ["stencil"; 3]),
            (
                "1,024 taps",
                chain_85(depthwise([32, 32])),
                &input,
                ["stencil"; 3],
            ),
            (
                "volumes",
                chain_79(of_volumes),
                &[4, 16, 8, 20, 20],
                ["stencil"; 3],
            ),
            ("two filters", chain_85(two_filters), &input, rest),
        ],
        &DTYPES,
        &Options::default(),
    );
}

/// The second row.
#[test]
fn convolution_norm_and_channel_max() {
    let one_launch = ["one-launch-3d", "one-launch-3d", "implicit-gemm"];
    let affine = KernelBench79 {
        affine: true,
        ..of_79()
    };
    let more_channels = KernelBench79 {
        in_channels: 4,
        ..of_79()
    };
    let no_bias = KernelBench79 {
        bias: false,
        ..of_79()
    };
    let few_products = KernelBench79 {
        out_channels: 1,
        in_channels: 1,
        ..of_79()
    };
    let rest = ["direct | scale-norm-clamp-scale-max"; 3];
    let (full, one) = (KernelBench79::INPUT, [1, 3, 16, 32, 32]);
    let table: [Expected<'_>; 8] = [
        ("the benchmark", chain_79(of_79()), &full, one_launch),
        ("one sample", chain_79(of_79()), &one, one_launch),
        ("no bias", chain_79(no_bias), &full, one_launch),
        ("affine", chain_79(affine), &full, GEMM),
        (
            "channels",
            chain_79(more_channels),
            &[9, 4, 9, 32, 32],
            GEMM,
        ),
        ("narrow", chain_79(of_79()), &[128, 3, 16, 32, 31], GEMM),
        ("deep", chain_79(of_79()), &[128, 3, 99, 32, 32], GEMM),
        (
            "few products",
            chain_79(few_products),
            &[9, 1, 9, 9, 9],
            rest,
        ),
    ];
    check(&table, &DTYPES, &Options::default());
    // Where the batch may decide, one sample does not fill a device whose blocks cannot share it.
    let small_batch = ["one-launch-3d", "implicit-gemm", "implicit-gemm"];
    check(
        &[
            ("the benchmark", chain_79(of_79()), &full, one_launch),
            ("one sample", chain_79(of_79()), &one, small_batch),
        ],
        &DTYPES,
        &Options::default().batch_invariant(false),
    );
}

#[test]
fn precision_changes_no_row() {
    let fast = Options::default().precision(Precision::Fast);
    check(
        &[
            (
                "85",
                chain_85(of_85()),
                &FULL_85,
                ["one-launch-2d", "implicit-gemm", "implicit-gemm"],
            ),
            (
                "79",
                chain_79(of_79()),
                &KernelBench79::INPUT,
                ["one-launch-3d", "one-launch-3d", "implicit-gemm"],
            ),
        ],
        &[DType::F32],
        &fast,
    );
}

/// Chains that nothing was made for.
#[test]
fn other_chains() {
    let conv = |name| Layer::conv2d(ConvLayer::new(name, 64, [3, 3]));
    let group_norm = || Layer::group_norm("group_norm", 16);
    let scale = || Layer::scale("scale");
    let pool = || Layer::max_pool2d(MaxPool2dSpec::new([4, 4]));
    let clamp = || Layer::clamp(0.0, 1.0);
    let chain = |layers: Vec<Layer>| Chain::new(8, layers).unwrap();
    let head = || vec![conv("a"), group_norm(), scale(), pool(), clamp()];
    let instance_norm = vec![
        conv("a"),
        Layer::instance_norm("norm"),
        scale(),
        pool(),
        clamp(),
    ];
    let eight_groups = Layer::GroupNorm(GroupNormLayer {
        name: "norm".to_owned(),
        attributes: GroupNormSpec::new(8),
        affine: true,
    });
    let one_launch = ["one-launch-2d", "implicit-gemm", "implicit-gemm"];
    let twice = [
        "one-launch-2d | direct",
        "implicit-gemm | direct",
        "implicit-gemm | direct",
    ];
    let input = [2, 8, 128, 128];
    check(
        &[
            ("conv", chain(vec![conv("a")]), &input, ["direct"; 3]),
            (
                "no scale and pool",
                chain(vec![conv("a"), group_norm(), clamp()]),
                &input,
                ["direct | norm | operator"; 3],
            ),
            ("instance norm", chain(instance_norm), &input, one_launch),
            (
                "two convolutions",
                chain([head(), vec![conv("b")]].concat()),
                &input,
                twice,
            ),
            (
                "no convolution",
                chain(vec![eight_groups.clone(), scale(), pool(), clamp()]),
                &input,
                ["norm-scale-pool-clamp"; 3],
            ),
            (
                "two maxima",
                chain(vec![
                    eight_groups,
                    scale(),
                    clamp(),
                    pool(),
                    Layer::channel_max(),
                ]),
                &input,
                ["norm-scale | operator | operator | operator"; 3],
            ),
            (
                "a factor first",
                chain(vec![
                    scale(),
                    pool(),
                    clamp(),
                    scale(),
                    Layer::channel_max(),
                ]),
                &input,
                ["scale-pool-clamp | operator | operator"; 3],
            ),
            (
                "a clamp before factor and maximum",
                chain(vec![clamp(), scale(), Layer::channel_max(), clamp()]),
                &input,
                ["clamp-scale-max | operator"; 3],
            ),
        ],
        &DTYPES,
        &Options::default(),
    );
    // The factor behind the norm is another one than that before it.
    let mut layers = chain_79(of_79()).layers().to_vec();
    layers[4] = Layer::scale("other");
    let other_factor = Chain::new(3, layers).unwrap();
    check(
        &[(
            "another factor",
            other_factor,
            &KernelBench79::INPUT,
            ["direct | operator | norm | clamp-scale-max"; 3],
        )],
        &DTYPES,
        &Options::default(),
    );
}
