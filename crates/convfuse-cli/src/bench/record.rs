//! Records of earlier benchmarks, and comparisons of a new report with them.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::math_mode::MathMode;
use super::statistics::quantile;

/// The reason why a record cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {flaw}", .path.display())]
pub struct RecordError {
    /// The file.
    pub path: PathBuf,
    /// The flaw of the file.
    #[source]
    pub flaw: RecordFlaw,
}

/// A flaw of a record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordFlaw {
    /// The text is not the JSON of a report.
    #[error("is not a record of `convfuse bench --json`")]
    Format(#[from] serde_json::Error),
    /// The record has no successful run.
    #[error("has no run that went right, so there is nothing to compare with")]
    NoRuns,
    /// A successful run has no hash, as in records of earlier versions.
    #[error("{0} has no output_hash; a record must have one for every run that went right")]
    NoHash(String),
    /// Two runs have the same problem, strategy and math mode.
    #[error("{0} is there more than once; a run must be unique to be compared with")]
    Twice(String),
}

/// The parts of a [`Report`](super::Report) in JSON that a comparison needs. All other keys are ignored.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Record {
    /// The date of the benchmark.
    pub date: String,
    /// The device of the benchmark.
    pub device: RecordDevice,
    problems: Vec<RecordProblem>,
}

/// The device of a record.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct RecordDevice {
    /// Its name.
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct RecordProblem {
    number: Option<u32>,
    title: Option<String>,
    input: Vec<usize>,
    dtype: String,
    seed: u64,
    attributes: serde_json::Value,
    results: Vec<RecordRun>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct RecordRun {
    strategy: String,
    // The key in older records.
    #[serde(alias = "products")]
    math_mode: MathMode,
    output_hash: Option<String>,
    time: Option<RecordTime>,
    complaint: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
struct RecordTime {
    median: f64,
}

impl Record {
    /// Parses the text of a file. Its runs must be unique, and successful runs must have hashes.
    ///
    /// # Errors
    /// See [`RecordFlaw`].
    pub fn of_text(path: &Path, text: &str) -> Result<Record, RecordError> {
        let checked = Record::from_json(text)
            .map_err(RecordFlaw::from)
            .and_then(|record| record.check().map(|()| record));
        checked.map_err(|flaw| RecordError {
            path: path.to_owned(),
            flaw,
        })
    }

    fn check(&self) -> Result<(), RecordFlaw> {
        for (index, (problem, run)) in self.runs().enumerate() {
            if run.is_right() && run.output_hash.is_none() {
                return Err(RecordFlaw::NoHash(problem.describe(run)));
            }
            let mut before = self.runs().take(index);
            if before.any(|(other, same)| same.is_same(run) && other.is_same(problem)) {
                return Err(RecordFlaw::Twice(problem.describe(run)));
            }
        }
        match self.runs().any(|(_, run)| run.is_right()) {
            true => Ok(()),
            false => Err(RecordFlaw::NoRuns),
        }
    }

    /// All runs, each with its problem.
    fn runs(&self) -> impl Iterator<Item = (&RecordProblem, &RecordRun)> {
        let of = |problem| move |run| (problem, run);
        let problems = self.problems.iter();
        problems.flat_map(move |problem| problem.results.iter().map(of(problem)))
    }

    /// Finds the run of the same problem with the same strategy and math mode.
    fn find(&self, problem: &RecordProblem, run: &RecordRun) -> Option<&RecordRun> {
        let mut runs = self.runs();
        let found = runs.find(|(other, same)| same.is_same(run) && other.is_same(problem));
        found.map(|(_, run)| run)
    }

    /// Parses the JSON of [`Report::to_json`](super::Report::to_json).
    ///
    /// A new report also passes through its JSON, which makes numbers in attributes equal if their texts
    /// are.
    ///
    /// # Errors
    /// Text that is not the JSON of a report.
    pub fn from_json(text: &str) -> serde_json::Result<Record> {
        serde_json::from_str(text)
    }
}

impl RecordProblem {
    /// Whether both are the same problem: equal names and equal parameters of the computation.
    fn is_same(&self, other: &RecordProblem) -> bool {
        self.number == other.number
            && self.title == other.title
            && self.input == other.input
            && self.dtype == other.dtype
            && self.seed == other.seed
            && self.attributes == other.attributes
    }

    fn label(&self) -> String {
        let number = || {
            self.number
                .map_or("chain".to_owned(), |number| number.to_string())
        };
        let title = self.title.clone().unwrap_or_else(number);
        format!("{title} {} {:?}", self.dtype, self.input)
    }

    fn describe(&self, run: &RecordRun) -> String {
        format!("{} {} {}", self.label(), run.strategy, run.math_mode.name())
    }
}

impl RecordRun {
    fn is_same(&self, other: &RecordRun) -> bool {
        self.strategy == other.strategy && self.math_mode == other.math_mode
    }

    fn is_right(&self) -> bool {
        self.complaint.is_none()
    }

    fn median(&self) -> Option<f64> {
        self.time.map(|time| time.median)
    }
}

/// The result of comparing a run's output with the old record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// The hashes agree.
    Equal,
    /// The hashes differ.
    Different,
    /// The old record has no successful run of this kind.
    MissingInOld,
    /// The new record lacks this run although it was requested.
    MissingInNew,
    /// The new run failed.
    Wrong,
}

/// One run in both records.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RunComparison {
    /// The problem's title or number, element type and input shape.
    pub problem: String,
    /// The strategy's name.
    pub strategy: String,
    /// The math mode of its convolution.
    pub math_mode: MathMode,
    /// The result of comparing the outputs.
    pub finding: Finding,
    /// The median time in the old record, in seconds.
    pub old_s: Option<f64>,
    /// The median time in the new record, in seconds.
    pub new_s: Option<f64>,
}

impl RunComparison {
    fn new(
        problem: &RecordProblem,
        old: Option<&RecordRun>,
        new: Option<&RecordRun>,
    ) -> Option<RunComparison> {
        let run = new.or(old)?;
        let finding = match (old, new) {
            (_, None) => Finding::MissingInNew,
            (_, Some(new)) if !new.is_right() => Finding::Wrong,
            (None, Some(_)) => Finding::MissingInOld,
            (Some(old), Some(new)) if old.output_hash == new.output_hash => Finding::Equal,
            (Some(_), Some(_)) => Finding::Different,
        };
        Some(RunComparison {
            problem: problem.label(),
            strategy: run.strategy.clone(),
            math_mode: run.math_mode,
            finding,
            old_s: old.and_then(RecordRun::median),
            new_s: new.and_then(RecordRun::median),
        })
    }

    /// The ratio of the new median to the old one, if both exist.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let positive = |seconds: f64| seconds.max(f64::MIN_POSITIVE);
        let (old, new) = self.old_s.zip(self.new_s)?;
        Some(positive(new) / positive(old))
    }

    /// Whether the new median is more than `percent` percent above the old one.
    #[must_use]
    pub fn is_slower(&self, percent: f64) -> bool {
        let limit = 1.0 + percent / 100.0;
        self.ratio().is_some_and(|ratio| ratio > limit)
    }
}

/// All runs of a new record, each compared with the old record.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Comparison {
    /// The new record's runs in their order, then the missing runs of the old record.
    pub runs: Vec<RunComparison>,
}

impl Comparison {
    /// Looks up every run of `new` in `old`. A run of `old` is missing from `new` if `new` has its problem,
    /// and `asked` returns true for its strategy and math mode.
    #[must_use]
    pub fn new(old: &Record, new: &Record, asked: impl Fn(&str, MathMode) -> bool) -> Comparison {
        let mut runs = Vec::new();
        for (problem, run) in new.runs() {
            let before = old.find(problem, run).filter(|run| run.is_right());
            runs.extend(RunComparison::new(problem, before, Some(run)));
        }
        for (problem, run) in old.runs().filter(|(_, run)| run.is_right()) {
            let was_run = || new.problems.iter().any(|other| other.is_same(problem));
            let is_asked = asked(&run.strategy, run.math_mode) && was_run();
            if is_asked && new.find(problem, run).is_none() {
                runs.extend(RunComparison::new(problem, Some(run), None));
            }
        }
        Comparison { runs }
    }

    /// Counts the runs with this finding.
    #[must_use]
    pub fn count(&self, finding: Finding) -> usize {
        let same = self.runs.iter().filter(|run| run.finding == finding);
        same.count()
    }

    /// The median and the largest ratio of new to old times; `None` if there are no ratios.
    #[must_use]
    pub fn ratios(&self) -> Option<(f64, f64)> {
        let mut ratios: Vec<f64> = self.runs.iter().filter_map(RunComparison::ratio).collect();
        ratios.sort_by(f64::total_cmp);
        let largest = *ratios.last()?;
        Some((quantile(&ratios, 0.5), largest))
    }

    /// Counts the runs that are more than `percent` percent slower than before.
    #[must_use]
    pub fn slower(&self, percent: f64) -> usize {
        let slower = self.runs.iter().filter(|run| run.is_slower(percent));
        slower.count()
    }

    /// Whether the comparison passes: runs were compared, all bits are equal, no requested run is missing or
    /// failed, and none is slower by more than `time_limit` percent (if given).
    #[must_use]
    pub fn is_right(&self, time_limit: Option<f64>) -> bool {
        let bad = [Finding::Different, Finding::MissingInNew, Finding::Wrong];
        self.count(Finding::Equal) > 0
            && bad.into_iter().all(|finding| self.count(finding) == 0)
            && time_limit.is_none_or(|percent| self.slower(percent) == 0)
    }
}

#[cfg(test)]
mod tests;
