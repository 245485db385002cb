//! `convfuse bench`: how fast every strategy is, and how fast the device would let it be.

mod arguments;
mod compare;
mod output;
mod print;
mod request;

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

pub(super) use arguments::{Arguments, Shape, dtype, shape};
use arguments::{Model, candidates};
use convfuse::chain::Chain;
use convfuse::chain::presets::{KernelBench79, KernelBench85};
use convfuse::model::Precision;
use convfuse::{DType, Stream, lab};
use convfuse_cli::bench::{Ceilings, Problem, Protocol, Record, Report, Subject, chart};
use humantime::format_rfc3339_seconds;
use output::write;
use print::print;
pub(super) use request::{Attributes, Request, read};

use super::progress::Step;
use super::{Outcome, Verdict};

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let old = arguments.compare.as_deref().map(Record::read).transpose()?;
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
    let now = || format_rfc3339_seconds(SystemTime::now().max(SystemTime::UNIX_EPOCH));
    let date = arguments.date.clone();
    let date = date.unwrap_or_else(|| now().to_string());
    let mut bench = Bench {
        arguments,
        report: Report::new(date, std::env::args().collect(), &protocol, ceilings),
        protocol,
        failed: 0,
    };
    bench.run(&stream)?;

    let Bench { report, failed, .. } = bench;
    if to_stdout {
        print!("{}", report.to_json());
    } else {
        print(&report);
    }
    if let Some(path) = &arguments.svg {
        write(path, &chart::to_svg(&report))?;
    }
    let mut scores = report.problems.iter().flat_map(|problem| &problem.results);
    let wrong = scores.any(|score| score.run.complaint.is_some());
    let wrong = wrong || failed > 0;
    if wrong {
        eprintln!("convfuse: some runs went wrong, see above");
    }
    let as_before = match &old {
        Some(old) => compare::compare(old, &report, arguments)?,
        None => true,
    };
    Ok(if wrong || !as_before {
        Verdict::Wrong
    } else {
        Verdict::Right
    })
}

struct Bench<'a> {
    arguments: &'a Arguments,
    protocol: Protocol,
    report: Report,
    /// Problems that could not even be set up.
    failed: usize,
}

impl Bench<'_> {
    fn run(&mut self, stream: &Stream) -> Result<(), Box<dyn Error>> {
        let requests = self.requests()?;
        for request in &requests {
            for &dtype in &self.arguments.dtype {
                match self.request(stream, request, dtype) {
                    // One of many problems that fails must not lose the others.
                    Err(error) if requests.len() > 1 => {
                        let title = request.title.as_deref().unwrap_or("problem");
                        eprintln!("convfuse: {title} {:?} {dtype}: {error}", request.input);
                        self.failed += 1;
                    }
                    result => result?,
                }
            }
        }
        let mut problems = self.report.problems.iter();
        if self.failed == 0 && problems.all(|problem| problem.results.is_empty()) {
            return Err(
                "nothing to run: no --strategy and --shape fit the pipelines of --model".into(),
            );
        }
        Ok(())
    }

    /// What was asked for: the problems in a file, or those that the options give.
    fn requests(&self) -> Result<Vec<Request>, String> {
        let attributes = &self.arguments.attributes;
        if let Some(path) = &self.arguments.problems {
            if *attributes != Attributes::default() {
                return Err("the problems of --problems have attributes of their own".to_owned());
            }
            return read(path);
        }
        if let Some(path) = &self.arguments.chain {
            let chain: Chain = read(path)?;
            let shapes = self.arguments.shape.iter();
            let request = |shape: &arguments::Shape| Request {
                title: path
                    .file_stem()
                    .map(|name| name.to_string_lossy().into_owned()),
                input: shape.0.clone(),
                attributes: Attributes::default(),
                chain: Some(chain.clone()),
            };
            return Ok(shapes.map(request).collect());
        }
        let shapes_85 = self.shapes(Model::Of85, &KernelBench85::INPUT);
        let shapes_79 = self.shapes(Model::Of79, &KernelBench79::INPUT);
        let shapes = shapes_85.into_iter().chain(shapes_79);
        let request = |input| Request {
            title: None,
            input,
            attributes: attributes.clone(),
            chain: None,
        };
        Ok(shapes.map(request).collect())
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

    /// Runs one request in one element type.
    fn request(
        &mut self,
        stream: &Stream,
        request: &Request,
        dtype: DType,
    ) -> Result<(), Box<dyn Error>> {
        let subject = subject(stream, request, dtype, self.arguments.seed)?;
        self.subject(request.title.as_deref(), &subject)?;
        if let Some(path) = self
            .arguments
            .json
            .as_deref()
            .filter(|path| *path != Path::new("-"))
        {
            write(path, &self.report.to_json())?;
        }
        Ok(())
    }

    /// Checks and times one chain on one input.
    fn subject(&mut self, title: Option<&str>, subject: &Subject) -> Result<(), Box<dyn Error>> {
        let mut problem = Problem::of(subject);
        problem.title = title.map(str::to_owned);
        let mut candidates = candidates(self.arguments, subject.chain(), subject.dtype())?;
        if self.protocol.stream().device().is_cpu() {
            // The CPU backend has one way to do it.
            candidates.truncate(1);
        }
        if candidates.is_empty() {
            return Ok(());
        }
        let index = self.report.problems.len();
        let number = problem
            .number
            .map_or("chain".to_owned(), |number| number.to_string());
        let file = |what: &str| format!("{index}-{number}-{what}.safetensors");
        let save = self.arguments.save.as_ref();
        problem.parameters = save.map(|folder| folder.join(file("parameters")));
        if let Some(path) = &problem.parameters {
            subject.save_parameters(path)?;
        }
        let expected = |precision| match self.arguments.no_reference {
            true => Ok(None),
            false => subject.expected(precision).map(Some),
        };
        let step = Step::start(format!("{}: float64 reference", problem.label()));
        let mut products = subject.products(Precision::Accurate);
        let mut wanted = expected(Precision::Accurate)?;
        step.done();
        let mut scores = Vec::new();
        for (strategy, options) in &candidates {
            let its_products = subject.products(options.precision);
            let on_cpu = self.protocol.stream().device().is_cpu();
            let name = if on_cpu { "cpu" } else { strategy.name };
            let step = Step::start(format!("  {name} {}", its_products.name()));
            if its_products != products {
                (products, wanted) = (its_products, expected(options.precision)?);
            }
            let mut run = subject.measure(strategy, options, wanted.as_ref(), &mut self.protocol);
            let output = run.output.take();
            let ceilings = self.report.ceilings.as_ref();
            let mut score = problem.score(run, products, ceilings);
            if let (Some(folder), Some(output)) = (save, output) {
                let path =
                    folder.join(file(&format!("{}-{}", score.run.strategy, products.name())));
                lab::save_tensor(&path, "output", &output)?;
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

/// What a request asks to be run.
pub(super) fn subject(
    stream: &Stream,
    request: &Request,
    dtype: DType,
    seed: u64,
) -> Result<Subject, Box<dyn Error>> {
    let Request {
        input,
        attributes,
        chain,
        ..
    } = request;
    Ok(match (chain, &input[..]) {
        (Some(chain), _) => Subject::new(stream, chain, input, dtype, seed)?,
        (None, &[_, channels, _, _]) => {
            let problem = attributes.problem_85(channels)?;
            Subject::of_85(stream, &problem, input, dtype, seed)?
        }
        (None, &[_, channels, _, _, _]) => {
            let problem = attributes.problem_79(channels)?;
            Subject::of_79(stream, &problem, input, dtype, seed)?
        }
        _ => return Err("input must have four extents (85) or five (79)".into()),
    })
}
