//! `cargo xtask mutants`: mistakes made by a machine in the kernels and in the geometries of their launches,
//! and whether the tests notice them.
//!
//! 1. `sites` reads the sources (in macros, too: `macros`) and lists every place that can be changed, of each
//!    kind of `kinds` (`changes`, and `slips` by what `names` knows); a mutant's number is its place in that
//!    list.
//! 2. `sample` draws as many as are asked for; or `given` reads mistakes that somebody wrote down.
//! 3. `copy` writes the sources with all of them into target/mutants, as
//!    `if active(number) { wrong } else { right }` (`rewrite`, `switch`), takes out those that do not compile
//!    (`known`), and builds the kernels' and the specifications' tests once.
//! 4. `trial` runs each test once to see which mutants it reaches, then, mutant by mutant, the tests that
//!    reach it until one fails, or takes too long: in natural order, and where that may matter in shuffled
//!    ones.
//! 5. `report` says what was noticed.

mod changes;
mod copy;
mod given;
mod kinds;
mod known;
mod macros;
mod names;
mod report;
mod rewrite;
mod sample;
mod sites;
mod slips;
#[cfg(test)]
mod tests;
mod trial;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use copy::{Built, Copy};
use kinds::Kind;
use report::Result as OutcomeOf;
use rewrite::Mutant;
use trial::Outcome;

/// What is asked for.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many mutants to draw.
    #[arg(long, default_value_t = 100)]
    sample: usize,
    /// How many of them to leave out, the first ones drawn: those that an earlier call had.
    #[arg(long, default_value_t = 0)]
    skip: usize,
    /// What they are drawn by.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Of these kinds alone, by the names that reports have for them [default: of all].
    #[arg(long, value_delimiter = ',', value_parser = Kind::of)]
    kinds: Vec<Kind>,
    /// Of the sample, and beside it, try these alone.
    #[arg(long, value_delimiter = ',')]
    only: Vec<u32>,
    /// In place of drawn ones the mistakes that this file lists: JSON, in the form that
    /// `xtask/src/mutants/given.rs` describes.
    #[arg(long, conflicts_with_all = ["sample", "skip", "seed", "kinds"])]
    given: Option<PathBuf>,
    /// Only print what the mutants would be, those that do not compile among them.
    #[arg(long)]
    list: bool,
    /// Do not run the tests, but put them into this folder, with all that a machine without Rust needs to do
    /// so.
    #[arg(long)]
    pack: Option<PathBuf>,
    /// Run the tests in this folder, which another machine packed.
    #[arg(long, conflicts_with = "pack")]
    packed: Option<PathBuf>,
    /// How many tests run at a time [default: as many as there are processors].
    #[arg(long)]
    jobs: Option<usize>,
    /// Where the report also goes, as JSON.
    #[arg(long, default_value = "target/mutants/report.json")]
    json: PathBuf,
}

/// Makes the mutants, tries them, and prints what came of it. That some are not noticed is no failure.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let jobs = arguments
        .jobs
        .unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    let root = arguments.packed.as_deref().unwrap_or(root);
    let copy = Copy::new(root, jobs)?;
    let source = |file: &str| copy.text(file);
    let all = match &arguments.given {
        Some(path) => given::read(path, source)?,
        None => all(copy.sources())?,
    };
    let key = known::key(&all);
    eprintln!("{} mutants in all; list {key:016x}", all.len());
    let (candidates, wanted) = match arguments.given {
        Some(_) => {
            let places = all.len();
            (all, places)
        }
        None => candidates(all, arguments),
    };
    if arguments.list {
        for mutant in candidates.iter().take(wanted) {
            println!("{}", report::line(mutant, copy.text(&mutant.file)));
        }
        return Ok(());
    }
    let built = match &arguments.packed {
        Some(_) => copy.packed(key, candidates, wanted)?,
        None => copy.build(key, candidates, wanted)?,
    };
    if let Some(folder) = &arguments.pack {
        return copy.pack(&built, folder);
    }
    let Built {
        mut mutants,
        tests,
        refused,
    } = built;
    eprintln!(
        "{} mutants in one build, {refused} did not compile",
        mutants.len()
    );

    if !arguments.only.is_empty() {
        mutants.retain(|mutant| arguments.only.contains(&mutant.number));
    }
    // All edits of a given mistake are done at once.
    let mut numbers = BTreeSet::new();
    mutants.retain(|mutant| numbers.insert(mutant.number));
    let scratch = root.join("target/mutants/scratch");
    let cases = trial::cases(&tests, &scratch, jobs)?;
    eprintln!("{} tests pass without them", cases.len());
    let outcomes: Mutex<BTreeMap<u32, Outcome>> = Mutex::default();
    let write = |outcomes: &BTreeMap<u32, Outcome>| {
        let results = results(&mutants, outcomes);
        fs::write(
            root.join(&arguments.json),
            format!("{:#}\n", report::json(&results, source)),
        )
    };
    let tried = trial::outcomes(&cases, &mutants, &scratch, jobs, |number, outcome| {
        if let Ok(mut outcomes) = outcomes.lock() {
            outcomes.insert(number, outcome.clone());
            eprintln!(
                "{} of {}: {number} {outcome:?}",
                outcomes.len(),
                mutants.len()
            );
            // So that what was found is not lost when the rest is interrupted; the last one fails if this
            // cannot be.
            let _ = write(&outcomes);
        }
    });
    let outcomes = outcomes.into_inner().unwrap_or_default();
    write(&outcomes)?;
    print!("{}", report::text(&results(&mutants, &outcomes), source));
    println!(
        "one again: cargo xtask mutants --sample 0 --only NUMBER; all: {}",
        arguments.json.display()
    );
    for (_, outcome) in tried {
        outcome.map_err(|error| error as Box<dyn Error>)?;
    }
    Ok(())
}

/// The mutants of the sample and others that are asked for, in the order in which they are built if they
/// compile, and how many that are to be.
fn candidates(all: Vec<Mutant>, arguments: &Arguments) -> (Vec<Mutant>, usize) {
    let wanted = arguments.sample.saturating_sub(arguments.skip);
    let is_asked_for = |number: u32| arguments.only.contains(&number);
    let of_kind = |kind: Kind| arguments.kinds.is_empty() || arguments.kinds.contains(&kind);
    let all = all.into_iter();
    let all = all.filter(|mutant| of_kind(mutant.site.kind) || is_asked_for(mutant.number));
    let drawn = sample::drawn(all.collect(), arguments.seed).into_iter();
    let (mut candidates, others): (Vec<_>, Vec<_>) =
        drawn.enumerate().partition(|(at, _)| *at >= arguments.skip);
    let late = candidates.split_off(wanted.min(candidates.len()));
    let (asked, late): (Vec<_>, Vec<_>) =
        (late.into_iter().chain(others)).partition(|(_, mutant)| is_asked_for(mutant.number));
    let wanted = wanted + asked.len();
    let order = asked
        .into_iter()
        .chain(candidates)
        .chain(late.into_iter().filter(|(at, _)| *at >= arguments.skip));
    (rewrite::apart(order.map(|(_, mutant)| mutant)), wanted)
}

fn results<'a>(mutants: &'a [Mutant], outcomes: &'a BTreeMap<u32, Outcome>) -> Vec<OutcomeOf<'a>> {
    mutants
        .iter()
        .map(|mutant| (mutant, outcomes.get(&mutant.number)))
        .collect()
}

/// All mutants of these sources, numbered from 1 on.
fn all<'a>(
    sources: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<Vec<Mutant>, Box<dyn Error>> {
    let mut all = Vec::new();
    let sources: Vec<_> = sources.collect();
    let types = names::Types::of(sources.iter().map(|(_, text)| *text))?;
    for (file, text) in sources {
        for site in sites::sites(text, &types).map_err(|error| format!("{file}: {error}"))? {
            let number = all.len() as u32 + 1;
            all.push(Mutant {
                number,
                file: file.to_owned(),
                site,
            });
        }
    }
    Ok(all)
}
