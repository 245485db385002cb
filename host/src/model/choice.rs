//! Which kernels do a chain: a function of problem, device properties and options alone.
//!
//! A chain is done run by run, as a partition says. For a run the rows of the [table](super::table) are asked from top to
//! bottom: whether their kernels can do it (if not, by which rule), then whether they should (if not, why). The first row
//! that can and should does it; one that was asked for by name only has to be able to. Without a partition the whole chain
//! is one run; if no row does it, the longest run of first layers that some row does is cut off, and so on.

use std::ops::Range;

#[cfg(any(test, feature = "lab"))]
use op_spec::chain::Chain;
use op_spec::chain::NormalForm;
use op_spec::launch::Refusal;

#[cfg(any(test, feature = "lab"))]
use super::Options;
use super::question::{Considered, Question, RunFacts, RunQuestion, Verdict};
use super::table::{Kernels, TABLE};
#[cfg(any(test, feature = "lab"))]
use crate::device::{DType, DeviceProperties};
use crate::error::{Error, Result};

/// The kernels for a run, and how they were found.
pub(super) struct Chosen {
    pub(super) layers: Range<usize>,
    pub(super) kernels: Kernels,
    pub(super) facts: RunFacts,
}

/// The kernels for a whole chain.
///
/// # Errors
/// [`Error::NoKernels`] for a run of a partition that no row does, or not the one that it names.
pub(super) fn choose(question: Question<'_>) -> Result<Vec<Chosen>> {
    let known = question.chain.layers().len();
    let Some(partition) = &question.options.partition else {
        return choose_whole(question, known);
    };
    let covered = partition.runs().last().map_or(0, |run| run.layers.end);
    if covered != known {
        return Err(Error::OtherPartition { covered, known });
    }
    let runs = partition.runs().iter();
    runs.map(|run| choose_run(question, run.layers.clone(), run.kernel.as_deref()))
        .collect()
}

/// Whether kernels can be chosen for a chain on inputs of this shape.
///
/// # Errors
/// What the chain refuses, and what [`choose`] does.
#[cfg(any(test, feature = "lab"))]
pub(crate) fn must_have_kernels(
    chain: &Chain,
    input: &[usize],
    dtype: DType,
    options: &Options,
    properties: &DeviceProperties,
) -> Result<()> {
    let problem = chain.problem(input)?;
    let question = Question {
        chain,
        problem: &problem,
        dtype,
        properties,
        options,
    };
    choose(question).map(drop)
}

/// The kernels for a run, or those that were asked for.
fn choose_run(question: Question<'_>, layers: Range<usize>, asked: Option<&str>) -> Result<Chosen> {
    ask(question, layers.clone(), asked).map_err(|considered| {
        let reason = |Considered { kernels, verdict }: &Considered| match verdict {
            Verdict::Refused(reason) | Verdict::Passed(reason) => {
                Some(format!("{kernels}: {reason}"))
            }
            Verdict::Taken => None,
        };
        let refusals: Vec<String> = considered.iter().filter_map(reason).collect();
        let reasons = if !refusals.is_empty() {
            refusals.join("; ")
        } else if asked.is_some() {
            let known: Vec<&str> = TABLE.iter().map(|row| row.name).collect();
            format!("known are {}", known.join(", "))
        } else {
            "no row of the table does these layers together".to_owned()
        };
        Error::NoKernels {
            layers: question.operators(layers),
            asked: asked.map(str::to_owned),
            reasons,
        }
    })
}

/// The kernels for a chain of `end` layers without a partition.
fn choose_whole(question: Question<'_>, end: usize) -> Result<Vec<Chosen>> {
    // What the rows said of all layers together is told with the first run.
    let mut considered_whole = match ask(question, 0..end, None) {
        Ok(run) => return Ok(vec![run]),
        Err(considered) => considered,
    };
    let (mut chosen, mut start) = (Vec::new(), 0);
    while start < end {
        let mut stops = (start + 2..=end).rev().filter(|stop| stop - start < end);
        let several = stops.find_map(|stop| ask(question, start..stop, None).ok());
        let single = || choose_run(question, start..start + 1, None);
        let mut run: Chosen = several.map_or_else(single, Ok)?;
        let considered = &mut run.facts.considered;
        considered.splice(..0, considered_whole.drain(..));
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
) -> Result<Chosen, Vec<Considered>> {
    let run = RunQuestion {
        of: question,
        form: NormalForm::of(question.problem, layers.clone()).ok(),
        layers,
    };
    let mut considered = Vec::new();
    let is_asked = |name| asked.is_none_or(|asked| asked == name);
    for row in TABLE.iter().filter(|row| is_asked(row.name)) {
        let mut note = |verdict| {
            considered.push(Considered {
                kernels: row.name,
                verdict,
            });
        };
        match (row.can)(row, &run) {
            Err(Refusal::Layers { .. }) if asked.is_none() => {}
            Err(refusal) => note(Verdict::Refused(refusal.to_string())),
            Ok(kernels) => match kernels.should(&run) {
                Err(reason) if asked.is_none() => note(Verdict::Passed(reason.to_owned())),
                _ => {
                    note(Verdict::Taken);
                    let facts = RunFacts {
                        layers: question.operators(run.layers.clone()),
                        kernels: row.name,
                        summary: row.summary,
                        considered,
                    };
                    return Ok(Chosen {
                        layers: run.layers,
                        kernels,
                        facts,
                    });
                }
            },
        }
    }
    Err(considered)
}

#[cfg(test)]
mod tests;
