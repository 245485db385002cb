//! `convfuse explain`: which kernels a chain takes, which were considered, and why.

use std::path::PathBuf;

use convfuse::DType;
use convfuse::model::{Precision, Strategy};

use super::bench::{Attributes, Request, Shape, dtype, read_chain, shape, subject};
use super::device::Choice;
use super::{Outcome, Verdict};

/// Options of `explain`.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// emulator, gpu, or gpu:ORDINAL, of which properties kernels are chosen by
    #[arg(long, default_value = "emulator")]
    device: Choice,
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
    let stream = arguments.device.open()?.stream()?;
    let chain = arguments.chain.as_deref().map(read_chain).transpose()?;
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
        println!("{}", subject.explain(&options)?);
    }
    Ok(Verdict::Right)
}
