//! Records: reports that were written to a file, and what a new report changes.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::report::MathMode;
use super::statistics::quantile;

/// Why the record in a file cannot be compared with.
#[derive(Debug, thiserror::Error)]
#[error("{}: {flaw}", .path.display())]
pub struct RecordError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    #[source]
    pub flaw: RecordFlaw,
}

/// What is wrong with a record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordFlaw {
    /// It is not the JSON of a report.
    #[error("is not a record of `convfuse bench --json`")]
    Format(#[from] serde_json::Error),
    /// It has no runs that went right.
    #[error("has no run that went right, so there is nothing to compare with")]
    NoRuns,
    /// A run that went right has no hash, as in records of earlier versions.
    #[error("{0} has no output_hash; a record must have one for every run that went right")]
    NoHash(String),
    /// A run cannot be told from another.
    #[error("{0} is there more than once; a run must be unique to be compared with")]
    Twice(String),
}

/// What a comparison needs of a [`Report`](super::Report) in JSON; all else in the file is ignored.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Record {
    /// When it was made.
    pub date: String,
    /// The device that it was made on.
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
    // The name in older records.
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
    /// The record that is the text of a file. Its runs must be unique, and those that went right must have
    /// hashes.
    ///
    /// # Errors
    /// What [`RecordFlaw`] lists.
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

    /// The run of the same problem that was done in the same way.
    fn find(&self, problem: &RecordProblem, run: &RecordRun) -> Option<&RecordRun> {
        let mut runs = self.runs();
        let found = runs.find(|(other, same)| same.is_same(run) && other.is_same(problem));
        found.map(|(_, run)| run)
    }

    /// The record that [`Report::to_json`](super::Report::to_json) made.
    ///
    /// A new report goes through its JSON as well, so that numbers in attributes are equal if their texts
    /// are.
    ///
    /// # Errors
    /// Text that is no such JSON.
    pub fn from_json(text: &str) -> serde_json::Result<Record> {
        serde_json::from_str(text)
    }
}

impl RecordProblem {
    /// Whether the two are one problem: of one name, with the same numbers to compute from.
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

/// How the output of a run compares with the old record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// The hashes agree.
    Equal,
    /// The hashes differ.
    Different,
    /// The old record has no such run, or it went wrong there.
    MissingInOld,
    /// The new record has no such run although it was asked for.
    MissingInNew,
    /// The new run went wrong.
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
    /// What was found.
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

    /// The new median over the old one, where there are both.
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

/// Every run of a new record next to that of an old one.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Comparison {
    /// The new record's runs in their order, then those of the old record that are missing.
    pub runs: Vec<RunComparison>,
}

impl Comparison {
    /// Looks up every run of `new` in `old`. A run of `old` that `new` lacks is missing if `new` has its
    /// problem, and `asked` says that its strategy in its math mode was to be run.
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

    /// How many runs have this finding.
    #[must_use]
    pub fn count(&self, finding: Finding) -> usize {
        let same = self.runs.iter().filter(|run| run.finding == finding);
        same.count()
    }

    /// The median and the largest of the times' ratios, new over old; `None` if there are none.
    #[must_use]
    pub fn ratios(&self) -> Option<(f64, f64)> {
        let mut ratios: Vec<f64> = self.runs.iter().filter_map(RunComparison::ratio).collect();
        ratios.sort_by(f64::total_cmp);
        let largest = *ratios.last()?;
        Some((quantile(&ratios, 0.5), largest))
    }

    /// How many runs are more than `percent` percent slower than before.
    #[must_use]
    pub fn slower(&self, percent: f64) -> usize {
        let slower = self.runs.iter().filter(|run| run.is_slower(percent));
        slower.count()
    }

    /// Whether runs were compared, all have the same bits, no requested run is missing or failed, and none is
    /// slower by more than the limit in percent, if there is one.
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
