//! `convfuse demo`: `bench` of both problems at full size, every strategy beside its error.

use clap::Parser;
use convfuse::Device;
use convfuse::chain::presets::{KernelBench79, KernelBench85};

use super::device::Choice;
use super::{Outcome, bench};

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
}

/// What `bench` is asked for.
#[derive(Parser)]
struct Bench {
    #[command(flatten)]
    arguments: bench::Arguments,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let device = arguments.device.open()?;
    println!("device\n{}", device.info());
    let batch = arguments.batch.unwrap_or_else(|| full_batch(&device));
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
    bench::run(&Bench::try_parse_from(options)?.arguments)
}

/// The benchmark's batch, but where a sample takes minutes.
fn full_batch(device: &Device) -> usize {
    if device.is_emulator() {
        1
    } else {
        KernelBench85::INPUT[0]
    }
}
