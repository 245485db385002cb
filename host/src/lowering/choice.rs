//! The choice of kernels for a graph: a function of problem, layout, device properties and options only.
//!
//! A partition defines the regions. For each region, the rows of the [table](super::table) are tried from top
//! to bottom. A row first reports whether it can implement the region, or the rule that the region breaks;
//! then whether it pays, or the reason why not. The first row that can and pays is taken. A row that is
//! requested by name need only be able to. Without a partition, each of the graph's
//! [paths](op_spec::graph::Graph::paths) is one region. If no row takes it, the longest leading region that
//! some row takes is split off, and so on.

use launch_config::Refusal;
use op_spec::Layout;
use op_spec::graph::{GraphProblem, NormalForm};

use super::chosen::{Chosen, computed, is_reshape};
use super::joined::write_in_place;
use super::layouts::{InputLayout, Layouts};
use super::lowered::Lowered;
use super::producer::Producer;
use super::region::{Considered, Query, Region, RegionFacts, Verdict};
use super::table::TABLE;
use super::work::Work;
use crate::error::{Error, Result};

/// Chooses the kernels for a whole graph, in an order in which they can run.
///
/// # Errors
/// [`Error::NoKernels`] for a region of a partition that no row implements, or that the named row does not
/// implement; extents that no kernel can index.
pub(crate) fn choose(query: Query<'_>) -> Result<Vec<Chosen>> {
    let mut chosen = choose_regions(query)?;
    write_in_place(query, &mut chosen);
    for region in &mut chosen {
        region.facts.summary = region.row.summary(&region.lowered);
        region.facts.config = region.lowered.config();
    }
    Ok(chosen)
}

/// Chooses the kernels for a whole graph, before regions write in place and are described.
fn choose_regions(query: Query<'_>) -> Result<Vec<Chosen>> {
    let known = query.graph.layers().len();
    let mut layouts = Layouts::new(query);
    let mut chosen = Vec::new();
    let Some(partition) = &query.options.partition else {
        for path in query.graph.paths() {
            choose_path(query, &mut layouts, path, &mut chosen)?;
        }
        return Ok(chosen);
    };
    let covered = partition.runs().last().map_or(0, |run| run.layers.end);
    if covered != known {
        return Err(Error::OtherPartition { covered, known });
    }
    for run in partition.runs() {
        let layers: Vec<usize> = run.layers.clone().collect();
        let mut paths = query.graph.paths().iter();
        let Some(layers) = paths
            .find_map(|path| path.windows(layers.len()).find(|&part| part == layers))
            .filter(|layers| query.graph.is_closed(layers))
        else {
            return Err(Error::NoKernels {
                layers: query.operators(&layers),
                asked: run.kernel.clone(),
                reasons: "others take what one of them gives that is not the last".to_owned(),
            });
        };
        chosen.push(choose_region(
            query,
            &mut layouts,
            layers,
            run.kernel.as_deref(),
        )?);
    }
    Ok(chosen)
}

/// Chooses the kernels for a region, or takes the requested ones.
fn choose_region<'a>(
    query: Query<'a>,
    layouts: &mut Layouts,
    layers: &'a [usize],
    asked: Option<&str>,
) -> Result<Chosen> {
    ask(query, layouts, layers, asked).map_err(|considered| {
        let reason = |Considered {
                          kernels, verdict, ..
                      }: &Considered| match verdict {
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

/// Chooses the kernels for a path without a partition, and appends them to `chosen`.
fn choose_path<'a>(
    query: Query<'a>,
    layouts: &mut Layouts,
    path: &'a [usize],
    chosen: &mut Vec<Chosen>,
) -> Result<()> {
    // The verdicts on longer regions are reported with the region that is taken in their place, equal ones
    // of a row once.
    let mut on_longer = match ask(query, layouts, path, None) {
        Ok(region) => {
            chosen.push(region);
            return Ok(());
        }
        Err(considered) => considered,
    };
    let mut rest = path;
    while !rest.is_empty() {
        let longest = longest(query.problem, rest);
        let mut stops = (2..=longest).rev().filter(|&stop| stop < path.len());
        let several = stops.find_map(|stop| {
            let region = ask(query, layouts, &rest[..stop], None);
            let report = |considered: Vec<Considered>| {
                for new in considered {
                    let is_new =
                        |of: &Considered| (of.kernels, &of.verdict) != (new.kernels, &new.verdict);
                    if on_longer.iter().all(is_new) {
                        on_longer.push(new);
                    }
                }
            };
            region.map_err(report).ok()
        });
        let mut region = match several {
            Some(region) => region,
            None => choose_region(query, layouts, &rest[..1], None)?,
        };
        if let Some(shorter) = shorter(query, layouts, rest, &region) {
            region = shorter;
        }
        let considered = &mut region.facts.considered;
        considered.splice(..0, on_longer.drain(..));
        rest = &rest[region.layers.len()..];
        chosen.push(region);
    }
    Ok(())
}

/// Returns the number of leading layers that may form a region: those with a normal form together, and a
/// following `flatten` or `reshape`.
fn longest(problem: &GraphProblem, layers: &[usize]) -> usize {
    let Err(refused) = NormalForm::of(problem, layers.iter().copied()) else {
        return layers.len();
    };
    let normal = layers.iter().take_while(|&&layer| layer != refused.layer);
    normal.count() + usize::from(is_reshape(problem, refused.layer))
}

/// Returns a shorter region for a transposed convolution if one row then takes all remaining layers (such as
/// factors and an instance norm), but no row takes the layers that remain after `region`.
fn shorter<'a>(
    query: Query<'a>,
    layouts: &mut Layouts,
    rest: &'a [usize],
    region: &Chosen,
) -> Option<Chosen> {
    let len = region.layers.len();
    let is_transposed = matches!(region.lowered.producer, Producer::Transposed(_));
    let mut is_taken = |stop: usize| ask(query, layouts, &rest[stop..], None).is_ok();
    if !is_transposed || len == rest.len() || is_taken(len) {
        return None;
    }
    let stop = (1..len).rev().find(|&stop| is_taken(stop))?;
    ask(query, layouts, &rest[..stop], None).ok()
}

/// Tries the table's rows, or the named row, on a region. Records the layout that the region writes.
fn ask<'a>(
    query: Query<'a>,
    layouts: &mut Layouts,
    layers: &'a [usize],
    asked: Option<&str>,
) -> Result<Chosen, Vec<Considered>> {
    if !query.graph.is_closed(layers) {
        return Err(Vec::new());
    }
    let InputLayout {
        layout: input,
        is_reformatted,
    } = layouts.of_input(query, layers[0]);
    let last = layers[layers.len() - 1];
    let computed = computed(query.problem, layers);
    let is_reshaped = is_reshape(query.problem, last);
    let region = Region {
        of: query,
        form: NormalForm::of(query.problem, computed.iter().copied()).ok(),
        layers: computed,
        input,
        is_reformatted,
        output: match query
            .graph
            .outputs()
            .iter()
            .position(|&layer| layer == last)
        {
            _ if is_reshaped => Layout::Nchw,
            Some(output) => query.output_layout(output),
            None => input,
        },
    };
    let mut considered = Vec::new();
    let is_asked = |name| asked.is_none_or(|asked| asked == name);
    for row in TABLE.iter().filter(|row| is_asked(row.name)) {
        let mut note = |verdict| {
            considered.push(Considered {
                layers: query.operators(layers),
                kernels: row.name,
                verdict,
            });
        };
        let Some(form) = &region.form else { continue };
        match (row.can_implement)(row, &region, form) {
            Err(Refusal::Layers { .. }) if asked.is_none() => {}
            Err(refusal) => note(Verdict::Refused(refusal.to_string())),
            Ok(lowered) if is_reshaped && lowered.writes == Layout::Nhwc => {
                note(Verdict::Refused(
                    "writes NHWC, another shape needs NCHW".to_owned(),
                ));
            }
            Ok(lowered) => match (row.pays)(&region, &lowered) {
                Err(reason) if asked.is_none() => note(Verdict::Passed(reason.to_owned())),
                _ => {
                    note(Verdict::Taken);
                    layouts.written[last] = lowered.writes;
                    let is_reformatted = is_reformatted && lowered.reads == Layout::Nhwc;
                    let lowered = Lowered {
                        is_reformatted,
                        ..lowered
                    };
                    let of = (layers, &[last][..]);
                    let work = Work::of(query.graph, query.problem, query.dtype, of);
                    let facts = RegionFacts {
                        layers: query.operators(layers),
                        value: query.graph.name_of(last).to_owned(),
                        kernels: row.name,
                        summary: String::new(),
                        reads: lowered.reads,
                        writes: lowered.writes,
                        config: String::new(),
                        launches: Vec::new(),
                        preparations: Vec::new(),
                        bytes: work.bytes,
                        flop: work.flop,
                        least_s: query.least_s(work),
                        considered,
                    };
                    return Ok(Chosen {
                        row,
                        layers: layers.to_vec(),
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
