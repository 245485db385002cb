//! `convfuse explain`: which kernels layers take, which were considered, and why.

use convfuse::model::{Precision, Strategy};
use convfuse::{DType, lab};
use convfuse_cli::Status;
use serde_json::json;

use super::bench::{Attributes, Request, Shape, describe, dtype, shape};
use super::device::Target;
use super::failure::{Failure, Outcome};
use super::json::{Found, Json};
use super::layers::LayersFile;
use super::out::Out;

/// Options of `explain`.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Whose properties kernels are chosen by: emulator, gpu, gpu:ORDINAL; or, without the device, a10, a100,
    /// l40s, rtx4090, h100, h200, b200
    #[arg(long, default_value = "emulator")]
    device: Target,
    #[command(flatten)]
    layers: LayersFile,
    /// The input's shape, such as 16,8,64,64; without a file of layers, its rank tells the problem, 85 for
    /// four extents and 79 for five
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
    /// Math mode of fused f32 convolutions: accurate, fast
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

const NO_KERNELS: &str = "--device: the cpu runs no kernels; name another device";

pub(super) fn run(arguments: &Arguments, out: &mut Out) -> Outcome {
    let json = &arguments.json;
    json.record("explain", out, |out, found| explain(arguments, out, found))
}

fn explain(arguments: &Arguments, out: &mut Out, found: &mut Found) -> Outcome {
    let layers = arguments.layers.read()?;
    let request = Request {
        title: None,
        input: arguments.shape.0.clone(),
        attributes: arguments.attributes.clone(),
        layers,
    };
    let description = describe(&request, arguments.dtype, 0)?;
    let strategies = Strategy::parse(&description.graph, &arguments.strategy)?;
    if strategies.is_empty() {
        return Err(Failure::Refused(format!(
            "--strategy {}: only other chains have it",
            arguments.strategy
        )));
    }
    let (graph, input) = (&description.graph, &description.input[..]);
    let problem = graph.problem(input)?;
    // Nothing is computed, so a device that is named need not be there.
    let properties = match arguments.device {
        Target::Named(properties) => properties,
        Target::Here(choice) => match choice.open()? {
            cpu if cpu.is_cpu() => return Err(Failure::Refused(NO_KERNELS.to_owned())),
            device => device.properties(),
        },
    };
    let mut axes: Vec<usize> = (0..input.len()).collect();
    if arguments.channels_last {
        axes[usize::from(problem.is_batched)..].rotate_left(1);
    }
    for strategy in strategies {
        let options = strategy.options().precision(arguments.precision);
        let options = options.batch_invariant(!arguments.batch_dependent);
        let explanation =
            lab::explain_axes(graph, arguments.dtype, input, &axes, &options, &properties)?;
        writeln!(out, "{explanation}")?;
        let mut record = json!(explanation);
        record["strategy"] = json!(strategy.name);
        found.push("explanations", record);
    }
    Ok(Status::Right)
}
