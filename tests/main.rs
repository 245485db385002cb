//! The integration tests, as one program.
//!
//! Tests of operators and models are written once and appear once per backend, as
//! `conv2d::emulator::matches_reference_on_ragged_shapes`. The program needs no Rust on the machine it runs
//! on; tests for a GPU report themselves as ignored where none answers, with the reason, unless
//! `CONVFUSE_REQUIRE_GPU` is set: then they fail. Golden files are looked for in the folder
//! `CONVFUSE_GOLDEN`, else where they were at compile time. `CONVFUSE_REPEATS` says how often the tests of
//! repeatability run an operation: 100 times on a GPU, 3 elsewhere. What they cover is told in `repeats` (the
//! benchmark problems at full size, on a GPU) and at `suite::repeats` (all operators).
//!
//! Arguments are those of any Rust test program (`--list`, `--skip`, a part of a name).

mod backend;
mod chains;
mod cost;
mod suite;

mod accuracy;
mod add;
mod arrays;
mod batch_norm;
mod batches;
mod blocks;
mod borrowed;
mod channel_max;
mod channels_last;
mod conv1d;
mod conv2d;
mod conv3d;
mod devices;
mod explanations;
mod first_layers;
mod fused;
mod graphs;
mod group_norm;
mod held;
mod instance_norm;
mod kernelbench_85;
mod layer_graphs;
mod layer_norm;
mod layouts;
mod max_pool2d;
mod models;
mod no_batch;
mod other_chains;
mod partitions;
mod peak;
mod plans;
mod pointwise;
mod pool;
mod prelu;
mod properties;
mod repeats;
mod scale;
mod streams;

use libtest_mimic::{Arguments, Trial};

fn main() {
    let arguments = Arguments::from_args();
    // What takes longest, while there is other work left for the other cores; what everything is tested for
    // that the oracle knows; then what some need beyond it.
    let longest = [add::trials(), batches::trials()];
    let standard = oracle::all().flat_map(suite::of);
    let own = [
        accuracy::trials(),
        arrays::trials(),
        blocks::trials(),
        borrowed::trials(),
        channel_max::trials(),
        conv1d::trials(),
        conv2d::trials(),
        conv3d::trials(),
        devices::trials(),
        explanations::trials(),
        first_layers::trials(),
        fused::trials(),
        graphs::trials(),
        group_norm::trials(),
        held::trials(),
        instance_norm::trials(),
        batch_norm::trials(),
        layer_graphs::trials(),
        layer_norm::trials(),
        no_batch::trials(),
        kernelbench_85::trials(),
        layouts::trials(),
        channels_last::trials(),
        max_pool2d::trials(),
        models::trials(),
        other_chains::trials(),
        partitions::trials(),
        peak::trials(),
        plans::trials(),
        pointwise::trials(),
        pool::trials(),
        prelu::trials(),
        properties::trials(),
        repeats::trials(),
        scale::trials(),
        streams::trials(),
    ];
    let trials: Vec<Trial> = (longest.into_iter().flatten())
        .chain(standard)
        .chain(own.into_iter().flatten())
        .collect();
    libtest_mimic::run(&arguments, trials).exit();
}
