//! Which kernels compute a chain: a function of problem, layout, device properties and options alone.
//!
//! A partition cuts a chain into regions. For each region the rows of the [table](super::table) are asked
//! from top to bottom: whether they can implement it (if not, by which rule), then whether they pay (if not,
//! why). The first row that can and pays is taken; a row that was asked for by name only has to be able to.
//! Without a partition the whole chain is one region; if no row takes it, the longest region of first layers
//! that some row takes is cut off, and so on.

use std::ops::Range;

use launch_config::Refusal;
use op_spec::Layout;
#[cfg(any(test, feature = "lab"))]
use op_spec::chain::Chain;
use op_spec::chain::NormalForm;

#[cfg(any(test, feature = "lab"))]
use super::Options;
use super::region::{Considered, Query, Region, RegionFacts, Verdict};
use super::table::{Lowered, TABLE};
#[cfg(any(test, feature = "lab"))]
use crate::device::{DType, DeviceProperties, Order};
use crate::error::{Error, Result};

/// A region with its kernels, and how they were found.
pub(crate) struct Chosen {
    pub(super) layers: Range<usize>,
    pub(super) lowered: Lowered,
    pub(crate) facts: RegionFacts,
}

/// The kernels for a whole chain.
///
/// # Errors
/// [`Error::NoKernels`] for a region of a partition that no row does, or not the one that it names.
pub(crate) fn choose(query: Query<'_>) -> Result<Vec<Chosen>> {
    let known = query.chain.layers().len();
    let Some(partition) = &query.options.partition else {
        return choose_whole(query, known);
    };
    let covered = partition.runs().last().map_or(0, |run| run.layers.end);
    if covered != known {
        return Err(Error::OtherPartition { covered, known });
    }
    let mut input = query.input_layout();
    let mut chosen = Vec::new();
    for run in partition.runs() {
        let region = choose_region(query, input, run.layers.clone(), run.kernel.as_deref())?;
        input = region.lowered.writes();
        chosen.push(region);
    }
    Ok(chosen)
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
    let query = Query {
        chain,
        problem: &problem,
        dtype,
        order: &Order::Dense,
        properties,
        options,
    };
    choose(query).map(drop)
}

/// The kernels for a region, or those that were asked for.
fn choose_region(
    query: Query<'_>,
    input: Layout,
    layers: Range<usize>,
    asked: Option<&str>,
) -> Result<Chosen> {
    ask(query, input, layers.clone(), asked).map_err(|considered| {
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
            layers: query.operators(layers),
            asked: asked.map(str::to_owned),
            reasons,
        }
    })
}

/// The kernels for a chain of `end` layers without a partition.
fn choose_whole(query: Query<'_>, end: usize) -> Result<Vec<Chosen>> {
    let mut input = query.input_layout();
    // What the rows said of all layers together is told with the first region.
    let mut considered_whole = match ask(query, input, 0..end, None) {
        Ok(region) => return Ok(vec![region]),
        Err(considered) => considered,
    };
    let (mut chosen, mut start) = (Vec::new(), 0);
    while start < end {
        let mut stops = (start + 2..=end).rev().filter(|stop| stop - start < end);
        let several = stops.find_map(|stop| ask(query, input, start..stop, None).ok());
        let single = || choose_region(query, input, start..start + 1, None);
        let mut region: Chosen = several.map_or_else(single, Ok)?;
        let considered = &mut region.facts.considered;
        considered.splice(..0, considered_whole.drain(..));
        start = region.layers.end;
        input = region.lowered.writes();
        chosen.push(region);
    }
    Ok(chosen)
}

/// Asks the table's rows for a region, or the one row that is named.
fn ask(
    query: Query<'_>,
    input: Layout,
    layers: Range<usize>,
    asked: Option<&str>,
) -> Result<Chosen, Vec<Considered>> {
    let region = Region {
        of: query,
        form: NormalForm::of(query.problem, layers.clone()).ok(),
        layers,
        input,
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
        let Some(form) = &region.form else { continue };
        match (row.can_implement)(row, &region, form) {
            Err(Refusal::Layers { .. }) if asked.is_none() => {}
            Err(refusal) => note(Verdict::Refused(refusal.to_string())),
            Ok(lowered) => match lowered.pays(&region) {
                Err(reason) if asked.is_none() => note(Verdict::Passed(reason.to_owned())),
                _ => {
                    note(Verdict::Taken);
                    let facts = RegionFacts {
                        layers: query.operators(region.layers.clone()),
                        kernels: row.name,
                        summary: row.summary(&lowered.plan),
                        reads: lowered.reads(),
                        writes: lowered.writes(),
                        config: lowered.producer.to_string(),
                        considered,
                    };
                    return Ok(Chosen {
                        layers: region.layers,
                        lowered,
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
