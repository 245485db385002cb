//! The options of `convfuse bench`.

use std::path::PathBuf;

use clap::ValueEnum;
use convfuse::DType;
use convfuse::models::{
    Options, Precision, Strategy, conv2d_group_norm_scale_max_pool_clamp as model_85,
    conv3d_multiply_instance_norm_clamp_multiply_max as model_79,
};

use super::request::Attributes;
use crate::cli::device::Choice;

/// Options of `bench`.
#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    /// best, cpu, emulator, gpu, or gpu:ORDINAL
    #[arg(long, default_value = "best")]
    pub(super) device: Choice,
    /// The pipeline
    #[arg(long, value_enum, default_value_t = Model::Both)]
    pub(super) model: Model,
    /// Strategies to run, separated by commas, or all
    #[arg(long, value_delimiter = ',', default_value = ALL_STRATEGIES, value_parser = strategy)]
    pub(super) strategy: Vec<String>,
    /// Products of the fused strategy on f32, separated by commas: accurate, fast
    #[arg(long, value_delimiter = ',', default_value = "accurate,fast")]
    pub(super) precision: Vec<Precision>,
    /// Let the fused strategy choose kernels by the batch, so that a sample's results may be rounded otherwise in another
    #[arg(long)]
    pub(super) batch_dependent: bool,
    /// Element types of inputs, outputs and parameters, separated by commas: f32, f16, bf16
    #[arg(long, value_delimiter = ',', default_value = "f32", value_parser = dtype)]
    pub(super) dtype: Vec<DType>,
    /// The input's shape, such as 16,8,64,64; its rank tells which pipeline it is for. May be given once for each
    #[arg(long, value_name = "N,C,[D,]H,W", value_parser = shape)]
    pub(super) shape: Vec<Shape>,
    /// Run the problems in this JSON file instead: a list of objects with `input` (the shape) and, where wanted, `title`
    /// and `attributes` (an object with the attributes' names, such as `kernel_size`)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["shape", "model"])]
    pub(super) problems: Option<PathBuf>,
    /// Timed repetitions [default: 50 on a GPU, 5 on the CPU, 1 in the emulator]
    #[arg(long)]
    pub(super) repeats: Option<usize>,
    /// Seed of parameters and input
    #[arg(long, default_value_t = 0)]
    pub(super) seed: u64,
    /// The date of the record [default: now]
    #[arg(long)]
    pub(super) date: Option<String>,
    /// Write all figures as JSON to this file, anew after every problem, or to standard output for -, which then gets no table
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Draw bars and a roofline to this file
    #[arg(long, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,
    /// Write parameters and outputs as safetensors files to this folder, named in the JSON
    #[arg(long, value_name = "FOLDER")]
    pub(super) save: Option<PathBuf>,
    /// Leave out the measurement of the device's ceilings
    #[arg(long)]
    pub(super) no_ceilings: bool,
    /// Leave out the comparison with float64, for whoever checks the outputs that --save writes
    #[arg(long, requires = "save")]
    pub(super) no_reference: bool,
    #[command(flatten)]
    pub(super) attributes: Attributes,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Model {
    /// Conv2d, GroupNorm, Scale, MaxPool2d, Clamp
    #[value(name = "85")]
    Of85,
    /// Conv3d, Multiply, InstanceNorm, Clamp, Multiply, Max
    #[value(name = "79")]
    Of79,
    /// The one, then the other
    Both,
}

/// The name that stands for every strategy.
const ALL_STRATEGIES: &str = "all";

/// The name of some pipeline's strategy, or of all.
fn strategy(name: &str) -> Result<String, String> {
    let known_to_85 = name.parse::<model_85::Strategy>();
    let known_to_79 = name.parse::<model_79::Strategy>();
    match (known_to_85, known_to_79) {
        (Err(of_85), Err(of_79)) if name != ALL_STRATEGIES => {
            Err(format!("85: {of_85}; 79: {of_79}"))
        }
        _ => Ok(name.to_owned()),
    }
}

/// A shape as one argument.
#[derive(Clone)]
pub(super) struct Shape(pub(super) Vec<usize>);

fn shape(text: &str) -> Result<Shape, String> {
    let extents: Result<Vec<usize>, _> = text
        .split(',')
        .map(|extent| extent.trim().parse())
        .collect();
    match extents {
        Ok(extents) if matches!(extents.len(), 4 | 5) => Ok(Shape(extents)),
        _ => Err("must be four extents (pipeline 85) or five (pipeline 79)".to_owned()),
    }
}

fn dtype(text: &str) -> Result<DType, String> {
    let all = [DType::F32, DType::F16, DType::BF16];
    let found = all.into_iter().find(|dtype| dtype.to_string() == text);
    found.ok_or_else(|| "must be f32, f16 or bf16".to_owned())
}

/// The ways to run a pipeline that the given names stand for.
pub(super) fn candidates<S: Strategy>(arguments: &Arguments, dtype: DType) -> Vec<Options<S>> {
    let asked = |strategy: &S| {
        let own = strategy.to_string();
        let names = &arguments.strategy;
        names
            .iter()
            .any(|name| *name == own || name == ALL_STRATEGIES)
    };
    let mut candidates = Vec::new();
    for strategy in S::ALL.iter().copied().filter(asked) {
        let options = Options::strategy(strategy).batch_invariant(!arguments.batch_dependent);
        if strategy == S::FUSED && dtype == DType::F32 {
            let precisions = arguments.precision.iter();
            candidates.extend(precisions.map(|&precision| options.precision(precision)));
        } else {
            candidates.push(options);
        }
    }
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;
    use convfuse::models::conv2d_group_norm_scale_max_pool_clamp::Strategy as Strategy85;

    #[test]
    fn shapes_have_four_or_five_extents() {
        assert_eq!(shape("16, 8,64,64").unwrap().0, [16, 8, 64, 64]);
        assert!(shape("16,8,64").is_err());
        assert!(shape("16,8,64,-1").is_err());
    }

    #[test]
    fn strategies_are_chosen_by_name_or_all_at_once() {
        #[derive(clap::Parser)]
        struct Command {
            #[command(flatten)]
            arguments: Arguments,
        }
        let chosen = |names: &str, dtype| {
            let command = <Command as clap::Parser>::parse_from(["bench", "--strategy", names]);
            candidates::<Strategy85>(&command.arguments, dtype).len()
        };
        // The fused one comes with accurate and with fast products, if they differ.
        assert_eq!(chosen("all", DType::F32), Strategy85::ALL.len() + 1);
        assert_eq!(chosen("all", DType::F16), Strategy85::ALL.len());
        assert_eq!(chosen("unfused,folded-scale", DType::F32), 2);
        assert!(strategy("unfused").is_ok() && strategy("all").is_ok());
        assert!(strategy("magic").unwrap_err().contains("unfused"));
    }
}
