//! The random choices that determine a case, as a list of numbers. The numbers alone are enough to report,
//! repeat and reduce a case. proptest draws and reduces them.

use proptest::bool::Weighted;
use proptest::num::u32::BinarySearch;
use proptest::strategy::{NewTree, Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// The source of choices, and the choices made so far.
#[derive(Debug)]
pub(super) struct Choices {
    source: Source,
    taken: Vec<u32>,
    /// Whether sizes may be too large to compute the case.
    any_size: bool,
}

#[derive(Debug)]
enum Source {
    /// Random fractions, raised to `power` to prefer small ones.
    Random {
        runner: Box<TestRunner>,
        power: i32,
    },
    Given(Vec<u32>),
}

impl Choices {
    /// Random choices. A larger `power` (at least 1) gives more small ones.
    pub(super) fn random(seed: [u64; 4], power: i32) -> Choices {
        let seed = seed.map(u64::to_le_bytes).concat();
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
        let runner = Box::new(TestRunner::new_with_rng(Config::default(), rng));
        Choices {
            source: Source::Random { runner, power },
            taken: Vec::new(),
            any_size: false,
        }
    }

    /// The given choices, followed by 0 for all further ones.
    pub(super) fn given(choices: Vec<u32>) -> Choices {
        Choices {
            source: Source::Given(choices),
            taken: Vec::new(),
            any_size: false,
        }
    }

    /// The same choices, with sizes as large as in networks. A case of this size is not computed.
    pub(super) fn of_any_size(mut self) -> Choices {
        self.any_size = true;
        self
    }

    /// The choices made so far.
    pub(super) fn taken(&self) -> &[u32] {
        &self.taken
    }

    /// Chooses one of `0..count`; 0 is the simplest.
    pub(super) fn below(&mut self, count: u32) -> u32 {
        let last = count.saturating_sub(1);
        let choice = match &mut self.source {
            Source::Random { runner, power } => {
                let fraction = (0.0..1.0f64)
                    .new_tree(runner)
                    .map_or(0.0, |tree| tree.current());
                (f64::powi(fraction, *power) * f64::from(count)) as u32
            }
            Source::Given(given) => given.get(self.taken.len()).copied().unwrap_or(0),
        };
        let choice = choice.min(last);
        self.taken.push(choice);
        choice
    }

    /// Chooses one of `first..=last`; `first` is the simplest.
    pub(super) fn within(&mut self, first: usize, last: usize) -> usize {
        first + self.below((last - first + 1) as u32) as usize
    }

    /// Chooses a number of channels, samples or positions in `first..=last`; `first` is the simplest. With
    /// any size allowed, the limit is up to 64 times as large, and half of the numbers are multiples of 8.
    pub(super) fn size(&mut self, first: usize, last: usize) -> usize {
        if !self.any_size {
            return self.within(first, last);
        }
        let scale = self.below(7).min(self.below(7));
        let last = last << scale;
        let is_even = self.once_in(2);
        let size = self.within(first, last);
        if is_even {
            size.next_multiple_of(8)
        } else {
            size
        }
    }

    /// Chooses a number in `first..=last` for each axis.
    pub(super) fn each<const D: usize>(&mut self, first: usize, last: usize) -> [usize; D] {
        std::array::from_fn(|_| self.within(first, last))
    }

    /// Returns true with probability `1 / times`.
    pub(super) fn once_in(&mut self, times: u32) -> bool {
        self.below(times) == times - 1
    }

    /// Chooses one of `all`; the first is the simplest.
    pub(super) fn of<T: Copy, const N: usize>(&mut self, all: [T; N]) -> T {
        all[self.below(N as u32) as usize]
    }
}

/// A choice, as a proptest strategy that starts from it.
#[derive(Debug)]
struct Made(u32);

impl Strategy for Made {
    type Tree = BinarySearch;
    type Value = u32;

    fn new_tree(&self, _: &mut TestRunner) -> NewTree<Self> {
        Ok(BinarySearch::new(self.0))
    }
}

/// Reduces failing choices: removes or lowers each one while the case still fails.
///
/// `failing` takes new choices and the simplest ones so far. If the case of the new choices fails, it
/// returns the choices that the case used.
pub(super) fn simplest(
    mut simplest: Vec<u32>,
    mut failing: impl FnMut(Vec<u32>, &[u32]) -> Option<Vec<u32>>,
) -> Vec<u32> {
    // One pass may allow another to reduce further.
    loop {
        let before = simplest.clone();
        let made = |&choice| (proptest::bool::weighted(1.0), Made(choice));
        let all: Vec<(Weighted, Made)> = before.iter().map(made).collect();
        let Ok(mut tree) = all.new_tree(&mut TestRunner::deterministic()) else {
            return simplest;
        };
        let mut has_next = tree.simplify();
        while has_next {
            let kept = tree.current().into_iter().filter(|(is_kept, _)| *is_kept);
            has_next = match failing(kept.map(|(_, choice)| choice).collect(), &simplest) {
                Some(simpler) => {
                    simplest = simpler;
                    tree.simplify()
                }
                None => tree.complicate(),
            };
        }
        if simplest == before {
            return simplest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_that_are_not_given_are_the_first_and_too_large_ones_the_last() {
        let draw = |given| {
            let mut choices = Choices::given(given);
            (
                choices.each(3, 9),
                choices.of(['a', 'b']),
                choices.once_in(4),
            )
        };
        assert_eq!(draw(Vec::new()), ([3, 3], 'a', false));
        assert_eq!(draw(vec![90; 4]), ([9, 9], 'b', true));
    }

    #[test]
    fn a_larger_power_prefers_small_numbers() {
        let mean = |power| {
            let mut choices = Choices::random([7; 4], power);
            (0..2000).map(|_| choices.below(100)).sum::<u32>() / 2000
        };
        assert!((45..55).contains(&mean(1)));
        assert!((20..29).contains(&mean(3)));
    }
    #[test]
    fn choices_that_do_not_matter_are_left_out_and_others_are_made_less() {
        let fails = |choices: Vec<u32>, _: &[u32]| {
            let large = choices.iter().filter(|&&choice| choice >= 5).count();
            (large >= 2).then_some(choices)
        };
        assert_eq!(simplest(vec![3, 0, 70, 1, 9, 5, 2], fails), [5, 5]);
        assert_eq!(simplest(vec![0, 4], |_, _| None), [0, 4]);
        assert!(simplest(vec![8; 40], |choices, _| Some(choices)).is_empty());
    }
}
