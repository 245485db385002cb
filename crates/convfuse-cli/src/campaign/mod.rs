//! Random cases without end: any operator or chain, any attributes, shapes, values and types, done in all
//! ways that a device has and judged by the oracle's derived tolerances.
//!
//! Tests run the same cases every time; a campaign looks for others. A case follows from a seed and its
//! number alone ([`GeneratedCase::numbered`]), so a campaign goes on where another ended, and parts of one
//! run side by side. What is drawn is a list of choices; where a case fails, choices are left out or made
//! less as long as it still does ([`GeneratedCase::smaller`]), and the choices that are left repeat it.

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

/// Which cases are to be done, where, and for how long.
#[derive(Debug, Clone)]
pub struct Campaign {
    /// Where.
    pub target: Target,
    /// Of these families, in turn, of which there is one at the least.
    pub families: Vec<&'static Family>,
    /// What the cases follow from, with their numbers.
    pub seed: u64,
    /// The first number.
    pub first: u64,
    /// How many. Behind the last number comes 0.
    pub cases: u64,
    /// What a case may cost at the most, as [`oracle::Case::cost`] counts it.
    pub most: u64,
    /// When no other case is begun.
    pub time: Duration,
    /// Cases at a time.
    pub threads: usize,
}

/// A case that was done.
#[derive(Debug)]
pub struct Done {
    /// Its number.
    pub number: u64,
    /// The case and its outcome; `None` if no case was cheap enough.
    pub generated: Option<(GeneratedCase, Verdict)>,
}

impl Campaign {
    /// The families that should be drawn of, but whose simplest cases cost too much, and what these cost.
    pub fn left_out(&self) -> impl Iterator<Item = (&'static Family, u64)> {
        let costs = self
            .families
            .iter()
            .map(|&family| (family, GeneratedCase::least_cost(family)));
        costs.filter(|(_, least)| *least > self.most)
    }

    /// Does the cases, and hands over each that is done, in any order. Ends early, without beginning others,
    /// where `done` fails.
    ///
    /// # Errors
    /// What `done` fails with.
    pub fn run<E>(&self, mut done: impl FnMut(Done) -> Result<(), E>) -> Result<(), E> {
        let start = Instant::now();
        let next = AtomicU64::new(0);
        let is_over = AtomicBool::new(false);
        let (sender, receiver) = mpsc::channel();
        let threads = self.threads.max(1);
        let of_each = (rayon::current_num_threads() / threads).max(1);
        let work = |sender: mpsc::Sender<Done>| {
            // Each has its share of the processors, so that none waits for the others' parts. Without a pool
            // all share one.
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
    /// The smallest case found within `time` that fails in the same way.
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
        // These are the chains that the oracle has cases of by name.
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
            // What is refused costs nothing.
            for cost in costs.filter(|&cost| cost > 0) {
                assert!(least <= cost, "{}: {least}, {cost}", family.name);
            }
        }
        assert!(GeneratedCase::least_cost(Family::named("one_launch_85")[0]) > 1_000_000);
    }

    /// What a campaign has found, and what was mended since: each must be right.
    #[test]
    fn what_was_found_wrong_is_right() {
        let found = [
            // The few instructions of a short sum on tensor cores cut off more than a chain of FMA.
            (
                "alone",
                "0,0,0,0,16,16,0,0,0,0,0,0,0,10,27,0,0,4,0,10,3,147,0",
            ),
            // Kernels for two scales by the same factor, where there are two.
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
