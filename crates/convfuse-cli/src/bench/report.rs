//! The complete results of a benchmark.

use std::path::PathBuf;

use convfuse::DeviceInfo;
use serde::Serialize;

use super::{Ceilings, Description, MathMode, Protocol, Run};
use crate::Status;

/// The results of a benchmark.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The version of this library.
    pub convfuse: &'static str,
    /// The kind of the record: `bench`.
    pub kind: &'static str,
    /// The date and time in UTC, such as `2026-11-20T15:04:05Z`.
    pub date: String,
    /// The command line.
    pub command: Vec<String>,
    /// The device.
    pub device: DeviceInfo,
    /// The name of the clock that gives the times.
    pub clock: &'static str,
    /// Bytes written before each run, to flush the cache.
    pub flush_bytes: u64,
    /// The peak rates of the device.
    pub ceilings: Option<Ceilings>,
    /// The outcome of the whole benchmark, as in the exit status.
    pub status: Status,
    /// The error that ended the benchmark early, if any.
    pub error: Option<String>,
    /// The runs of each problem.
    pub problems: Vec<Problem>,
}

/// One graph of layers on one input.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Problem {
    /// The description of layers, input and seed.
    #[serde(flatten)]
    pub description: Description,
    /// The title given in the request, if any.
    pub title: Option<String>,
    /// Its operators.
    pub name: String,
    /// The seed that [`data::fill`](convfuse::data::fill) takes for the input.
    pub input_seed: u64,
    /// The file with the parameters, if there is one.
    pub parameters: Option<PathBuf>,
    /// The error that stopped the problem early, if any.
    pub error: Option<String>,
    /// The outcome of the problem.
    pub status: Status,
    /// The runs of all strategies.
    pub results: Vec<Score>,
}

/// A run, compared with the peak rates of the device.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Score {
    /// The run.
    #[serde(flatten)]
    pub run: Run,
    /// The math mode of its convolution.
    pub math_mode: MathMode,
    /// Operations of one pass of the convolution, per second.
    pub flop_per_s: Option<f64>,
    /// Bytes of inputs, outputs and parameters, per second.
    pub bytes_per_s: Option<f64>,
    /// The least time that the ceilings allow.
    pub floor_s: Option<f64>,
    /// The ratio of that least time to the median.
    pub fraction_of_ceiling: Option<f64>,
    /// The file with all outputs, if there is one. A single output is named `output`; several have their own
    /// names.
    pub output: Option<PathBuf>,
}

impl Report {
    /// Creates a report without results.
    #[must_use]
    pub fn new(
        date: String,
        command: Vec<String>,
        protocol: &Protocol,
        ceilings: Option<Ceilings>,
    ) -> Report {
        Report {
            convfuse: env!("CARGO_PKG_VERSION"),
            kind: "bench",
            date,
            command,
            device: protocol.stream().device().info(),
            clock: protocol.clock(),
            flush_bytes: protocol.flush_bytes(),
            ceilings,
            status: Status::Right,
            error: None,
            problems: Vec::new(),
        }
    }

    /// The report as JSON: one object, lengths in bytes, times in seconds.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("all keys are strings") + "\n"
    }
}

impl Problem {
    /// Creates a problem without results.
    #[must_use]
    pub fn of(description: &Description) -> Problem {
        Problem {
            title: None,
            name: description.graph.operators(),
            input_seed: description.input_seed(),
            description: description.clone(),
            parameters: None,
            error: None,
            status: Status::Right,
            results: Vec::new(),
        }
    }

    /// The label of the problem: `85 f16`, for example, or its title in place of the number.
    #[must_use]
    pub fn label(&self) -> String {
        let number = self.description.number.map(|number| number.to_string());
        let title = self.title.as_ref().or(number.as_ref());
        format!("{} {}", title.unwrap_or(&self.name), self.description.dtype)
    }

    /// Compares a run with the ceilings.
    #[must_use]
    pub fn score(&self, run: Run, math_mode: MathMode, ceilings: Option<&Ceilings>) -> Score {
        let median = run.time.map(|time| time.median.max(f64::MIN_POSITIVE));
        let per_second = |amount: u64| median.map(|median| amount as f64 / median);
        let Description { bytes, flop, .. } = self.description;
        let floor_s = ceilings.map(|ceilings| ceilings.floor_s(bytes, flop, math_mode));
        Score {
            math_mode,
            flop_per_s: per_second(flop),
            bytes_per_s: per_second(bytes),
            floor_s,
            fraction_of_ceiling: floor_s.zip(median).map(|(floor, median)| floor / median),
            output: None,
            run,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Subject;
    use convfuse::graph::presets::{KernelBench79, KernelBench85};
    use convfuse::model::{Options, Precision, Strategy};
    use convfuse::{DType, Device};

    #[test]
    fn a_report_of_the_cpu_as_json_has_every_figure() {
        let stream = Device::cpu().stream().unwrap();
        let mut protocol = Protocol::new(&stream).unwrap();
        (protocol.repeats, protocol.warm_ups) = (2, 0);
        let attributes = KernelBench85 {
            in_channels: 3,
            ..KernelBench85::default()
        };
        let input = [1, 3, 11, 13];
        let description = Description::of_85(&attributes, &input, DType::F16, 4).unwrap();
        let subject = Subject::new(&stream, &description).unwrap();
        let expected = subject.expected(Precision::Accurate).unwrap();
        let strategy = &Strategy::all(subject.graph())[0];
        let options = strategy.options();
        let run = subject.measure(strategy, &options, Some(&expected), &mut protocol);
        assert_eq!(run.complaint, None);

        let ceilings = Ceilings {
            copy_bytes_per_s: 1e12,
            fma_flop_per_s: 1e12,
            mma_tf32_flop_per_s: 1e12,
            mma_f16_flop_per_s: 1e12,
            wgmma_f16_flop_per_s: Some(1e12),
        };
        let mut problem = Problem::of(&description);
        let math_mode = description.math_mode(Precision::Accurate);
        let score = problem.score(run, math_mode, Some(&ceilings));
        problem.results.push(score);
        let mut report = Report::new("now".into(), vec!["x".into()], &protocol, Some(ceilings));
        report.problems.push(problem);

        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(json["device"]["name"], "CPU backend");
        assert_eq!(json["clock"], "wall clock");
        assert_eq!(json["kind"], "bench");
        assert_eq!(json["status"], 0);
        assert_eq!(json["ceilings"]["copy_bytes_per_s"], 1e12);
        let problem = &json["problems"][0];
        assert_eq!(problem["output"], serde_json::json!([1, 64, 2, 2]));
        assert_eq!(problem["attributes"]["num_groups"], 16);
        assert_eq!(problem["attributes"]["stride"], serde_json::json!([1, 1]));
        assert_eq!(problem["flop"], 2 * 64 * 9 * 11 * 3 * 9);
        // Input, output, filters, and the four vectors of 64.
        let elements = 3 * 11 * 13 + 64 * 2 * 2 + 64 * 3 * 9 + 4 * 64;
        assert_eq!(problem["bytes"], 2 * elements);
        let result = &problem["results"][0];
        assert_eq!(result["strategy"], "cpu");
        assert_eq!(result["math_mode"], "half");
        assert_eq!(result["time"]["repeats"], 2);
        assert_eq!(result["output_hash"].as_str().map(str::len), Some(32));
        for figure in [
            "flop_per_s",
            "bytes_per_s",
            "floor_s",
            "fraction_of_ceiling",
            "tolerance_used",
        ] {
            assert!(
                result[figure].as_f64().is_some_and(|value| value > 0.0),
                "{figure}"
            );
        }
    }

    #[test]
    fn a_wrong_output_is_reported_and_not_timed() {
        let stream = Device::cpu().stream().unwrap();
        let mut protocol = Protocol::new(&stream).unwrap();
        let attributes = KernelBench79::default();
        let input = [1, 3, 4, 5, 6];
        let subject = |seed| {
            Subject::new(
                &stream,
                &Description::of_79(&attributes, &input, DType::F32, seed)?,
            )
        };
        let expected_of_another = subject(1).unwrap().expected(Precision::Accurate).unwrap();
        let another = subject(2).unwrap();
        let strategy = &Strategy::all(another.graph())[0];
        let options = Options::default();
        let expected = Some(&expected_of_another);
        let run = another.measure(strategy, &options, expected, &mut protocol);
        assert!(
            run.complaint
                .is_some_and(|complaint| complaint.contains("elements are off"))
        );
        assert_eq!(run.time, None);
    }
}
