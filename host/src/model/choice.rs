//! Which kernels do a chain: a function of problem, device properties and options alone.
//!
//! A chain is done run by run, as a partition says. For a run the rows of the [table](super::table) are asked from top to
//! bottom: whether their kernels can do it (if not, by which rule), then whether they should (if not, why). The first row
//! that can and should does it; one that was asked for by name only has to be able to. Without a partition the whole chain
//! is one run; if no row does it, the longest run of first layers that some row does is cut off, and so on.

use std::ops::Range;

use op_spec::chain::{NormalForm, Run};
use op_spec::launch::Refusal;

use super::question::{Considered, Question, RunQuestion, Verdict};
use super::table::{Kernels, Row, TABLE};
use crate::error::{Error, Result};

/// The kernels for a run, and how they were found.
pub(super) struct Chosen {
    pub(super) layers: Range<usize>,
    pub(super) row: &'static Row,
    pub(super) kernels: Kernels,
    /// Rows that were asked before, with their answers, and the one that was taken. Those for other layers are left out.
    pub(super) considered: Vec<Considered>,
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
            layers: question.operators(run.layers.clone()),
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
            return Err(Error::NoKernels {
                layers: question.operators(start..start + 1),
                asked: None,
                reasons: "no row of the table does the layer alone".to_owned(),
            });
        };
        run.considered.splice(..0, considered_whole.drain(..));
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
            Ok(kernels) => match (row.should)(&run, &kernels) {
                Err(reason) if asked.is_none() => note(Verdict::Passed(reason.to_owned())),
                _ => {
                    note(Verdict::Taken);
                    return Ok(Chosen {
                        layers: run.layers,
                        row,
                        kernels,
                        considered,
                    });
                }
            },
        }
    }
    Err(considered)
}

#[cfg(test)]
mod tests;
