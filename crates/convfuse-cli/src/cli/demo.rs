//! `convfuse demo`: runs `bench` on both problems at full size with every strategy.

use clap::Parser;
use convfuse::graph::presets::{KernelBench79, KernelBench85};

use super::bench::{self, EMULATED_79, EMULATED_85};
use super::device::Choice;
use super::failure::{Failure, Outcome};
use super::json::Json;
use super::out::Out;

/// Options of `demo`.
#[derive(clap::Args, Default)]
pub(super) struct Arguments {
    /// best, cpu, emulator, gpu, or gpu:ORDINAL
    #[arg(long, default_value = "best")]
    device: Choice,
    /// Samples in the batch [default: the full 128; a small one in the emulator]
    #[arg(long)]
    batch: Option<usize>,
    /// Timed runs per strategy, of which the median counts [default: those of bench]
    #[arg(long, value_parser = bench::repeats)]
    runs: Option<usize>,
    /// Seed of parameters and input
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Go on with what the emulator will take more than ten minutes for
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    json: Json,
}

/// The parsed options of `bench`.
#[derive(Parser)]
struct Bench {
    #[command(flatten)]
    arguments: bench::Arguments,
}

pub(super) fn run(arguments: &Arguments, out: &mut Out) -> Outcome {
    let (mut of_85, mut of_79) = match (arguments.device, arguments.batch) {
        // The emulator takes minutes for one sample of full size.
        (Choice::Emulator, None) => (EMULATED_85, EMULATED_79),
        _ => (KernelBench85::INPUT, KernelBench79::INPUT),
    };
    if let Some(batch) = arguments.batch {
        (of_85[0], of_79[0]) = (batch, batch);
    }
    let shape = |input: &[usize]| {
        let extents: Vec<String> = input.iter().map(usize::to_string).collect();
        format!("--shape={}", extents.join(","))
    };
    let mut options = vec![
        "bench".to_owned(),
        "--no-ceilings".to_owned(),
        "--precision=accurate".to_owned(),
        format!("--device={}", arguments.device),
        format!("--seed={}", arguments.seed),
        shape(&of_85),
        shape(&of_79),
    ];
    if let Some(runs) = arguments.runs {
        options.push(format!("--repeats={runs}"));
    }
    let bench = Bench::try_parse_from(options);
    let mut bench = bench.map_err(|error| Failure::Refused(error.to_string()))?;
    bench.arguments.json = arguments.json.clone();
    bench.arguments.yes = arguments.yes;
    bench::run(&bench.arguments, out)
}
