//! `convfuse verify`: compares every operator and chain with float64, in every mode of the library.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use comfy_table::CellAlignment::{Left, Right};
use convfuse::{DType, Stream, lab};
use convfuse_cli::{CaseFailure, ExecutionMode, Status, compare, rounded};
use oracle::{Case, Expected, Precision, golden};
use serde::Serialize;
use serde_json::json;

use super::bench::say_of_cases;
use super::device::Choice;
use super::failure::{Failure, Outcome};
use super::json::{Found, Json, file_name};
use super::layers::LayersFile;
use super::out::{Out, plain};
use super::progress::Step;
use super::request::{Shape, shape};
use super::table::aligned;

/// Options of `verify`.
#[derive(clap::Args)]
#[command(mut_group("layers", |group| group.requires("shape").conflicts_with_all(["shapes", "golden", "only"])))]
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
    #[command(flatten)]
    layers: LayersFile,
    /// An input's shape for the layers in the file, which run in place of the tables, with random parameters;
    /// may be given several times
    #[arg(long, value_name = "N,C,[D,]H,W", value_parser = shape, requires = "layers")]
    shape: Vec<Shape>,
    #[command(flatten)]
    json: Json,
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

pub(super) fn run(arguments: &Arguments, out: &mut Out) -> Outcome {
    let json = &arguments.json;
    json.record("verify", out, |out, found| verify(arguments, out, found))
}

fn verify(arguments: &Arguments, out: &mut Out, found: &mut Found) -> Outcome {
    let choice = if arguments.emulator {
        Choice::Emulator
    } else {
        arguments.device
    };
    // Checks everything possible before the first run.
    let files = arguments.golden.as_deref().map(golden::files).transpose()?;
    let shapes = arguments.shapes.unwrap_or(match choice {
        Choice::Emulator => Shapes::Ragged,
        _ => Shapes::Realistic,
    });
    let (mut cases, source) = match arguments.layers.path() {
        Some(path) => (cases_of_file(path, arguments)?, "the file"),
        None => (cases(shapes), "the tables"),
    };
    cases.retain(|case| case.name.contains(&arguments.only));
    let mut files = files.unwrap_or_default();
    files.retain(|file| golden_name(file).contains(&arguments.only));
    if cases.is_empty() && files.is_empty() {
        return Err("no case has such a name: check --only and --golden".into());
    }
    let device = choice.open()?;
    let stream = device.stream()?;
    writeln!(out, "device\n{}", device.info())?;
    found.note("device", json!(device.info()));

    let types = [DType::F32, DType::F16, DType::BF16];
    let runs = cases.iter().flat_map(|case| {
        types.map(|dtype| (case, ExecutionMode::all_on(&device, case, dtype).len()))
    });
    say_of_cases(runs, &device);
    let mut tally = Tally::default();
    let ran = cases_and_files(&mut tally, &stream, (&cases, source), &files, out);
    // Reports the results so far even if a later part failed.
    tally.report(out, found)?;
    ran?;
    Ok(tally.status)
}

fn cases_and_files(
    tally: &mut Tally,
    stream: &Stream,
    (cases, source): (&[Case], &str),
    files: &[PathBuf],
    out: &mut Out,
) -> Result<(), Failure> {
    if !cases.is_empty() {
        let step = Step::start(format!("{} cases from {source}", cases.len()));
        for (done, case) in cases.iter().enumerate() {
            step.at(done, cases.len(), &case.name);
            for dtype in [DType::F32, DType::F16, DType::BF16] {
                let case = rounded(case, dtype);
                let progress = |layers, of| {
                    let detail = format!("{}: {layers}/{of} of the float64 reference", case.name);
                    step.at(done, cases.len(), &detail);
                };
                let expected =
                    |precision: &Precision| case.expected_with_progress(precision, &progress);
                tally.add(stream, &case.name, &case, dtype, expected, out)?;
            }
        }
        step.done();
    }
    if !files.is_empty() {
        golden_files(tally, stream, files, out)?;
    }
    Ok(())
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

/// The layers of the file as cases, one for each shape.
fn cases_of_file(path: &Path, arguments: &Arguments) -> Result<Vec<Case>, Failure> {
    let (graph, shapes) = (arguments.layers.read()?, &arguments.shape);
    let graph = graph.ok_or("has no layers")?;
    let name = file_name(path);
    // Checks all shapes before creating the first case.
    for Shape(shape) in shapes {
        let possible = || {
            let bytes = Case::bytes_of_graph(&graph, &shape[..])?;
            Ok(lab::must_have_memory(bytes.unwrap_or(usize::MAX))?)
        };
        let place = format!("{} {shape:?}", path.display());
        possible().map_err(|failure: Failure| failure.of(place))?;
    }
    let case = |Shape(shape): &Shape| {
        let name = format!("{name}/{shape:?}");
        Case::of_graph(&name, graph.clone(), shape)
    };
    Ok(shapes.iter().map(case).collect())
}

/// The case name of a golden file.
fn golden_name(file: &Path) -> String {
    format!("golden/{}", file_name(file))
}

/// Compares with golden files. An unusable file is recorded and does not stop the others.
fn golden_files(
    tally: &mut Tally,
    stream: &Stream,
    files: &[PathBuf],
    out: &mut Out,
) -> Result<(), Failure> {
    let step = Step::start(format!("{} golden files", files.len()));
    for (done, file) in files.iter().enumerate() {
        let name = golden_name(file);
        step.at(done, files.len(), &name);
        let golden = match golden::load(file) {
            Ok(golden) => golden,
            Err(error) => {
                let failure = Failure::from(error);
                tally.complain(failure.status(), failure.to_string(), out)?;
                continue;
            }
        };
        // The emulator takes half an hour for a full-size problem.
        if golden.is_full_size() && stream.device().is_emulator() {
            continue;
        }
        let expected = |precision: &Precision| golden.expected(precision);
        tally.add(stream, &name, &golden.case, DType::F32, expected, out)?;
    }
    step.done();
    Ok(())
}

/// The results of an operator's or chain's cases.
#[derive(Default, Serialize)]
struct Line {
    name: String,
    layers: usize,
    dtype: String,
    /// Whether f32 convolutions used the fast math mode, which has its own tolerance.
    fast: bool,
    runs: usize,
    wrong: usize,
    failed: usize,
    elements: usize,
    largest_error: f64,
    tolerance_used: f64,
}

impl Line {
    /// The sort key: operators first, each from the largest element type on.
    fn place(&self) -> (bool, &str, usize, bool) {
        let types = ["f32", "f16", "bf16"];
        let number = types.iter().position(|name| *name == self.dtype);
        (
            self.layers > 1,
            &self.name,
            number.unwrap_or(types.len()),
            self.fast,
        )
    }
}

/// A failed comparison.
#[derive(Serialize)]
struct Complaint {
    status: Status,
    text: String,
}

#[derive(Default)]
struct Tally {
    lines: Vec<Line>,
    complaints: Vec<Complaint>,
    status: Status,
}

impl Tally {
    /// Runs a case in all its modes.
    fn add<E: Display>(
        &mut self,
        stream: &Stream,
        name: &str,
        case: &Case,
        dtype: DType,
        expected: impl Fn(&Precision) -> Result<Expected, E>,
        out: &mut Out,
    ) -> Result<(), Failure> {
        for (mode, result) in compare(case, dtype, stream, expected) {
            let line = self.line(case, dtype, mode.is_fast());
            line.runs += 1;
            match result {
                Ok(agreement) => {
                    line.elements += agreement.elements;
                    line.largest_error = line.largest_error.max(agreement.largest_error);
                    line.tolerance_used = line.tolerance_used.max(agreement.tolerance_used);
                }
                Err(CaseFailure { status, text }) => {
                    match status {
                        Status::Wrong => line.wrong += 1,
                        _ => line.failed += 1,
                    }
                    self.complain(status, format!("{name} {mode}: {text}"), out)?;
                }
            }
        }
        Ok(())
    }

    /// Records a failed comparison, and prints it immediately.
    fn complain(&mut self, status: Status, text: String, out: &mut Out) -> Result<(), Failure> {
        writeln!(out, "  {}", plain(&text))?;
        out.flush()?;
        self.status = self.status.and(status);
        self.complaints.push(Complaint { status, text });
        Ok(())
    }

    fn line(&mut self, case: &Case, dtype: DType, fast: bool) -> &mut Line {
        let kind = case.kind();
        let dtype = dtype.to_string();
        let is_line = |line: &Line| line.name == kind && (&line.dtype, line.fast) == (&dtype, fast);
        let found = self.lines.iter().position(is_line);
        let index = found.unwrap_or_else(|| {
            self.lines.push(Line {
                name: kind.to_owned(),
                layers: case.graph.layers().len(),
                dtype,
                fast,
                ..Line::default()
            });
            self.lines.len() - 1
        });
        &mut self.lines[index]
    }

    fn report(&mut self, out: &mut Out, found: &mut Found) -> Result<(), Failure> {
        let mut table = aligned([
            ("operator or chain", Left),
            ("type", Left),
            ("runs", Right),
            ("elements", Right),
            ("largest error", Right),
            ("of tolerance", Right),
            ("verdict", Left),
        ]);
        self.lines
            .sort_by(|one, other| one.place().cmp(&other.place()));
        found.note("lines", json!(self.lines));
        found.note("complaints", json!(self.complaints));
        for line in &self.lines {
            table.add_row([
                plain(&line.name),
                if line.fast {
                    format!("{} fast", line.dtype)
                } else {
                    line.dtype.clone()
                },
                line.runs.to_string(),
                line.elements.to_string(),
                format!("{:.1e}", line.largest_error),
                format!("{:.0} %", line.tolerance_used * 100.0),
                match (line.wrong, line.failed) {
                    (0, 0) => "right".to_owned(),
                    (0, failed) => format!("{failed} FAILED"),
                    (wrong, 0) => format!("{wrong} WRONG"),
                    (wrong, failed) => format!("{wrong} WRONG, {failed} FAILED"),
                },
            ]);
        }
        if !self.lines.is_empty() {
            writeln!(out, "{}\n", table.trim_fmt())?;
        }
        out.flush()
    }
}
