//! Searches for problems that detect mutants of launches and of kernel selection.
//!
//! `cargo xtask mutants` runs this in a copy of the sources that has the mutants. A problem is recorded if
//! its launches change under a mutant that no other problem detects.

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

/// A mutant is rare until this many problems have reached it. The neighbours of a problem that reaches a
/// rare mutant are tried, too.
const FEW: u32 = 30;

/// The number of neighbours to try.
const NEIGHBOURS: usize = 10;

/// Once a mutant has been reached this often without detection, only one in eight problems tries it.
const TRIES: u32 = 60;

thread_local! {
    static IS_ATTEMPT: Cell<bool> = const { Cell::new(false) };
}

/// Searches for problems that detect mutants.
#[derive(Parser)]
struct Arguments {
    /// The mutants, a line each.
    mutants: PathBuf,
    /// The record of launches, which is renewed.
    record: PathBuf,
    /// The output file for the undetected mutants.
    left: PathBuf,
    /// The time for drawing problems, in seconds.
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// The seed of the drawn problems.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The undetected mutants, and the problems that detect the others.
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

    /// Records the problem if it detects a new mutant. Returns whether its neighbours are worth trying.
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

/// Calls `f`; `None` if it panics.
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
    // A recorded problem remains as long as it detects a mutant.
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
    // Convolutions of networks have the most kernels.
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
