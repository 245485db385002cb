//! The integration tests, as one program.
//!
//! Tests of operators and models are written once and exist once per backend, such as
//! `conv2d::emulator::matches_reference_on_ragged_shapes`. The program runs on machines without Rust.
//! Without a GPU, its tests are reported as ignored with the reason; with `CONVFUSE_REQUIRE_GPU` they fail.
//! The folder of golden files is `CONVFUSE_GOLDEN`, or their path at compile time. `CONVFUSE_REPEATS` is the
//! number of runs in tests of repeatability: by default 100 on a GPU and 3 on other backends. `repeats`
//! describes their coverage for the benchmark problems at full size, on a GPU; `suite::repeats` describes it
//! for all operators.
//!
//! The arguments are those of any Rust test program (`--list`, `--skip`, a part of a name).

mod backend;
mod chains;
mod suite;

mod accuracy;
mod add;
mod arrays;
mod batches;
mod blocks;
mod borrowed;
mod channel_reduction;
mod channels_last;
mod channels_last_norms;
mod channels_last_reductions;
mod concatenations;
mod conv;
mod dense_f32;
mod devices;
mod explanations;
mod few_filters;
mod first_layers;
mod fused;
mod graphs;
mod held;
mod images;
mod kernelbench_85;
mod layer_graphs;
mod layouts;
mod models;
mod networks;
mod no_batch;
mod norms;
mod other_chains;
mod partitions;
mod peak;
mod planned_launches;
mod plans;
mod pointwise;
mod pool;
mod prelu;
mod properties;
mod recorded_launches;
mod reduced;
mod refusals;
mod repeats;
mod sequences;
mod series;
mod streams;

use libtest_mimic::{Arguments, Trial};

/// Beginnings of the names of kernels that these tests do not emulate as sm_80 runs them: their problems are
/// too large for the emulator, or their tests expect Hopper's choices. `kernels-gpu/tests` emulates them.
const EMULATED_ELSEWHERE: [&str; 18] = [
    "avg_pool_nhwc",
    "avg_pool_overlapping",
    "clamp_multiply_channel_reduction",
    "conv3d_multiply_instance_norm_clamp_multiply_max",
    "conv_transpose_interleave_nhwc",
    "copy_strided",
    "depthwise_nhwc",
    "gate_nhwc",
    "group_norm_scale_resident",
    "implicit_gemm_m16n256",
    "implicit_gemm_m64n128_f16x2",
    "implicit_gemm_m64n32",
    "implicit_gemm_rescale_f16x2",
    "instance_norm_clamp_multiply_channel_reduction",
    "max_pool_nhwc",
    "max_pool_overlapping",
    "peak",
    "upsample_nhwc",
];

fn main() {
    let arguments = Arguments::from_args();
    // The longest tests first, while the other cores still have work; then the standard tests of everything
    // in the oracle; then additional ones.
    let longest = [add::trials(), batches::trials()];
    let standard = oracle::all().flat_map(suite::of);
    let own = [
        accuracy::trials(),
        arrays::trials(),
        blocks::trials(),
        borrowed::trials(),
        channel_reduction::trials(),
        conv::trials(),
        dense_f32::trials(),
        devices::trials(),
        explanations::trials(),
        few_filters::trials(),
        first_layers::trials(),
        fused::trials(),
        graphs::trials(),
        held::trials(),
        layer_graphs::trials(),
        networks::trials(),
        no_batch::trials(),
        norms::trials(),
        kernelbench_85::trials(),
        layouts::trials(),
        channels_last::trials(),
        channels_last_norms::trials(),
        channels_last_reductions::trials(),
        concatenations::trials(),
        images::trials(),
        models::trials(),
        other_chains::trials(),
        partitions::trials(),
        peak::trials(),
        planned_launches::trials(),
        recorded_launches::trials(),
        plans::trials(),
        pointwise::trials(),
        pool::trials(),
        prelu::trials(),
        series::trials(),
        properties::trials(),
        reduced::trials(),
        refusals::trials(),
        repeats::trials(),
        sequences::trials(),
        streams::trials(),
    ];
    let trials: Vec<Trial> = (longest.into_iter().flatten())
        .chain(standard)
        .chain(own.into_iter().flatten())
        .collect();
    let are_all = arguments.filter.is_none() && arguments.skip.is_empty() && !arguments.list;
    libtest_mimic::run(&arguments, trials).exit_if_failed();
    let mut left = convfuse::lab::portable_kernels_not_emulated();
    left.retain(|kernel| !EMULATED_ELSEWHERE.iter().any(|of| kernel.starts_with(of)));
    assert!(!are_all || left.is_empty(), "no test emulates {left:?}");
}
