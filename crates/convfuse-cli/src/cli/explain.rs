//! `convfuse explain`: which kernels a chain takes, which were considered, and why.

use std::path::PathBuf;

use convfuse::DType;
use convfuse::model::{Precision, Strategy};

use super::bench::{Attributes, Request, Shape, dtype, read, shape, subject};
use super::device::{Choice, Target};
use super::{Outcome, Verdict};

/// Options of `explain`.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Whose properties kernels are chosen by: emulator, gpu, gpu:ORDINAL; or, without the device, a10, a100, l40s, rtx4090,
    /// h100, h200, b200
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
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    // Programs for devices that are not there are put together in the emulator.
    let (choice, properties) = match arguments.device {
        Target::Here(choice) => (choice, None),
        Target::Named(properties) => (Choice::Emulator, Some(properties)),
    };
    let stream = choice.open()?.stream()?;
    let properties = properties.unwrap_or_else(|| stream.device().properties());
    let chain = arguments.chain.as_deref().map(read).transpose()?;
    let request = Request {
        title: None,
        input: arguments.shape.0.clone(),
        attributes: arguments.attributes.clone(),
        chain,
    };
    let subject = subject(&stream, &request, arguments.dtype, 0)?;
    for strategy in Strategy::parse(subject.chain(), &arguments.strategy)? {
        let options = strategy.options().precision(arguments.precision);
        let options = options.batch_invariant(!arguments.batch_dependent);
        println!("{}", subject.explain(&options, &properties)?);
    }
    Ok(Verdict::Right)
}
