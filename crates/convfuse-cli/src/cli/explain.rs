//! `convfuse explain`: which kernels a chain takes, which were considered, and why.

use std::path::PathBuf;

use convfuse::graph::GraphInput;
use convfuse::model::{
    Considered, Explanation, LaunchFacts, Model, Precision, RegionFacts, Strategy, Verdict,
};
use convfuse::{DType, Parameters, lab};
use convfuse_cli::Status;
use serde_json::{Value, json};

use super::bench::{Attributes, Request, Shape, describe, dtype, read, shape};
use super::device::{Choice, Target};
use super::failure::{Failure, Outcome};
use super::json::{Found, Json};
use super::out::Out;

/// Options of `explain`.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Whose properties kernels are chosen by: emulator, gpu, gpu:ORDINAL; or, without the device, a10, a100,
    /// l40s, rtx4090, h100, h200, b200
    #[arg(long, default_value = "emulator")]
    device: Target,
    /// The chain in this JSON file; without one, problem 85 for four extents and 79 for five
    #[arg(long, value_name = "FILE")]
    chain: Option<PathBuf>,
    /// The input's shape, such as 16,8,64,64
    #[arg(long, value_name = "N,C,[D,]H,W", value_parser = shape)]
    shape: Shape,
    /// Element type of input, output and parameters: f32, f16, bf16
    #[arg(long, default_value = "f32", value_parser = dtype)]
    dtype: DType,
    /// For an input whose channels are neighbours in memory, as in PyTorch's channels_last
    #[arg(long)]
    channels_last: bool,
    /// A strategy's name, or a partition such as "conv2d | group_norm scale | max_pool2d clamp"
    #[arg(long, default_value = Strategy::FUSED)]
    strategy: String,
    /// Products of fused f32 convolutions: accurate, fast
    #[arg(long, default_value_t)]
    precision: Precision,
    /// Let kernels be chosen by the batch
    #[arg(long)]
    batch_dependent: bool,
    #[command(flatten)]
    attributes: Attributes,
    #[command(flatten)]
    json: Json,
}

pub(super) fn run(arguments: &Arguments, out: &mut Out) -> Outcome {
    let json = &arguments.json;
    json.record("explain", out, |out, found| explain(arguments, out, found))
}

fn explain(arguments: &Arguments, out: &mut Out, found: &mut Found) -> Outcome {
    // Programs for devices that are not there are put together in the emulator.
    let (choice, properties) = match arguments.device {
        Target::Here(choice) => (choice, None),
        Target::Named(properties) => (Choice::Emulator, Some(properties)),
    };
    let chain = arguments.chain.as_deref().map(read).transpose()?;
    let request = Request {
        title: None,
        input: arguments.shape.0.clone(),
        attributes: arguments.attributes.clone(),
        chain,
    };
    let description = describe(&request, arguments.dtype, 0)?;
    let strategies = Strategy::parse(&description.chain, &arguments.strategy)?;
    if strategies.is_empty() {
        return Err(Failure::Refused(format!(
            "--strategy {}: only other chains have it",
            arguments.strategy
        )));
    }
    let (chain, input) = (&description.chain, &description.input[..]);
    let problem = chain.problem(input)?;
    let stream = choice.open()?.stream()?;
    let properties = properties.unwrap_or_else(|| stream.device().properties());
    // Nothing is computed, so there need not be an input.
    let parameters = Parameters::init(chain, 0).map_err(convfuse::Error::from)?;
    let model = Model::with_dtype(&stream, chain, &parameters, arguments.dtype)?;
    let mut axes: Vec<usize> = (0..input.len()).collect();
    if arguments.channels_last {
        axes[usize::from(problem.is_batched)..].rotate_left(1);
    }
    for strategy in strategies {
        let options = strategy.options().precision(arguments.precision);
        let options = options.batch_invariant(!arguments.batch_dependent);
        let explanation = lab::explain_axes(&model, input, &axes, &options, &properties)?;
        writeln!(out, "{explanation}")?;
        found.push("explanations", record(strategy.name, &explanation));
    }
    Ok(Status::Right)
}

/// An explanation as JSON.
fn record(strategy: &str, explanation: &Explanation) -> Value {
    let considered = |considered: &Considered| {
        let (verdict, reason) = match &considered.verdict {
            Verdict::Taken => ("taken", None),
            Verdict::Passed(reason) => ("passed", Some(reason)),
            Verdict::Refused(rule) => ("refused", Some(rule)),
        };
        json!({ "kernels": considered.kernels, "verdict": verdict, "reason": reason })
    };
    let region = |region: &RegionFacts| {
        json!({
            "layers": region.layers,
            "value": region.value,
            "kernels": region.kernels,
            "summary": region.summary,
            "reads": region.reads.to_string(),
            "writes": region.writes.to_string(),
            "config": region.config,
            "considered": region.considered.iter().map(considered).collect::<Vec<_>>(),
        })
    };
    let launch = |launch: &LaunchFacts| {
        json!({
            "kernel": launch.kernel,
            "blocks": launch.blocks,
            "threads": launch.threads,
            "shared_bytes": launch.shared_bytes,
            "bytes_moved": launch.bytes_moved,
        })
    };
    let input = |input: &GraphInput| json!({ "name": input.name, "shape": input.shape });
    let properties = &explanation.properties;
    json!({
        "strategy": strategy,
        "chain": explanation.layers,
        "input": explanation.input,
        "inputs": explanation.inputs.iter().map(input).collect::<Vec<_>>(),
        "output": explanation.output,
        "dtype": explanation.dtype.to_string(),
        "normal_form": explanation.normal_form,
        "properties": {
            "multiprocessors": properties.multiprocessors,
            "shared_bytes_per_block": properties.shared_bytes_per_block,
            "arch": properties.arch.name(),
            "l2_bytes": properties.l2_bytes,
            "memory_bytes_per_s": properties.memory_bytes_per_s,
            "f16_multiply_adds_per_cycle": properties.f16_multiply_adds_per_cycle,
            "clock_hz": properties.clock_hz,
        },
        "regions": explanation.regions.iter().map(region).collect::<Vec<_>>(),
        "launches": explanation.launches.iter().map(launch).collect::<Vec<_>>(),
        "workspace_bytes": explanation.workspace_bytes,
        "bytes": explanation.bytes,
        "flop": explanation.flop,
        "least_s": explanation.least_s,
    })
}
