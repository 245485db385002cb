//! `convfuse bench`: times every strategy, and compares it with the ceilings of the device.

mod arguments;
mod compare;
mod estimate;
mod print;
mod tasks;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fs, mem};

pub(super) use arguments::{Arguments, not_negative, repeats};
pub(super) use compare::{read as read_record, text as comparison_text};
use convfuse::model::{Options, Precision, Strategy};
use convfuse_cli::Status;
use convfuse_cli::bench::{Ceilings, Problem, Protocol, Report, Subject};
pub(super) use estimate::{must_end_soon, say_of_cases};
pub(super) use tasks::{EMULATED_79, EMULATED_85};
use tasks::{Task, must_be_possible, tasks};

use super::failure::{Failure, Outcome};
use super::files::Target;
use super::interrupt;
use super::json::{Kept, command_line, must_not_replace, now};
use super::out::{self, Out, complain};
use super::progress::Step;
use super::tensors::save_all;

pub(super) fn run(arguments: &Arguments, out: &mut Out) -> Outcome {
    // Checks everything possible before the first run.
    let json = arguments.json.target(out)?;
    let written = ("--json", json.as_ref());
    must_not_replace(written, ("--problems", arguments.problems.as_deref()))?;
    arguments.layers.must_stay(written)?;
    let old = arguments.compare.as_deref().map(read_record).transpose()?;
    let mut tasks = tasks(arguments)?;
    let stream = arguments.device.open()?.stream()?;
    must_be_possible(&mut tasks, stream.device())?;
    let mut protocol = Protocol::new(&stream)?;
    if let Some(repeats) = arguments.repeats {
        protocol.repeats = repeats;
    }
    estimate::must_end(arguments, &tasks, stream.device(), &protocol)?;
    if let Some(folder) = &arguments.save {
        must_take_files(folder)?;
    }
    let ceilings = if arguments.no_ceilings {
        None
    } else {
        Ceilings::measure(&stream)?
    };
    let date = arguments.date.clone().unwrap_or_else(now);
    let report = Report::new(date, command_line(), &protocol, ceilings);
    let mut bench = Bench {
        arguments,
        protocol,
        report: Arc::new(Mutex::new(report)),
        kept: json.clone().map(Kept::new),
    };
    // An interrupt keeps the results so far.
    let guard = json.clone().map(|json| {
        let report = Arc::clone(&bench.report);
        interrupt::keep(move || {
            let mut report = locked(&report);
            report.status = report.status.and(Status::Failed);
            report.error = Some(interrupt::INTERRUPTED.to_owned());
            // The program is ending, so an error here is not reported.
            let _ = json.write_beside(&out::json(&*report));
        })
    });
    let ran = bench.run(&tasks, out);
    drop(guard);

    let mut report = locked(&bench.report);
    if let Err(failure) = &ran {
        report.status = report.status.and(failure.status());
        report.error = Some(failure.to_string());
    }
    let kept = json.map_or(Ok(()), |json| json.write(out, &out::json(&*report)));
    ran.and(kept)?;
    if report.status != Status::Right {
        complain("some runs went wrong, see above");
    }
    let as_before = match &old {
        Some(old) => compare::compare(old, &report, arguments, out)?,
        None => true,
    };
    Ok(match as_before {
        true => report.status,
        false => report.status.and(Status::Wrong),
    })
}

fn locked(report: &Mutex<Report>) -> MutexGuard<'_, Report> {
    report.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates the folder, and refuses one that does not allow new files.
fn must_take_files(folder: &Path) -> Result<(), Failure> {
    if folder == Path::new("-") {
        return Err("--save: - is standard output, must be a folder".into());
    }
    let made = fs::create_dir_all(folder);
    made.map_err(|error| Failure::of_file(folder, &error).of("--save"))?;
    Target::new("--save", &folder.join("parameters.safetensors")).map(drop)
}

struct Bench<'a> {
    arguments: &'a Arguments,
    protocol: Protocol,
    /// Shared with the handler of interrupts.
    report: Arc<Mutex<Report>>,
    kept: Option<Kept>,
}

impl Bench<'_> {
    /// Runs all tasks. A failing task is recorded and does not stop the others.
    fn run(&mut self, tasks: &[Task], out: &mut Out) -> Result<(), Failure> {
        print::head(&locked(&self.report), out)?;
        for (index, task) in tasks.iter().enumerate() {
            let mut problem = Problem::of(&task.description);
            problem.title.clone_from(&task.title);
            // The error of an unfinished problem, in case an interrupt comes before its end.
            problem.error = Some(interrupt::INTERRUPTED.to_owned());
            locked(&self.report).problems.push(problem);
            let ran = self.task(index, task);
            let problem = {
                let mut report = locked(&self.report);
                let problem = &mut report.problems[index];
                problem.error = ran.as_ref().err().map(ToString::to_string);
                if let Err(failure) = &ran {
                    complain(&format!("{}: {failure}", task.name));
                    problem.status = problem.status.and(failure.status());
                }
                let problem = problem.clone();
                report.status = report.status.and(problem.status);
                problem
            };
            print::problem(&problem, self.protocol.clock(), out)?;
            if let Some(kept) = &mut self.kept {
                kept.now_and_then(|| out::json(&*locked(&self.report)))?;
            }
        }
        Ok(())
    }

    /// Checks and times the layers of a task on one input, with every requested strategy.
    fn task(&mut self, index: usize, task: &Task) -> Result<(), Failure> {
        let Task {
            description,
            candidates,
            ..
        } = task;
        let subject = Subject::new(self.protocol.stream(), description)?;
        let number = description.kind();
        let file = |what: &str| format!("{index}-{number}-{what}.safetensors");
        let label = {
            let mut report = locked(&self.report);
            let problem = &mut report.problems[index];
            if let Some(folder) = &self.arguments.save {
                let path = folder.join(file("parameters"));
                save_all(&path, subject.parameters())?;
                problem.parameters = Some(path);
            }
            problem.label()
        };
        let expected = |precision, step: &Step| match self.arguments.no_reference {
            true => Ok(None),
            false => {
                let progress = |done, of| step.at(done, of, "of the float64 reference");
                subject
                    .expected_with_progress(precision, &progress)
                    .map(Some)
            }
        };
        let step = Step::start(format!("{label}: float64 reference"));
        let mut math_mode = description.math_mode(Precision::Accurate);
        let mut wanted = expected(Precision::Accurate, &step)?;
        step.done();
        for (strategy, options) in candidates {
            let step = Step::start(format!("  {}", self.name(task, strategy, options)));
            let its_mode = description.math_mode(options.precision);
            if its_mode != math_mode {
                (math_mode, wanted) = (its_mode, expected(options.precision, &step)?);
            }
            let mut run = subject.measure(strategy, options, wanted.as_ref(), &mut self.protocol);
            step.done();
            let outputs = mem::take(&mut run.outputs);
            let mut path = None;
            if let (Some(folder), false) = (&self.arguments.save, outputs.is_empty()) {
                let what = format!("{}-{}", run.strategy, math_mode.name());
                let to = folder.join(file(&what));
                let graph = subject.graph();
                let names = graph.outputs().iter().map(|&layer| match outputs.len() {
                    1 => "output",
                    _ => graph.name_of(layer),
                });
                save_all(&to, names.zip(&outputs))?;
                path = Some(to);
            }
            let mut report = locked(&self.report);
            let ceilings = report.ceilings;
            let problem = &mut report.problems[index];
            let mut score = problem.score(run, math_mode, ceilings.as_ref());
            score.output = path;
            problem.status = problem.status.and(score.run.status);
            problem.results.push(score);
        }
        Ok(())
    }

    /// The displayed name of a strategy with its options.
    fn name(&self, task: &Task, strategy: &Strategy, options: &Options) -> String {
        let math_mode = task.description.math_mode(options.precision);
        match self.protocol.stream().device().is_cpu() {
            true => format!("cpu {}", math_mode.name()),
            false => format!("{strategy} {}", math_mode.name()),
        }
    }
}
