//! `convfuse explain`: the kernels of given layers, the candidates considered, and the reasons.

use convfuse::lab;
use convfuse_cli::Status;
use serde_json::json;

use super::device::Target;
use super::failure::{Failure, Outcome};
use super::json::{Found, Json};
use super::layers::{NO_KERNELS, RunRequest};
use super::out::Out;

/// Options of `explain`.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Whose properties kernels are chosen by: emulator, gpu, gpu:ORDINAL; or, without the device, a10, a100,
    /// l40s, rtx4090, h100, h200, b200
    #[arg(long, default_value = "emulator")]
    device: Target,
    #[command(flatten)]
    request: RunRequest,
    #[command(flatten)]
    json: Json,
}

pub(super) fn run(arguments: &Arguments, out: &mut Out) -> Outcome {
    let json = &arguments.json;
    json.record("explain", out, |out, found| explain(arguments, out, found))
}

fn explain(arguments: &Arguments, out: &mut Out, found: &mut Found) -> Outcome {
    let request = &arguments.request;
    let (description, strategies) = request.read()?;
    let (graph, input) = (&description.graph, &description.input[..]);
    let problem = graph.problem(input)?;
    // Nothing is computed, so a named device need not be present.
    let properties = match arguments.device {
        Target::Named(properties) => properties,
        Target::Here(choice) => match choice.open()? {
            cpu if cpu.is_cpu() => return Err(Failure::Refused(NO_KERNELS.to_owned())),
            device => device.properties(),
        },
    };
    let mut axes: Vec<usize> = (0..input.len()).collect();
    if description.channels_last {
        axes[usize::from(problem.is_batched)..].rotate_left(1);
    }
    let dtype = description.dtype;
    for (strategy, options) in strategies {
        let explanation = lab::explain_axes(graph, dtype, input, &axes, &options, &properties)?;
        writeln!(out, "{explanation}")?;
        let mut record = json!(explanation);
        record["strategy"] = json!(strategy.name);
        found.push("explanations", record);
    }
    Ok(Status::Right)
}
