//! Estimates of a benchmark's duration, printed before it starts.

use std::time::Duration;

use convfuse::Device;
use convfuse::graph::{GraphProblem, LayerProblem};
use convfuse_cli::bench::Protocol;
use oracle::Case;

use super::arguments::Arguments;
use super::tasks::Task;
use crate::cli::failure::Failure;
use crate::cli::out::say;

/// The cost per second of the float64 reference on one thread, as [`Case::cost_of`] counts it.
const REFERENCE_PER_S: f64 = 1e8;

/// The cost per second of the emulator on one thread.
const EMULATOR_PER_S: f64 = 2e6;

/// The cost per second of the CPU backend.
const CPU_PER_S: f64 = 1e9;

/// The least duration that is printed.
const WORTH_SAYING: Duration = Duration::from_secs(20);

/// The longest duration in the emulator without `--yes`.
const MUST_BE_ASKED: Duration = Duration::from_mins(10);

/// Prints the expected duration of the tasks if it is long. Refuses tasks that take the emulator more than
/// [`MUST_BE_ASKED`] without `--yes`.
pub(super) fn must_end(
    arguments: &Arguments,
    tasks: &[Task],
    device: &Device,
    protocol: &Protocol,
) -> Result<(), Failure> {
    let each = tasks
        .iter()
        .map(|task| estimate(arguments, task, device, protocol));
    let each: Vec<Duration> = each.collect();
    let all = each
        .iter()
        .fold(Duration::ZERO, |all, one| all.saturating_add(*one));
    if all < WORTH_SAYING {
        return Ok(());
    }
    let text = format!("{} will take about {}", device, roughly(all));
    if device.is_emulator() && all > MUST_BE_ASKED && !arguments.yes {
        let longest = tasks.iter().zip(&each).max_by_key(|(_, took)| **took);
        let longest = longest.map_or(String::new(), |(task, took)| {
            format!(", {} of it for {}", roughly(*took), task.name)
        });
        return Err(Failure::Refused(format!(
            "{text}{longest}: give --yes to go on, or a smaller --shape"
        )));
    }
    say(format_args!("{text}"));
    Ok(())
}

fn estimate(arguments: &Arguments, task: &Task, device: &Device, protocol: &Protocol) -> Duration {
    let description = &task.description;
    let Ok(problem) = description.graph.problem(&description.input) else {
        return Duration::ZERO;
    };
    let math_mode = task.candidates.iter();
    let mut math_mode: Vec<_> = math_mode
        .map(|(_, options)| description.math_mode(options.precision))
        .collect();
    math_mode.dedup();
    let references = match arguments.no_reference {
        true => 0,
        false => math_mode.len(),
    };
    // One run to check the output, then the warm-up and the timed runs.
    let runs = (1 + protocol.warm_ups + protocol.repeats) as f64 * task.candidates.len() as f64;
    seconds(references as f64 * reference_s(&problem) + runs * run_s(&problem, device))
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Seconds of the float64 reference, which computes one sample per thread.
fn reference_s(problem: &GraphProblem) -> f64 {
    let samples = problem.steps.first().map_or(1, |step| step.input[0]);
    let at_once = threads().min(samples).max(1) as f64;
    Case::cost_of(problem) as f64 / REFERENCE_PER_S / at_once
}

/// Seconds of a run on a device. A GPU's time is negligible.
fn run_s(problem: &GraphProblem, device: &Device) -> f64 {
    match () {
        () if device.is_emulator() => kernels_cost(problem) / EMULATOR_PER_S / threads() as f64,
        () if device.is_cpu() => Case::cost_of(problem) as f64 / CPU_PER_S,
        () => 0.0,
    }
}

/// Prints the expected duration of comparing cases, each with a number of runs, if it is long.
pub(in crate::cli) fn say_of_cases<'a>(
    cases: impl IntoIterator<Item = (&'a Case, usize)>,
    device: &Device,
) {
    let each = cases.into_iter().map(|(case, runs)| match case.problem() {
        Ok(problem) => reference_s(&problem) + runs as f64 * run_s(&problem, device),
        Err(_) => 0.0,
    });
    let all = seconds(each.sum());
    if all >= WORTH_SAYING {
        say(format_args!("{device} will take about {}", roughly(all)));
    }
}

/// As [`must_end`], for runs of one problem. Refuses any that take the emulator more than [`MUST_BE_ASKED`].
pub(in crate::cli) fn must_end_soon(
    problem: &GraphProblem,
    runs: usize,
    device: &Device,
) -> Result<(), Failure> {
    let all = seconds(runs as f64 * run_s(problem, device));
    let text = || format!("{device} will take about {}", roughly(all));
    match all {
        _ if all > MUST_BE_ASKED => {
            return Err(Failure::Refused(format!(
                "{}: give a smaller --shape",
                text()
            )));
        }
        _ if all >= WORTH_SAYING => say(format_args!("{}", text())),
        _ => {}
    }
    Ok(())
}

/// As [`Case::cost_of`], for kernels. They read every element of a pooling window, even outside of the
/// image.
fn kernels_cost(problem: &GraphProblem) -> f64 {
    let product = |extents: &[usize]| extents.iter().map(|&extent| extent as f64).product::<f64>();
    let places = problem.steps.iter().map(|step| match &step.problem {
        LayerProblem::MaxPool2d(of) => product(&step.output) * product(&of.pool.kernel_size),
        LayerProblem::MaxPool3d(of) => product(&step.output) * product(&of.pool.kernel_size),
        LayerProblem::AvgPool2d(of) => product(&step.output) * product(&of.pool.kernel_size),
        LayerProblem::AvgPool3d(of) => product(&step.output) * product(&of.pool.kernel_size),
        _ => 0.0,
    });
    Case::cost_of(problem) as f64 + places.sum::<f64>()
}

/// Formats a duration in one unit.
fn roughly(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        ..100.0 => format!("{seconds:.0} s"),
        ..6e3 => format!("{:.0} min", seconds / 60.0),
        ..3.6e5 => format!("{:.0} h", seconds / 3600.0),
        ..8.64e9 => format!("{:.0} days", seconds / 86_400.0),
        _ => "100,000 days or more".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_roughly() {
        let roughly = |seconds| roughly(Duration::from_secs(seconds));
        assert_eq!(roughly(42), "42 s");
        assert_eq!(roughly(600), "10 min");
        assert_eq!(roughly(3 * 3600), "3 h");
        assert_eq!(roughly(30 * 86_400), "30 days");
        assert_eq!(roughly(u64::MAX), "100,000 days or more");
    }
}
