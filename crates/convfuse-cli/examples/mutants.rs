//! Finds problems that tell mutants of launches and of the choice of kernels from the real ones.
//!
//! `cargo xtask mutants` runs it in a copy of the sources that has the mutants. A problem is worth recording
//! if its launches change under a mutant that no other problem's launches noticed.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use convfuse_cli::campaign::{FAMILIES, Family, Planned, Problem, Recorded};

/// A problem that asked for a mutant that few others asked for has neighbours worth trying.
const FEW: u32 = 30;

/// How many.
const NEIGHBOURS: usize = 10;

/// A mutant that so many problems asked for and did not notice is tried with one in eight from then on.
const TRIES: u32 = 60;

thread_local! {
    static IS_ATTEMPT: Cell<bool> = const { Cell::new(false) };
}

/// Finds problems that tell mutants from what is right.
#[derive(Parser)]
struct Arguments {
    /// The mutants, a line each.
    mutants: PathBuf,
    /// The record of launches, which is renewed.
    record: PathBuf,
    /// Where the mutants are listed that no problem noticed.
    left: PathBuf,
    /// How long to draw problems, in seconds.
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// What is drawn follows from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The mutants that are not noticed yet, and the problems that noticed others.
struct Search {
    unnoticed: Vec<AtomicBool>,
    asked: Vec<AtomicU32>,
    recorded: Mutex<Vec<Recorded>>,
}

impl Search {
    fn is_unnoticed(&self, mutant: u32) -> bool {
        self.unnoticed
            .get(mutant as usize)
            .is_some_and(|one| one.load(Ordering::Relaxed))
    }

    /// Records the problem if it notices a mutant that was not noticed yet. Returns whether its neighbours
    /// are worth trying.
    fn consider(&self, problem: &Problem, number: u64) -> bool {
        let launches = || problem.launches();
        let (right, asked, questions) = mutants::asked(|| attempt(launches));
        let Some(Ok(right)) = right else {
            eprintln!("fails without a mutant: {problem:?}");
            return false;
        };
        let (mut noticed, mut is_rare) = (Vec::new(), false);
        for mutant in asked
            .into_iter()
            .filter(|&mutant| self.is_unnoticed(mutant))
        {
            let before = self.asked[mutant as usize].fetch_add(1, Ordering::Relaxed);
            is_rare |= before < FEW;
            if before > TRIES && !(u64::from(mutant) + number).is_multiple_of(8) {
                continue;
            }
            let allowed = 20 * questions + 10_000;
            let wrong = mutants::run(mutant, allowed, || attempt(launches));
            if wrong != Some(Ok(right.clone())) {
                noticed.push(mutant);
            }
        }
        if noticed.is_empty() {
            return is_rare;
        }
        let mut recorded = self.recorded.lock().expect("no thread panicked");
        let news = |&mutant: &u32| self.unnoticed[mutant as usize].swap(false, Ordering::Relaxed);
        let news = noticed.iter().filter(|mutant| news(mutant)).count();
        if news > 0 {
            recorded.push(Recorded::new(problem.clone(), &right));
        }
        news > 0 || is_rare
    }

    fn left(&self) -> usize {
        let left = |one: &&AtomicBool| one.load(Ordering::Relaxed);
        self.unnoticed.iter().filter(left).count()
    }
}

/// `None` if it panics.
fn attempt<R>(f: impl FnOnce() -> R) -> Option<R> {
    IS_ATTEMPT.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(f)).ok();
    IS_ATTEMPT.set(false);
    result
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let listed = fs::read_to_string(&arguments.mutants)?;
    let listed: Vec<&str> = listed.lines().collect();
    let search = Search {
        unnoticed: listed.iter().map(|_| AtomicBool::new(true)).collect(),
        asked: listed.iter().map(|_| AtomicU32::new(0)).collect(),
        recorded: Mutex::new(Vec::new()),
    };
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if !IS_ATTEMPT.get() {
            report(panic);
        }
    }));
    // What is recorded stays so, as long as it notices something.
    let before = match fs::read_to_string(&arguments.record) {
        Ok(text) => Recorded::parse(&text)?,
        Err(_) => Vec::new(),
    };
    for (number, recorded) in (0..).zip(&before) {
        search.consider(&recorded.problem, number);
    }
    println!(
        "{} of {} problems recorded before notice {} of {} mutants",
        search.recorded.lock().expect("no thread panicked").len(),
        before.len(),
        listed.len() - search.left(),
        listed.len(),
    );
    // Of convolutions of networks there are most kernels.
    let networks = Family::named("networks");
    let each = FAMILIES.iter().flat_map(|family| [family, networks[0]]);
    let families: Vec<&Family> = each.collect();
    let (start, next) = (Instant::now(), AtomicU64::new(0));
    let time = Duration::from_secs(arguments.seconds);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while start.elapsed() < time {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number.is_multiple_of(500) {
                        println!("{number} drawn, {} left", search.left());
                    }
                    let drawn = Planned::numbered(&families, arguments.seed, number);
                    let mut at: Vec<_> = drawn.into_iter().collect();
                    while let Some(planned) = at.pop() {
                        if search.consider(&planned.problem, number) && at.is_empty() {
                            let neighbours = (0..NEIGHBOURS as u64).map(|n| planned.neighbour(n));
                            at.extend(neighbours.flatten());
                        }
                    }
                }
            });
        }
    });
    let mut recorded = search.recorded.lock().expect("no thread panicked");
    recorded.sort_by_key(Recorded::line);
    let mut text = String::new();
    for one in recorded.iter() {
        writeln!(text, "{}", one.line())?;
    }
    fs::write(&arguments.record, text)?;
    let left = (0..)
        .zip(&listed)
        .filter(|(mutant, _)| search.is_unnoticed(*mutant));
    let left: BTreeSet<String> = left
        .map(|(mutant, line)| {
            let asked = search.asked[mutant as usize].load(Ordering::Relaxed);
            format!("{line}\t{asked}")
        })
        .collect();
    let text: String = left.iter().map(|line| format!("{line}\n")).collect();
    fs::write(&arguments.left, text)?;
    println!(
        "{} problems notice {} of {} mutants",
        recorded.len(),
        listed.len() - left.len(),
        listed.len()
    );
    Ok(())
}
