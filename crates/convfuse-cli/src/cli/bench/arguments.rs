//! The options of `convfuse bench`.

use std::path::PathBuf;

use clap::{ArgGroup, ValueEnum};
use convfuse::DType;
use convfuse::graph::{Graph, PartitionError};
use convfuse::model::{Options, Precision, Strategy};
use convfuse_cli::bench::MathMode;

use crate::cli::device::Choice;
use crate::cli::json::Json;
use crate::cli::layers::LayersFile;
use crate::cli::request::{Attributes, Shape, dtype, shape};

/// Options of `bench`.
#[derive(clap::Args)]
#[command(group = ArgGroup::new("kept").args(["json", "save"]).multiple(true))]
#[command(mut_group("layers", |group| group.requires("shape").conflicts_with("model")))]
pub(in crate::cli) struct Arguments {
    /// best, cpu, emulator, gpu, or gpu:ORDINAL
    #[arg(long, default_value = "best")]
    pub(super) device: Choice,
    /// The problem of KernelBench's level 2
    #[arg(long, value_enum, default_value_t = Model::Both)]
    pub(super) model: Model,
    /// Strategies to run, separated by commas: names, all, or partitions such as "conv2d | group_norm scale |
    /// max_pool2d clamp"
    #[arg(long, value_delimiter = ',', default_value = Strategy::ALL)]
    pub(super) strategy: Vec<String>,
    /// Math modes of the fused strategy on f32, separated by commas: accurate, fast
    #[arg(long, value_delimiter = ',', default_value = "accurate,fast")]
    pub(super) precision: Vec<Precision>,
    /// Let the fused strategy choose kernels by the batch, so that a sample's results may be rounded
    /// otherwise in another
    #[arg(long)]
    pub(super) batch_dependent: bool,
    /// Element types of inputs, outputs and parameters, separated by commas: f32, f16, bf16
    #[arg(long, value_delimiter = ',', default_value = "f32", value_parser = dtype)]
    pub(super) dtype: Vec<DType>,
    /// Have inputs whose channels are neighbours in memory, as in PyTorch's channels_last
    #[arg(long)]
    pub(super) channels_last: bool,
    /// The input's shape, such as 16,8,64,64; its rank tells which pipeline it is for, without a file of
    /// layers. May be given several times [default: the own ones of the problem, 128,8,128,128 and
    /// 128,3,16,32,32; small ones in the emulator, 1,8,20,20 and 1,3,6,8,8]
    #[arg(long, value_name = "N,C,[D,]H,W", value_parser = shape)]
    pub(super) shape: Vec<Shape>,
    /// Run the problems in this JSON file instead: a list of objects with `input` (the shape) and, where
    /// wanted, `title` and `attributes` (an object with the attributes' names, such as `kernel_size`) or
    /// `chain` (as in a chain's file)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["shape", "model", "layers"])]
    pub(super) problems: Option<PathBuf>,
    #[command(flatten)]
    pub(super) layers: LayersFile,
    /// Go on with what the emulator will take more than ten minutes for
    #[arg(long)]
    pub(in crate::cli) yes: bool,
    /// Timed repetitions [default: 50 on a GPU, 5 on the CPU, 1 in the emulator]
    #[arg(long, value_parser = repeats)]
    pub(super) repeats: Option<usize>,
    /// Seed of parameters and input
    #[arg(long, default_value_t = 0)]
    pub(super) seed: u64,
    /// The date of the record [default: now]
    #[arg(long)]
    pub(super) date: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) json: Json,
    /// Write parameters and outputs as safetensors files to this folder, named in the JSON
    #[arg(long, value_name = "FOLDER")]
    pub(super) save: Option<PathBuf>,
    /// Leave out the measurement of the device's ceilings
    #[arg(long)]
    pub(super) no_ceilings: bool,
    /// Leave out the comparison with float64: for whoever checks the outputs that --save writes, or wants a
    /// record of the outputs' hashes and times in --json
    #[arg(long, requires = "kept")]
    pub(super) no_reference: bool,
    /// Compare every run with that in this file, which --json wrote earlier: the bits of the outputs by their
    /// hashes, and the times. Other bits, or a run of the file that is asked for but not there, are an error
    #[arg(long, value_name = "FILE")]
    pub(super) compare: Option<PathBuf>,
    /// How much slower than in the file of --compare a median may be; more is an error
    #[arg(long, value_name = "PERCENT", requires = "compare", value_parser = not_negative)]
    pub(super) time_limit: Option<f64>,
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

/// Parses a number of repetitions. The upper limit keeps their times in memory.
pub(in crate::cli) fn repeats(text: &str) -> Result<usize, String> {
    let number = text.parse().ok();
    let number = number.filter(|number| (1..=1_000_000).contains(number));
    number.ok_or_else(|| "must be a number from 1 to 1000000".to_owned())
}

pub(in crate::cli) fn not_negative(text: &str) -> Result<f64, String> {
    let number = text.parse().ok();
    let number = number.filter(|number: &f64| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| "must be a number, 0 or more".to_owned())
}

impl Arguments {
    /// Whether the options request this strategy in this math mode.
    pub(super) fn ask_for(&self, strategy: &str, math_mode: MathMode) -> bool {
        let named = |name: &String| name == strategy || name == Strategy::ALL;
        let has_precision = match math_mode {
            _ if strategy != Strategy::FUSED => true,
            MathMode::Accurate => self.precision.contains(&Precision::Accurate),
            MathMode::Fast => self.precision.contains(&Precision::Fast),
            _ => true,
        };
        self.strategy.iter().any(named) && has_precision
    }
}

/// The requested strategies with their options.
///
/// # Errors
/// A text that is neither a strategy's name nor a partition of the layers.
pub(super) fn candidates(
    arguments: &Arguments,
    graph: &Graph,
    dtype: DType,
) -> Result<Vec<(Strategy, Options)>, PartitionError> {
    let mut candidates = Vec::new();
    for text in &arguments.strategy {
        for strategy in Strategy::parse(graph, text)? {
            let options = strategy.options();
            let options = options.batch_invariant(!arguments.batch_dependent);
            if !(strategy.has_precision() && dtype == DType::F32) {
                candidates.push((strategy, options));
                continue;
            }
            for &precision in &arguments.precision {
                candidates.push((strategy.clone(), options.clone().precision(precision)));
            }
        }
    }
    Ok(candidates)
}

#[cfg(test)]
mod tests {
    use super::*;
    use convfuse::graph::presets::KernelBench85;

    #[test]
    fn shapes_have_two_extents_or_more() {
        assert_eq!(shape("16, 8,64,64").unwrap().0, [16, 8, 64, 64]);
        assert!(shape("16").is_err());
        assert!(shape("16,8,64,-1").is_err());
    }

    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn parse(options: &str) -> Result<Arguments, clap::Error> {
        let command = <Command as clap::Parser>::try_parse_from(options.split_whitespace())?;
        Ok(command.arguments)
    }

    #[test]
    fn outputs_that_are_not_checked_must_be_kept() {
        assert!(parse("bench --no-reference").is_err());
        assert!(parse("bench --no-reference --json x.json").is_ok());
        assert!(parse("bench --no-reference --save x").is_ok());
        assert!(parse("bench --no-reference --save x --json x.json").is_ok());
    }

    #[test]
    fn a_time_limit_is_a_percentage_of_the_compared_file() {
        assert!(parse("bench --time-limit 5").is_err());
        assert_eq!(
            parse("bench --compare x --time-limit 2.5")
                .unwrap()
                .time_limit,
            Some(2.5)
        );
        for not_percent in ["x", "NaN", "inf", "-1"] {
            assert!(not_negative(not_percent).is_err());
        }
    }

    #[test]
    fn old_runs_are_asked_for_as_candidates_are() {
        let asked = |options: &str, strategy: &str, math_mode| {
            let arguments = parse(&format!("bench {options}")).unwrap();
            arguments.ask_for(strategy, math_mode)
        };
        assert!(asked("", "fused", MathMode::Fast));
        assert!(!asked("--precision accurate", "fused", MathMode::Fast));
        assert!(asked(
            "--precision fast",
            "unfused-direct",
            MathMode::Accurate
        ));
        assert!(asked("--precision fast", "fused", MathMode::Half));
        assert!(!asked(
            "--strategy fused",
            "unfused-direct",
            MathMode::Accurate
        ));
    }

    #[test]
    fn strategies_are_chosen_by_name_or_all_at_once() {
        let chain = KernelBench85::default().chain().unwrap();
        let all = Strategy::all(&chain).len();
        let chosen = |names: &str, dtype| {
            let mut arguments = parse("bench").unwrap();
            arguments.strategy = names.split(',').map(str::to_owned).collect();
            candidates(&arguments, &chain, dtype).map(|candidates| candidates.len())
        };
        // The fused strategy runs in the accurate and in the fast math mode if they differ.
        assert_eq!(chosen("all", DType::F32), Ok(all + 1));
        assert_eq!(chosen("all", DType::F16), Ok(all));
        assert_eq!(chosen("unfused-direct,folded-scale", DType::F32), Ok(2));
        // A strategy of another chain.
        assert_eq!(chosen("clamp-multiply-max", DType::F32), Ok(0));
        let partition = "conv2d | group_norm scale | max_pool2d clamp";
        assert_eq!(chosen(partition, DType::F32), Ok(1));
        assert!(chosen("magic", DType::F32).is_err());
    }
}
