//! `convfuse demo`: `bench` of both problems at full size, every strategy beside its error.

use clap::Parser;
use convfuse::chain::presets::{KernelBench79, KernelBench85};

use super::bench;
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
    /// Samples in the batch [default: the full 128; 1 in the emulator]
    #[arg(long)]
    batch: Option<usize>,
    /// Timed runs per strategy, of which the median counts [default: those of bench]
    #[arg(long)]
    runs: Option<usize>,
    /// Seed of parameters and input
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    json: Json,
}

/// What `bench` is asked for.
#[derive(Parser)]
struct Bench {
    #[command(flatten)]
    arguments: bench::Arguments,
}

pub(super) fn run(arguments: &Arguments, out: &mut Out) -> Outcome {
    // A sample takes the emulator minutes.
    let full = match arguments.device {
        Choice::Emulator => 1,
        _ => KernelBench85::INPUT[0],
    };
    let batch = arguments.batch.unwrap_or(full);
    let shape = |input: &[usize]| {
        let extents: Vec<String> = input.iter().skip(1).map(usize::to_string).collect();
        format!("--shape={batch},{}", extents.join(","))
    };
    let mut options = vec![
        "bench".to_owned(),
        "--no-ceilings".to_owned(),
        "--precision=accurate".to_owned(),
        format!("--device={}", arguments.device),
        format!("--seed={}", arguments.seed),
        shape(&KernelBench85::INPUT),
        shape(&KernelBench79::INPUT),
    ];
    if let Some(runs) = arguments.runs {
        options.push(format!("--repeats={runs}"));
    }
    let bench = Bench::try_parse_from(options);
    let mut bench = bench.map_err(|error| Failure::Refused(error.to_string()))?;
    bench.arguments.json = arguments.json.clone();
    bench::run(&bench.arguments, out)
}
