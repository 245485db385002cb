//! `convfuse verify`: every operator and chain, in every way that the library has for it, against float64.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use comfy_table::CellAlignment::{Left, Right};
use convfuse::chain::Chain;
use convfuse::{DType, Stream, lab};
use convfuse_cli::{compare, rounded};
use oracle::{Agreement, Case, Expected, Precision, golden};

use super::bench::{Shape, read, shape};
use super::device::Choice;
use super::progress::Step;
use super::table::aligned;
use super::{Outcome, Verdict};

/// Options of `verify`.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// best, cpu, emulator, gpu, or gpu:ORDINAL
    #[arg(long, default_value = "best", conflicts_with = "emulator")]
    device: Choice,
    /// The same as --device emulator: runs the GPU's kernels on the CPU
    #[arg(long)]
    emulator: bool,
    /// The largest shapes to run [default: realistic; ragged in the emulator]
    #[arg(long, value_enum)]
    shapes: Option<Shapes>,
    /// Folder of golden files (outputs of PyTorch) to compare with as well
    #[arg(long, value_name = "FOLDER")]
    golden: Option<PathBuf>,
    /// Only cases whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Run the chain in this JSON file instead, with random parameters, on a random input of every --shape
    #[arg(long, value_name = "FILE", requires = "shape", conflicts_with_all = ["shapes", "golden", "only"])]
    chain: Option<PathBuf>,
    /// An input's shape for --chain, such as 2,8,64,64; may be given several times
    #[arg(long, value_name = "N,C,[D,]H,W", value_parser = shape, requires = "chain")]
    shape: Vec<Shape>,
}

/// How far to go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Shapes {
    /// One plain case per operator and pipeline
    Smoke,
    /// Awkward extents and all attributes, too
    Ragged,
    /// Shapes from practice, too
    Realistic,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let choice = if arguments.emulator {
        Choice::Emulator
    } else {
        arguments.device
    };
    let device = choice.open()?;
    println!("device\n{}", device.info());
    let stream = device.stream()?;
    let default = if device.is_emulator() {
        Shapes::Ragged
    } else {
        Shapes::Realistic
    };
    let shapes = arguments.shapes.unwrap_or(default);

    let mut tally = Tally::default();
    let (cases, source) = match &arguments.chain {
        Some(path) => (cases_of_chain(path, &arguments.shape)?, "the file"),
        None => (cases(shapes), "the tables"),
    };
    let is_asked = |case: &Case| case.name.contains(&arguments.only);
    let cases: Vec<Case> = cases.into_iter().filter(is_asked).collect();
    let mut step = Step::start(format!("{} cases from {source}", cases.len()));
    for (done, case) in cases.iter().enumerate() {
        step.at(done, cases.len(), &case.name);
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let case = rounded(case, dtype);
            let expected = |precision: &Precision| case.expected(precision);
            tally.add(&stream, &case.name, &case, dtype, expected);
        }
    }
    step.done();
    if let Some(folder) = &arguments.golden {
        golden_files(&mut tally, &stream, folder, &arguments.only)?;
    }
    tally.report()
}

fn cases(shapes: Shapes) -> Vec<Case> {
    let mut cases = oracle::smoke();
    if shapes >= Shapes::Ragged {
        cases.extend(oracle::ragged());
    }
    if shapes >= Shapes::Realistic {
        cases.extend(oracle::realistic());
    }
    cases
}

/// The chain in a file on inputs of these shapes.
fn cases_of_chain(path: &Path, shapes: &[Shape]) -> Result<Vec<Case>, Box<dyn std::error::Error>> {
    let chain: Chain = read(path)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let case = |Shape(shape): &Shape| {
        let bytes = Case::bytes_of_chain(&chain, shape)?;
        lab::must_have_memory(bytes.unwrap_or(usize::MAX))?;
        let name = format!("{name}/{shape:?}");
        Ok(Case::of_chain(&name, chain.clone(), shape))
    };
    shapes.iter().map(case).collect()
}

fn golden_files(
    tally: &mut Tally,
    stream: &Stream,
    folder: &PathBuf,
    only: &str,
) -> Result<(), Box<dyn std::error::Error>> {
    let files = golden::files(folder)?;
    let mut step = Step::start(format!("{} golden files", files.len()));
    for (done, file) in files.iter().enumerate() {
        let golden = golden::load(file)?;
        let name = format!("golden/{}", golden.case.name);
        // A full-size problem takes the emulator half an hour.
        let too_large = golden.is_full_size() && stream.device().is_emulator();
        if too_large || !name.contains(only) {
            continue;
        }
        step.at(done, files.len(), &name);
        let expected = |precision: &Precision| golden.expected(precision);
        tally.add(stream, &name, &golden.case, DType::F32, expected);
    }
    step.done();
    Ok(())
}

/// What the cases of an operator or a chain came to.
struct Line {
    kind: String,
    layers: usize,
    dtype: DType,
    /// Whether f32 was multiplied with fast products, which have a tolerance of their own.
    fast: bool,
    runs: usize,
    wrong: usize,
    worst: Agreement,
}

#[derive(Default)]
struct Tally {
    lines: Vec<Line>,
    complaints: Vec<String>,
}

impl Tally {
    /// Runs a case in all its ways.
    fn add<E: Display>(
        &mut self,
        stream: &Stream,
        name: &str,
        case: &Case,
        dtype: DType,
        expected: impl Fn(&Precision) -> Result<Expected, E>,
    ) {
        for (way, result) in compare(case, dtype, stream, expected) {
            let line = self.line(case, dtype, way.precision() == Precision::TF32);
            line.runs += 1;
            match result {
                Ok(agreement) => {
                    let worst = &mut line.worst;
                    worst.elements += agreement.elements;
                    worst.largest_error = worst.largest_error.max(agreement.largest_error);
                    worst.tolerance_used = worst.tolerance_used.max(agreement.tolerance_used);
                }
                Err(complaint) => {
                    line.wrong += 1;
                    self.complaints.push(format!("{name} {way}: {complaint}"));
                }
            }
        }
    }

    fn line(&mut self, case: &Case, dtype: DType, fast: bool) -> &mut Line {
        let kind = case.kind();
        let is_line = |line: &Line| line.kind == kind && (line.dtype, line.fast) == (dtype, fast);
        let found = self.lines.iter().position(is_line);
        let index = found.unwrap_or_else(|| {
            self.lines.push(Line {
                kind: kind.to_owned(),
                layers: case.chain.layers().len(),
                dtype,
                fast,
                runs: 0,
                wrong: 0,
                worst: Agreement::default(),
            });
            self.lines.len() - 1
        });
        &mut self.lines[index]
    }

    fn report(&self) -> Outcome {
        let mut table = aligned([
            ("operator or chain", Left),
            ("type", Left),
            ("runs", Right),
            ("elements", Right),
            ("largest error", Right),
            ("of tolerance", Right),
            ("verdict", Left),
        ]);
        let mut lines: Vec<&Line> = self.lines.iter().collect();
        lines.sort_by_key(|line| {
            (
                line.layers > 1,
                &line.kind,
                std::cmp::Reverse(line.dtype.size()),
                line.fast,
            )
        });
        for line in lines {
            table.add_row([
                line.kind.clone(),
                if line.fast {
                    format!("{} fast", line.dtype)
                } else {
                    line.dtype.to_string()
                },
                line.runs.to_string(),
                line.worst.elements.to_string(),
                format!("{:.1e}", line.worst.largest_error),
                format!("{:.0} %", line.worst.tolerance_used * 100.0),
                if line.wrong == 0 {
                    "right".to_owned()
                } else {
                    format!("{} WRONG", line.wrong)
                },
            ]);
        }
        println!("{}\n", table.trim_fmt());
        for complaint in &self.complaints {
            println!("  {complaint}");
        }
        if self.lines.is_empty() {
            return Err("no case was run: check --only and --golden".into());
        }
        Ok(if self.complaints.is_empty() {
            Verdict::Right
        } else {
            Verdict::Wrong
        })
    }
}
