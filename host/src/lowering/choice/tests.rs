//! The choice of kernels, for devices that need not be present.

use op_spec::graph::presets::{KernelBench79, KernelBench85};
use op_spec::graph::{Chain, Graph};
use op_spec::{Conv2dSpec, Conv3dSpec, GroupNormSpec, MaxPool2dSpec};

use super::*;
use crate::device::{DType, DeviceProperties, Order};
use crate::lowering::planned;
use crate::model::Options;
use crate::operators::Precision;

/// A table of layers, each with what a test expects of them.
macro_rules! layers {
    ($([$($layer:expr),+] => $expected:expr;)+) => {
        [$((vec![$(op_spec::graph::Layer::from($layer)),+], $expected)),+]
    };
}

mod batch_statistics;
mod kept_values;
mod layouts;
mod other_chains;
mod partitions;

/// Returns a device by its index in the table of named devices, with this number of multiprocessors.
const fn device(index: usize, multiprocessors: u32) -> DeviceProperties {
    DeviceProperties {
        multiprocessors,
        ..DeviceProperties::NAMED[index].1
    }
}

const H200: DeviceProperties = device(5, 132);
const A100: DeviceProperties = device(1, 108);
/// A small device of compute capability 8.6.
const SM_86: DeviceProperties = device(0, 46);

fn of_85() -> KernelBench85 {
    KernelBench85::default()
}

fn of_79() -> KernelBench79 {
    KernelBench79::default()
}

/// Problem 85 as a depthwise convolution.
fn depthwise(kernel_size: [usize; 2]) -> KernelBench85 {
    KernelBench85 {
        in_channels: 16,
        out_channels: 16,
        kernel_size,
        conv: Conv2dSpec::default().groups(16),
        ..of_85()
    }
}

/// Chooses the kernels for a graph, with the launches of the regions.
fn choose(query: Query<'_>) -> Result<Vec<Chosen>> {
    Ok(planned(query)?.0)
}

fn chosen(
    chain: &Graph,
    input: &[usize],
    dtype: DType,
    properties: &DeviceProperties,
    options: &Options,
) -> Result<Vec<Chosen>> {
    choose(Query {
        graph: chain,
        problem: &chain.problem(input)?,
        dtype,
        orders: &[Order::Dense],
        given: &[],
        read_as: &[],
        properties,
        options,
    })
}

/// Returns the rows that were chosen, separated by `|`, or the refusal.
fn rows(
    chain: &Graph,
    input: &[usize],
    dtype: DType,
    properties: &DeviceProperties,
    options: &Options,
) -> String {
    match chosen(chain, input, dtype, properties, options) {
        Ok(runs) => {
            let rows: Vec<&str> = runs.iter().map(|run| run.facts.kernels).collect();
            rows.join(" | ")
        }
        Err(error) => error.to_string(),
    }
}

/// A description, a chain, its input, and the expected rows on an H200, an A100 and the small device.
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

/// The rows `one-launch-2d` and `implicit-gemm`, and separate operators if neither row can or pays.
#[test]
fn convolution_norm_and_pool() {
    let one_launch = ["one-launch-2d", "implicit-gemm", "implicit-gemm"];
    let rest = ["direct | tensor"; 3];
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
        max_pool: MaxPool2dSpec::new(2),
        ..of_85()
    };
    let overlapping = KernelBench85 {
        max_pool: MaxPool2dSpec::new(4).stride(2),
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
        conv: Conv2dSpec::default().dilation(300),
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

/// The row `depthwise`.
#[test]
fn depthwise_convolutions() {
    let of_volumes = KernelBench79 {
        in_channels: 16,
        conv: Conv3dSpec::default().groups(16),
        ..of_79()
    };
    let two_filters = KernelBench85 {
        out_channels: 32,
        ..depthwise([3, 3])
    };
    let rest = ["direct | tensor"; 3];
    let input = [4, 16, 60, 60];
    check(
        &[
            (
                "small",
                chain_85(depthwise([3, 3])),
                &input,
                ["depthwise"; 3],
            ),
            (
                "1,024 taps",
                chain_85(depthwise([32, 32])),
                &input,
                ["depthwise"; 3],
            ),
            (
                "volumes",
                chain_79(of_volumes),
                &[4, 16, 8, 20, 20],
                ["depthwise"; 3],
            ),
            ("two filters", chain_85(two_filters), &input, rest),
        ],
        &DTYPES,
        &Options::default(),
    );
}

/// The row `one-launch-3d`. With 163 KiB of shared memory, a block has room for a sample in f16, bf16 or as
/// rounded f32. Two halves of an f32 sample need 227 KiB.
#[test]
fn convolution_norm_and_max_over_channels() {
    let one_launch_f32 = ["one-launch-3d", "implicit-gemm", "implicit-gemm"];
    let one_launch_f16 = ["one-launch-3d", "one-launch-3d", "implicit-gemm"];
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
        out_channels: 2,
        in_channels: 1,
        ..of_79()
    };
    let rest = ["direct | tensor"; 3];
    let (full, one) = (KernelBench79::INPUT, [1, 3, 16, 32, 32]);
    let alike = [
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
    ]
    .map(|(what, chain, input, rows)| (what, chain, &input[..], rows));
    check(&alike, &DTYPES, &Options::default());
    let halves = [DType::F16, DType::BF16];
    for (dtypes, one_launch, options) in [
        (&[DType::F32][..], one_launch_f32, Options::default()),
        (
            &[DType::F32],
            one_launch_f16,
            Options::default().precision(Precision::Fast),
        ),
        (&halves, one_launch_f16, Options::default()),
    ] {
        // If the batch may decide, one sample does not fill a device whose blocks cannot share a sample.
        let may_matter = options.clone().batch_invariant(false);
        let benchmark = || ("the benchmark", chain_79(of_79()), &full[..], one_launch);
        let no_bias = ("no bias", chain_79(no_bias), &full[..], one_launch);
        let sample = |rows| ("one sample", chain_79(of_79()), &one[..], rows);
        let table = [benchmark(), no_bias, sample(one_launch)];
        check(&table, dtypes, &options);
        let table = [benchmark(), sample(one_launch_f32)];
        check(&table, dtypes, &may_matter);
    }
}

#[test]
fn fast_products_do_not_change_the_rows_of_images() {
    let one_launch = ["one-launch-2d", "implicit-gemm", "implicit-gemm"];
    check(
        &[("the benchmark", chain_85(of_85()), &FULL_85, one_launch)],
        &[DType::F32],
        &Options::default().precision(Precision::Fast),
    );
}
