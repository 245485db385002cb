//! A source with many mutants in it, of which a number chooses one at run time.

use std::collections::BTreeMap;
use std::ops::Range;

use super::sites::Site;

/// A site with its number.
#[derive(Clone, Debug)]
pub(crate) struct Mutant {
    pub(crate) number: u32,
    /// Under the repository's root.
    pub(crate) file: String,
    pub(crate) site: Site,
}

/// Those of the mutants that can stand in one source: without any whose place overlaps that of one before it,
/// unless the one is within the other. Of three arguments either two can be exchanged, not both.
pub(crate) fn apart(mutants: impl Iterator<Item = Mutant>) -> Vec<Mutant> {
    let mut kept: Vec<Mutant> = Vec::new();
    let mut places: BTreeMap<String, Vec<Range<usize>>> = BTreeMap::new();
    for mutant in mutants {
        let places = places.entry(mutant.file.clone()).or_default();
        let this = &mutant.site.range;
        let is_within = |a: &Range<usize>, b: &Range<usize>| b.start <= a.start && a.end <= b.end;
        let is_apart = |a: &Range<usize>, b: &Range<usize>| a.end <= b.start || b.end <= a.start;
        let fits =
            |other| is_within(this, other) || is_within(other, this) || is_apart(this, other);
        if places.iter().all(fits) {
            places.push(this.clone());
            kept.push(mutant);
        }
    }
    kept
}

/// The source with these mutants of it beside what is right, in the order of their places:
/// `if active(number) { wrong } else { right }`. What is right has the mutants of its parts.
pub(crate) fn rewritten(source: &str, mutants: &[&Mutant]) -> String {
    let mut sorted = mutants.to_vec();
    // What contains others comes before them.
    sorted.sort_by_key(|mutant| (mutant.site.range.start, usize::MAX - mutant.site.range.end));
    part(source, 0..source.len(), &sorted)
}

/// A part of the source with those mutants that lie in it.
fn part(source: &str, range: Range<usize>, mut mutants: &[&Mutant]) -> String {
    let mut text = String::new();
    let mut at = range.start;
    while let Some(first) = mutants.first() {
        let place = &first.site.range;
        let same = mutants
            .iter()
            .take_while(|other| other.site.range == *place)
            .count();
        let (here, rest) = mutants.split_at(same);
        let inner = rest
            .iter()
            .take_while(|other| other.site.range.end <= place.end)
            .count();
        let (inside, rest) = rest.split_at(inner);
        text += &source[at..place.start];
        text += &choice(source, here, inside);
        at = place.end;
        mutants = rest;
    }
    text += &source[at..range.end];
    text
}

/// Comments that say which bytes of the result are a mutant's, and which are of its place.
fn marks(number: u32) -> [String; 4] {
    [
        format!("/*<{number}*/"),
        format!("/*{number}>*/"),
        format!("/*[{number}*/"),
        format!("/*{number}]*/"),
    ]
}

fn choice(source: &str, here: &[&Mutant], inside: &[&Mutant]) -> String {
    let is_statement = here[0].site.is_statement;
    let mut text = String::new();
    let mut after = String::new();
    for mutant in here {
        let [start, end, open, close] = marks(mutant.number);
        text = open + &text;
        after += &close;
        let Mutant { number, site, .. } = mutant;
        text += &format!(
            "if ::mutants::active({number}) {{ {start}{}{end} }} else ",
            site.replacement
        );
    }
    text += &format!("{{ {} }}", part(source, here[0].site.range.clone(), inside));
    if is_statement {
        text + &after
    } else {
        format!("({text}){after}")
    }
}

/// Which of the mutants the compiler complains of, by the places that it names in the result: those whose own
/// text has the first of them, or any; else the innermost ones around it.
pub(crate) fn blamed(text: &str, mutants: &[&Mutant], places: &[Range<usize>]) -> Vec<u32> {
    // A mistake of several edits is in several places.
    let find = |mutant: &Mutant, which: [usize; 2]| {
        let marks = marks(mutant.number);
        let [starts, ends] = which.map(|which| {
            let places = text.match_indices(&marks[which]);
            places.map(|(at, _)| at).collect::<Vec<_>>()
        });
        let pairs = starts.into_iter().zip(ends);
        pairs.map(|(start, end)| start..end).collect::<Vec<_>>()
    };
    for which in [[0, 1], [2, 3]] {
        for place in places {
            let around = mutants.iter().filter_map(|mutant| {
                let ranges = find(mutant, which).into_iter();
                let range = ranges.filter(|range| {
                    range.start <= place.start
                        && place.end <= range.end + marks(mutant.number)[1].len()
                });
                let length = range.map(|range| range.end - range.start).min()?;
                Some((length, mutant))
            });
            let around: Vec<_> = around.collect();
            // All that share the innermost place.
            if let Some((_, innermost)) = around.iter().min_by_key(|(length, _)| *length) {
                let same = around
                    .iter()
                    .filter(|(_, other)| other.site.range == innermost.site.range);
                return same.map(|(_, mutant)| mutant.number).collect();
            }
        }
    }
    Vec::new()
}
