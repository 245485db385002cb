//! Which kernels do a chain: a function of problem, device properties and options alone.
//!
//! A chain is done run by run, as a partition says. For a run the rows of the [table](super::table) are asked from top to
//! bottom: whether their kernels can do it (if not, by which rule), then whether they should (if not, why). The first row
//! that can and should does it; one that was asked for by name only has to be able to. Without a partition the whole chain
//! is one run; if no row does it, the longest run of first layers that some row does is cut off, and so on.

use std::ops::Range;

use op_spec::chain::{Chain, ChainProblem, Layer, NormalForm, Run};
use op_spec::launch::Refusal;

use super::Options;
use super::table::{Kernels, TABLE};
use crate::device::{DType, DeviceProperties};
use crate::error::{Error, Result};

/// What kernels are chosen for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) chain: &'a Chain,
    pub(super) problem: &'a ChainProblem,
    pub(super) dtype: DType,
    pub(super) properties: &'a DeviceProperties,
    pub(super) options: &'a Options,
}

/// A run of layers that kernels are chosen for.
#[derive(Debug)]
pub(super) struct RunQuestion<'a> {
    pub(super) of: Question<'a>,
    pub(super) layers: Range<usize>,
    /// Nothing where the layers have none.
    pub(super) form: Option<NormalForm>,
}

impl RunQuestion<'_> {
    /// The names of the operators whose kernels do the layers: that of `clamp` for every function that is a clamp.
    pub(super) fn operators(&self) -> Vec<&'static str> {
        let layers = self.of.chain.layers()[self.layers.clone()].iter();
        let name = |layer: &Layer| match layer {
            Layer::Pointwise(function) if function.as_clamp().is_some() => "clamp",
            layer => layer.operator(),
        };
        layers.map(name).collect()
    }
}

/// What a row answered.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    /// It does the run.
    Taken,
    /// It could, but should not: why.
    Passed(&'static str),
    /// It cannot: the rule that is broken.
    Refused(Refusal),
}

/// The kernels for a run, and how they were found.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) layers: Range<usize>,
    pub(super) row: &'static str,
    pub(super) kernels: Kernels,
    /// Rows that were asked before, with their answers, and the one that was taken.
    pub(super) considered: Vec<(&'static str, Answer)>,
}

/// The kernels for a whole chain.
///
/// # Errors
/// [`Error::NoKernels`] for a run of a partition that no row does, or not the one that it names.
pub(super) fn choose(question: Question<'_>) -> Result<Vec<Chosen>> {
    match &question.options.partition {
        Some(partition) => {
            let known = question.chain.layers().len();
            let covered = partition.runs().last().map_or(0, |run| run.layers.end);
            if covered != known {
                return Err(Error::OtherPartition { covered, known });
            }
            let runs = partition.runs().iter();
            runs.map(|run| choose_run(question, run)).collect()
        }
        None => choose_whole(question),
    }
}

/// The kernels for a run as a partition has it.
fn choose_run(question: Question<'_>, run: &Run) -> Result<Chosen> {
    let asked = run.kernel.as_deref();
    ask(question, run.layers.clone(), asked).map_err(|considered| {
        let operators = question.chain.layers()[run.layers.clone()].iter();
        let operators: Vec<&str> = operators.map(|layer| layer.operator()).collect();
        let refusals: Vec<String> = considered
            .iter()
            .filter_map(|(row, answer)| match answer {
                Answer::Refused(Refusal::Layers { .. }) if asked != Some(row) => None,
                Answer::Refused(refusal) => Some(format!("{row}: {refusal}")),
                Answer::Passed(reason) => Some(format!("{row}: {reason}")),
                Answer::Taken => None,
            })
            .collect();
        let reasons = if !refusals.is_empty() {
            refusals.join("; ")
        } else if asked.is_some() {
            let known: Vec<&str> = TABLE.iter().map(|row| row.name).collect();
            format!("known are {}", known.join(", "))
        } else {
            "no row of the table does these layers together".to_owned()
        };
        Error::NoKernels {
            layers: operators.join(" "),
            asked: asked.map(str::to_owned),
            reasons,
        }
    })
}

/// The kernels for a chain without a partition.
fn choose_whole(question: Question<'_>) -> Result<Vec<Chosen>> {
    let end = question.chain.layers().len();
    let mut chosen = Vec::new();
    let mut start = 0;
    // What the rows said of all layers together is told with the first run.
    let mut considered_whole = Vec::new();
    while start < end {
        let mut found = None;
        for stop in (start + 1..=end).rev() {
            match ask(question, start..stop, None) {
                Ok(run) => {
                    found = Some(run);
                    break;
                }
                Err(considered) if start == 0 && stop == end => considered_whole = considered,
                Err(_) => {}
            }
        }
        let Some(mut run) = found else {
            let layers = question.chain.layers()[start].operator().to_owned();
            return Err(Error::NoKernels {
                layers,
                asked: None,
                reasons: "no row of the table does the layer alone".to_owned(),
            });
        };
        if chosen.is_empty() && !considered_whole.is_empty() {
            let mut considered = std::mem::take(&mut considered_whole);
            considered
                .retain(|(_, answer)| !matches!(answer, Answer::Refused(Refusal::Layers { .. })));
            considered.append(&mut run.considered);
            run.considered = considered;
        }
        start = run.layers.end;
        chosen.push(run);
    }
    Ok(chosen)
}

/// Asks the table's rows for a run, or the one row that is named.
fn ask(
    question: Question<'_>,
    layers: Range<usize>,
    asked: Option<&str>,
) -> Result<Chosen, Vec<(&'static str, Answer)>> {
    let run = RunQuestion {
        of: question,
        form: NormalForm::of(question.problem, layers.clone()).ok(),
        layers,
    };
    let mut considered = Vec::new();
    for row in TABLE
        .iter()
        .filter(|row| asked.is_none_or(|name| name == row.name))
    {
        let answer = match (row.can)(row, &run) {
            Err(refusal) => Answer::Refused(refusal),
            Ok(kernels) => match (row.should)(&run, &kernels) {
                Err(reason) if asked.is_none() => Answer::Passed(reason),
                _ => {
                    considered.push((row.name, Answer::Taken));
                    return Ok(Chosen {
                        layers: run.layers,
                        row: row.name,
                        kernels,
                        considered,
                    });
                }
            },
        };
        considered.push((row.name, answer));
    }
    Err(considered)
}

#[cfg(test)]
mod tests;
