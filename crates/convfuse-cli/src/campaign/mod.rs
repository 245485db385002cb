//! Random cases without end: any operator or chain, with any attributes, shapes, values and types. Each runs
//! in all modes of a device, and the oracle's derived tolerances decide.
//!
//! Tests run the same cases every time; a campaign searches for others. A case depends only on a seed and
//! its number ([`GeneratedCase::numbered`]): a campaign can continue where another ended, and parts of one
//! can run in parallel. A case is drawn as a list of choices. [`GeneratedCase::smaller`] reduces a failing
//! case by removing or lowering choices while it still fails. The remaining choices reproduce it.

mod choices;
mod families;
mod generated_case;
mod judge;
mod layers;
mod planned;
mod values;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

pub use families::{FAMILIES, Family};
pub use generated_case::GeneratedCase;
pub use judge::{Target, Verdict};
pub use planned::{Planned, Problem, Recorded};

/// The cases, target and time limit of a campaign.
#[derive(Debug, Clone)]
pub struct Campaign {
    /// The target of all cases.
    pub target: Target,
    /// The families of the cases, in turn; at least one.
    pub families: Vec<&'static Family>,
    /// The seed that determines the cases, together with their numbers.
    pub seed: u64,
    /// The number of the first case.
    pub first: u64,
    /// The number of cases. Case numbers wrap around to 0.
    pub cases: u64,
    /// The largest cost of a case, as [`oracle::Case::cost`] counts it.
    pub most: u64,
    /// The time after which no further case starts.
    pub time: Duration,
    /// The number of cases that run in parallel.
    pub threads: usize,
}

/// A completed case.
#[derive(Debug)]
pub struct Done {
    /// Its number.
    pub number: u64,
    /// The case and its outcome; `None` if no case was cheap enough.
    pub generated: Option<(GeneratedCase, Verdict)>,
}

impl Campaign {
    /// The families whose simplest cases cost more than the campaign allows, with these costs.
    pub fn left_out(&self) -> impl Iterator<Item = (&'static Family, u64)> {
        let costs = self
            .families
            .iter()
            .map(|&family| (family, GeneratedCase::least_cost(family)));
        costs.filter(|(_, least)| *least > self.most)
    }

    /// Runs the cases, and passes each completed one to `done`, in any order. Starts no further cases once
    /// `done` fails.
    ///
    /// # Errors
    /// The error of `done`.
    pub fn run<E>(&self, mut done: impl FnMut(Done) -> Result<(), E>) -> Result<(), E> {
        let start = Instant::now();
        let next = AtomicU64::new(0);
        let is_over = AtomicBool::new(false);
        let (sender, receiver) = mpsc::channel();
        let threads = self.threads.max(1);
        let of_each = (rayon::current_num_threads() / threads).max(1);
        let work = |sender: mpsc::Sender<Done>| {
            // Each thread has its share of the processors, so it does not wait for another case's work. If
            // the pool cannot be built, the global one is shared.
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(of_each)
                .use_current_thread();
            let _pool = if threads > 1 { pool.build().ok() } else { None };
            while !is_over.load(Ordering::Relaxed) && start.elapsed() < self.time {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= self.cases {
                    return;
                }
                let number = self.first.wrapping_add(index);
                let generated =
                    GeneratedCase::numbered(&self.families, self.seed, number, self.most);
                let generated = generated.map(|generated| {
                    let verdict = generated.judge(&self.target);
                    (generated, verdict)
                });
                if sender.send(Done { number, generated }).is_err() {
                    return;
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let sender = sender.clone();
                scope.spawn(|| work(sender));
            }
            drop(sender);
            let handed = receiver.iter().try_for_each(&mut done);
            is_over.store(true, Ordering::Relaxed);
            handed
        })
    }
}

impl GeneratedCase {
    /// The smallest case found within `time` that fails with the same status.
    #[must_use]
    pub fn smaller(self, target: &Target, most: u64, time: Duration) -> GeneratedCase {
        let start = Instant::now();
        let status = |generated: &GeneratedCase| {
            generated
                .judge(target)
                .trouble
                .map(|trouble| trouble.status)
        };
        let failing = status(&self);
        if failing.is_none() {
            return self;
        }
        let choices = choices::simplest(self.choices.clone(), |choices, simplest| {
            if start.elapsed() >= time {
                return None;
            }
            let generated = GeneratedCase::chosen(self.family, choices, most)?;
            let fails = generated.choices == simplest || status(&generated) == failing;
            fails.then_some(generated.choices)
        });
        GeneratedCase::chosen(self.family, choices, most).unwrap_or(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_gives_cases_that_are_not_refused() {
        for family in FAMILIES {
            let generated = |number| GeneratedCase::numbered(&[family], 3, number, 20_000_000);
            let cases = (0..12).filter_map(generated);
            let possible = cases.filter(|generated| {
                let case = generated.case.as_ref();
                case.is_ok_and(|case| case.problem().is_ok())
            });
            assert!(possible.count() >= 3, "{}", family.name);
        }
    }

    #[test]
    fn each_family_is_of_an_operator_or_of_chains() {
        let [operators, chains] = [Family::OPERATORS, Family::CHAINS].map(Family::named);
        let all = operators.iter().chain(&chains).map(|family| family.name);
        assert!(all.eq(FAMILIES.iter().map(|family| family.name)));
        let kinds: Vec<_> = oracle::all().map(|cases| cases.kind).collect();
        let has_kind = |family: &&Family| kinds.iter().any(|kind| family.has_cases_of(kind));
        assert!(operators.iter().all(has_kind));
        assert!(kinds.iter().all(|kind| Family::named(kind).len() == 1));
        // The oracle has named cases of these chains.
        assert!(chains.iter().any(|family| family.name == "kernelbench_85"));
        assert!(Family::named("conv4d").is_empty());
    }

    #[test]
    fn no_case_costs_less_than_the_simplest() {
        for family in FAMILIES {
            let least = GeneratedCase::least_cost(family);
            let cases = (0..20)
                .filter_map(|number| GeneratedCase::numbered(&[family], 9, number, 20_000_000));
            let costs = cases.filter_map(|generated| Some(generated.case.ok()?.cost()));
            // A case that the graph refuses costs nothing.
            for cost in costs.filter(|&cost| cost > 0) {
                assert!(least <= cost, "{}: {least}, {cost}", family.name);
            }
        }
        assert!(GeneratedCase::least_cost(Family::named("one_launch_85")[0]) > 1_000_000);
    }

    /// Cases that campaigns found wrong, and that are fixed since.
    #[test]
    fn what_was_found_wrong_is_right() {
        let found = [
            // A short sum on tensor cores has few instructions and truncates more than a chain of FMA.
            (
                "alone",
                "0,0,0,0,16,16,0,0,0,0,0,0,0,10,27,0,0,4,0,10,3,147,0",
            ),
            // A kernel for two scales by the same factor, on a chain with two different factors.
            (
                "volumes",
                "3,0,0,0,2,0,6,1,1,1,0,2,3,1,1,1,0,3,2,1,1,2,11,2,2,5,5,5,1,45025,12,39213,8,1,92",
            ),
        ];
        for (family, choices) in found {
            let choices = choices.split(',').map(|choice| choice.parse().unwrap());
            let family = Family::named(family)[0];
            let generated = GeneratedCase::chosen(family, choices.collect(), 4_000_000).unwrap();
            let verdict = generated.judge(&Target::Emulator);
            assert_eq!(verdict.trouble, None, "{}", generated.summary());
            assert!(verdict.runs > 2, "{}", family.name);
        }
    }

    #[test]
    fn choices_repeat_a_case() {
        let all: Vec<_> = FAMILIES.iter().collect();
        for number in 0..2 * FAMILIES.len() as u64 {
            let Some(generated) = GeneratedCase::numbered(&all, 5, number, 300_000) else {
                continue;
            };
            let again = GeneratedCase::chosen(generated.family, generated.choices.clone(), 300_000)
                .unwrap();
            assert_eq!(again.choices, generated.choices);
            assert_eq!(again.summary(), generated.summary());
            if let (Ok(one), Ok(other)) = (&generated.case, &again.case) {
                let bits = |values: &ndarray::ArrayD<f32>| -> Vec<u32> {
                    values.iter().map(|v| v.to_bits()).collect()
                };
                assert_eq!(bits(&one.x), bits(&other.x));
            }
        }
    }
}
