//! `convfuse bench`: how fast every strategy is, and how fast the device would let it be.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::ValueEnum;
use convfuse::bench::{Ceilings, Problem, Protocol, Report, Score, Subject, chart, utc_date};
use convfuse::models::{
    Options, Pipeline, Precision, Strategy, conv2d_group_norm_scale_max_pool_clamp as model_85,
    conv3d_multiply_instance_norm_clamp_multiply_max as model_79,
};
use convfuse::spec::{
    Conv2dGroupNormScaleMaxPoolClampSpec as Spec85,
    Conv3dMultiplyInstanceNormClampMultiplyMaxSpec as Spec79,
};
use convfuse::{DType, Stream, tensor_file};

use super::device::Choice;
use super::progress::Step;
use super::table::{Column, Table};
use super::{Outcome, Verdict};

/// Options of `bench`.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// best, cpu, emulator, gpu, or gpu:ORDINAL
    #[arg(long, default_value = "best")]
    device: Choice,
    /// The pipeline
    #[arg(long, value_enum, default_value_t = Model::Both)]
    model: Model,
    /// Strategies to run, separated by commas, or all
    #[arg(long, value_delimiter = ',', default_value = ALL_STRATEGIES, value_parser = strategy)]
    strategy: Vec<String>,
    /// Products of the fused strategy on f32, separated by commas: accurate, fast
    #[arg(long, value_delimiter = ',', default_value = "accurate,fast")]
    precision: Vec<Precision>,
    /// Element types of inputs, outputs and parameters, separated by commas: f32, f16, bf16
    #[arg(long, value_delimiter = ',', default_value = "f32", value_parser = dtype)]
    dtype: Vec<DType>,
    /// The input's shape, such as 16,8,64,64; its rank tells which pipeline it is for. May be given once for each
    #[arg(long, value_name = "N,C,[D,]H,W", value_parser = shape)]
    shape: Vec<Shape>,
    /// Timed repetitions [default: 50 on a GPU, 5 on the CPU, 1 in the emulator]
    #[arg(long)]
    repeats: Option<usize>,
    /// Seed of parameters and input
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The date of the record [default: now]
    #[arg(long)]
    date: Option<String>,
    /// Write all figures as JSON to this file, or to standard output for -, which then gets no table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw bars and a roofline to this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write parameters and outputs as safetensors files to this folder, named in the JSON
    #[arg(long, value_name = "FOLDER")]
    save: Option<PathBuf>,
    /// Leave out the measurement of the device's ceilings
    #[arg(long)]
    no_ceilings: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Model {
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
struct Shape(Vec<usize>);

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

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let stream = arguments.device.open()?.stream()?;
    let to_stdout = arguments.json.as_deref() == Some(Path::new("-"));
    let mut protocol = Protocol::new(&stream)?;
    if let Some(repeats) = arguments.repeats {
        protocol.repeats = repeats;
    }
    if let Some(folder) = &arguments.save {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let ceilings = if arguments.no_ceilings {
        None
    } else {
        Ceilings::measure(&stream)?
    };
    let date = arguments.date.clone();
    let date = date.unwrap_or_else(|| utc_date(SystemTime::now()));
    let mut bench = Bench {
        arguments,
        report: Report::new(date, std::env::args().collect(), &protocol, ceilings),
        protocol,
    };
    bench.run(&stream)?;

    let Bench { report, .. } = bench;
    if !to_stdout {
        print(&report);
    }
    match &arguments.json {
        Some(_) if to_stdout => print!("{}", report.to_json()),
        Some(path) => write(path, &report.to_json())?,
        None => {}
    }
    if let Some(path) = &arguments.svg {
        write(path, &chart::to_svg(&report))?;
    }
    let mut scores = report.problems.iter().flat_map(|problem| &problem.results);
    Ok(if scores.any(|score| score.run.complaint.is_some()) {
        eprintln!("convfuse: some runs went wrong, see above");
        Verdict::Wrong
    } else {
        Verdict::Right
    })
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

struct Bench<'a> {
    arguments: &'a Arguments,
    protocol: Protocol,
    report: Report,
}

impl Bench<'_> {
    fn run(&mut self, stream: &Stream) -> Result<(), Box<dyn std::error::Error>> {
        let seed = self.arguments.seed;
        for &dtype in &self.arguments.dtype {
            for shape in self.shapes(Model::Of85, &Spec85::KERNELBENCH_INPUT) {
                self.subject(&Subject::kernelbench_85(stream, &shape, dtype, seed)?)?;
            }
            for shape in self.shapes(Model::Of79, &Spec79::KERNELBENCH_INPUT) {
                self.subject(&Subject::kernelbench_79(stream, &shape, dtype, seed)?)?;
            }
        }
        if self
            .report
            .problems
            .iter()
            .all(|problem| problem.results.is_empty())
        {
            return Err(
                "nothing to run: no --strategy and --shape fit the pipelines of --model".into(),
            );
        }
        Ok(())
    }

    /// The shapes for a pipeline: those that were asked for, else its own where no shape was.
    fn shapes(&self, model: Model, default: &[usize]) -> Vec<Vec<usize>> {
        let asked = self.arguments.model;
        if asked != model && asked != Model::Both {
            return Vec::new();
        }
        let shapes = &self.arguments.shape;
        if shapes.is_empty() {
            return vec![default.to_vec()];
        }
        let fitting = shapes.iter().filter(|shape| shape.0.len() == default.len());
        fitting.map(|shape| shape.0.clone()).collect()
    }

    /// Checks and times one pipeline on one input.
    fn subject<M: Pipeline>(&mut self, subject: &Subject<M>) -> convfuse::Result<()> {
        let mut problem = Problem::of(subject);
        let mut candidates = candidates::<M::Strategy>(self.arguments, subject.dtype());
        if self.protocol.stream().device().is_cpu() {
            // The CPU backend has one way to do it.
            candidates.truncate(1);
        }
        if candidates.is_empty() {
            return Ok(());
        }
        let index = self.report.problems.len();
        let file = |what: &str| format!("{index}-{}-{what}.safetensors", problem.number);
        let save = self.arguments.save.as_ref();
        problem.parameters = save.map(|folder| folder.join(file("parameters")));
        if let Some(path) = &problem.parameters {
            subject.save_parameters(path)?;
        }
        let step = Step::start(format!(
            "{}: float64 reference of all outputs",
            problem.label()
        ));
        let mut products = subject.products(Precision::Accurate);
        let mut expected = subject.expected(Precision::Accurate)?;
        step.done();
        let mut scores = Vec::new();
        for options in &candidates {
            let wanted = subject.products(options.precision);
            let step = Step::start(format!("  {} {}", options.strategy, wanted.name()));
            if wanted != products {
                (products, expected) = (wanted, subject.expected(options.precision)?);
            }
            let mut run = subject.measure(options, &expected, &mut self.protocol);
            let output = run.output.take();
            let ceilings = self.report.ceilings.as_ref();
            let mut score = problem.score(run, products, ceilings);
            if let (Some(folder), Some(output)) = (save, output) {
                let path =
                    folder.join(file(&format!("{}-{}", score.run.strategy, products.name())));
                tensor_file::save(&path, "output", &output)?;
                score.output = Some(path);
            }
            scores.push(score);
            step.done();
        }
        problem.results = scores;
        self.report.problems.push(problem);
        Ok(())
    }
}

/// The ways to run a pipeline that the given names stand for.
fn candidates<S: Strategy>(arguments: &Arguments, dtype: DType) -> Vec<Options<S>> {
    let asked = |strategy: &S| {
        let own = strategy.to_string();
        let names = &arguments.strategy;
        names
            .iter()
            .any(|name| *name == own || name == ALL_STRATEGIES)
    };
    let mut candidates = Vec::new();
    for strategy in S::ALL.iter().copied().filter(asked) {
        let options = Options::strategy(strategy);
        if strategy == S::FUSED && dtype == DType::F32 {
            let precisions = arguments.precision.iter();
            candidates.extend(precisions.map(|&precision| options.precision(precision)));
        } else {
            candidates.push(options);
        }
    }
    candidates
}

fn print(report: &Report) {
    println!("device\n{}", report.device);
    if let Some(ceilings) = &report.ceilings {
        println!("ceilings, measured");
        let line = |what: &str, value: f64, unit: &str| println!("  {what:<20} {value:.2} {unit}");
        line("copy", ceilings.copy_bytes_per_s * 1e-12, "TB/s");
        line("FMA f32", ceilings.fma_flop_per_s * 1e-12, "TFLOP/s");
        line(
            "mma.sync tf32",
            ceilings.mma_tf32_flop_per_s * 1e-12,
            "TFLOP/s",
        );
        line(
            "mma.sync f16",
            ceilings.mma_f16_flop_per_s * 1e-12,
            "TFLOP/s",
        );
        println!();
    }
    for problem in &report.problems {
        println!(
            "{}: {}, {:?} to {:?}\n  {:.3} GFLOP, {:.3} MB; medians, {}\n",
            problem.label(),
            problem.name,
            problem.input,
            problem.output,
            problem.flop as f64 * 1e-9,
            problem.bytes as f64 * 1e-6,
            report.clock,
        );
        println!("{}", table(problem));
        for score in &problem.results {
            if let Some(complaint) = &score.run.complaint {
                println!("  {}: {complaint}", score.run.strategy);
            }
        }
    }
}

fn table(problem: &Problem) -> Table {
    let mut table = Table::new(&[
        Column::Left("strategy"),
        Column::Left("products"),
        Column::Right("time"),
        Column::Right("quartiles"),
        Column::Right("TFLOP/s"),
        Column::Right("GB/s"),
        Column::Right("of ceiling"),
        Column::Right("launches"),
        Column::Right("extra MB"),
        Column::Right("largest error"),
    ]);
    for score in &problem.results {
        table.row(row(score));
    }
    table
}

fn row(score: &Score) -> [String; 10] {
    let run = &score.run;
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let time = run.time.as_ref();
    [
        run.strategy.clone(),
        score.products.name().to_owned(),
        time.map_or_else(|| "WRONG".to_owned(), |time| chart::duration(time.median)),
        or_dash(time.map(|time| {
            let [lower, upper] = [time.lower_quartile, time.upper_quartile];
            format!("{} to {}", chart::duration(lower), chart::duration(upper))
        })),
        or_dash(
            score
                .flop_per_s
                .map(|speed| format!("{:.2}", speed * 1e-12)),
        ),
        or_dash(
            score
                .bytes_per_s
                .map(|speed| format!("{:.1}", speed * 1e-9)),
        ),
        or_dash(
            score
                .fraction_of_ceiling
                .map(|fraction| format!("{:.0} %", fraction * 100.0)),
        ),
        run.launches.to_string(),
        format!("{:.1}", run.extra_bytes as f64 * 1e-6),
        or_dash(run.largest_error.map(|error| format!("{error:.1e}"))),
    ]
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
