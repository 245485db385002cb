//! What came of a sample.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use super::rewrite::Mutant;
use super::trial::Outcome;

/// A mutant and what came of it, if that is known.
pub(crate) type Result<'a> = (&'a Mutant, Option<&'a Outcome>);

/// Noticed and all of some mutants.
#[derive(Clone, Copy, Default)]
struct Count {
    noticed: usize,
    not_noticed: usize,
    not_reached: usize,
    compiled: usize,
}

impl Count {
    fn add(&mut self, (mutant, outcome): &Result<'_>) {
        match outcome {
            Some(Outcome::Noticed { .. }) => self.noticed += 1,
            Some(Outcome::NotNoticed { .. }) => self.not_noticed += 1,
            Some(Outcome::NotReached) if mutant.site.is_const => self.compiled += 1,
            Some(Outcome::NotReached) => self.not_reached += 1,
            None => {}
        }
    }

    fn all(&self) -> usize {
        self.noticed + self.not_noticed + self.not_reached
    }
}

fn excerpt(source: &str, mutant: &Mutant) -> (String, String) {
    let site = &mutant.site;
    let is = source[site.range.clone()]
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let becomes = site
        .replacement
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    // A place between others.
    let is = if is.is_empty() { "nothing".into() } else { is };
    (
        is,
        if site.replacement.is_empty() {
            "nothing".into()
        } else {
            becomes
        },
    )
}

/// A mutant's number, kind and place, what it changes and to what.
pub(crate) fn line(mutant: &Mutant, source: &str) -> String {
    let Mutant { number, file, site } = mutant;
    let (is, becomes) = excerpt(source, mutant);
    let kind = site.kind.name();
    format!(
        "{number} {kind} {file}:{}\n    {is}\n    -> {becomes}",
        site.line
    )
}

/// The report as text: counts by kind and by file, and those that were not noticed.
pub(crate) fn text<'a>(results: &[Result<'_>], source: impl Fn(&str) -> &'a str) -> String {
    let mut text = String::new();
    let mut kinds: BTreeMap<&str, Count> = BTreeMap::new();
    let mut files: BTreeMap<&str, Count> = BTreeMap::new();
    let mut all = Count::default();
    for result in results {
        kinds
            .entry(result.0.site.kind.name())
            .or_default()
            .add(result);
        files.entry(&result.0.file).or_default().add(result);
        all.add(result);
    }
    for (title, counts) in [("kind", &kinds), ("file", &files)] {
        let _ = writeln!(
            text,
            "| {title} | noticed | not noticed | not reached |\n|---|---|---|---|"
        );
        for (name, count) in counts {
            let Count {
                noticed,
                not_noticed,
                not_reached,
                ..
            } = count;
            let _ = writeln!(
                text,
                "| {name} | {noticed} | {not_noticed} | {not_reached} |"
            );
        }
        text.push('\n');
    }
    for (mutant, outcome) in results {
        let why = match outcome {
            Some(Outcome::NotNoticed { tests }) => format!("no failure in {tests} tests"),
            Some(Outcome::NotReached) if mutant.site.is_const => {
                "computed when it is compiled, not counted".into()
            }
            Some(Outcome::NotReached) => "no test reaches it".into(),
            _ => continue,
        };
        let _ = writeln!(text, "{}\n    {why}", line(mutant, source(&mutant.file)));
    }
    let share = 100.0 * all.noticed as f64 / all.all().max(1) as f64;
    let _ = writeln!(
        text,
        "\n{} of {} noticed ({share:.1} %), {} not, {} not reached; {} more only when compiled",
        all.noticed,
        all.all(),
        all.not_noticed,
        all.not_reached,
        all.compiled
    );
    text
}

/// The report as JSON, a list of mutants.
pub(crate) fn json<'a>(results: &[Result<'_>], source: impl Fn(&str) -> &'a str) -> Value {
    let entries = results.iter().map(|(mutant, outcome)| {
        let (is, becomes) = excerpt(source(&mutant.file), mutant);
        let (outcome, by, how) = match outcome {
            Some(Outcome::Noticed { by, how }) => ("noticed", Some(by), Some(how)),
            Some(Outcome::NotNoticed { .. }) => ("not noticed", None, None),
            Some(Outcome::NotReached) if mutant.site.is_const => ("when compiled", None, None),
            Some(Outcome::NotReached) => ("not reached", None, None),
            None => ("did not run", None, None),
        };
        json!({
            "number": mutant.number,
            "kind": mutant.site.kind.name(),
            "file": mutant.file,
            "line": mutant.site.line,
            "is": is,
            "becomes": becomes,
            "outcome": outcome,
            "by": by,
            "how": how,
        })
    });
    entries.collect()
}
