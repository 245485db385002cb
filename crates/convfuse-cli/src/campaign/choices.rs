//! The choices that a case is drawn by, one number each, so that a case can be told, repeated and made
//! smaller without knowing what it is.

use op_spec::data::splitmix64;

/// Where choices come from, and which were made.
#[derive(Debug, Clone)]
pub struct Choices {
    source: Source,
    taken: Vec<u32>,
}

#[derive(Debug, Clone)]
enum Source {
    /// The fractions that are drawn are raised to `power`, which prefers small ones.
    Random {
        state: u64,
        power: i32,
    },
    Given(Vec<u32>),
}

impl Choices {
    /// Random ones. The larger `power` is, 1 at the least, the more of them are small.
    #[must_use]
    pub fn random(seed: u64, power: i32) -> Choices {
        Choices {
            source: Source::Random { state: seed, power },
            taken: Vec::new(),
        }
    }

    /// These ones, and the first of all possibilities behind them.
    #[must_use]
    pub fn given(choices: Vec<u32>) -> Choices {
        Choices {
            source: Source::Given(choices),
            taken: Vec::new(),
        }
    }

    /// What was chosen so far.
    #[must_use]
    pub fn taken(&self) -> &[u32] {
        &self.taken
    }

    /// One of `0..count`, of which 0 is the simplest.
    pub fn below(&mut self, count: u32) -> u32 {
        let last = count.saturating_sub(1);
        let choice = match &mut self.source {
            Source::Random { state, power } => {
                *state = splitmix64(*state);
                let fraction = (*state >> 11) as f64 / (1u64 << 53) as f64;
                (fraction.powi(*power) * f64::from(count)) as u32
            }
            Source::Given(given) => given.get(self.taken.len()).copied().unwrap_or(0),
        };
        let choice = choice.min(last);
        self.taken.push(choice);
        choice
    }

    /// One of `first..=last`, of which `first` is the simplest.
    pub fn within(&mut self, first: usize, last: usize) -> usize {
        first + self.below((last - first + 1) as u32) as usize
    }

    /// The same on each axis.
    pub fn each<const D: usize>(&mut self, first: usize, last: usize) -> [usize; D] {
        std::array::from_fn(|_| self.within(first, last))
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: u32) -> bool {
        self.below(times) == times - 1
    }

    /// One of these, of which the first is the simplest.
    pub fn of<T: Copy, const N: usize>(&mut self, all: [T; N]) -> T {
        all[self.below(N as u32) as usize]
    }
}

/// Choices that are simpler than these, the most promising first: fewer, one of them less, one left out.
pub(super) fn simpler(choices: &[u32]) -> Vec<Vec<u32>> {
    // What is left out at the end counts as 0, so zeros there say nothing.
    let used = choices.len() - choices.iter().rev().take_while(|&&c| c == 0).count();
    let choices = &choices[..used];
    let mut simpler = Vec::new();
    for kept in [used / 2, used.saturating_sub(4), used.saturating_sub(1)] {
        if kept < used {
            simpler.push(choices[..kept].to_vec());
        }
    }
    for (at, &now) in choices.iter().enumerate() {
        let mut values = vec![0, now / 2, now.saturating_sub(1)];
        values.dedup();
        for value in values.into_iter().filter(|&value| value < now) {
            let mut less = choices.to_vec();
            less[at] = value;
            simpler.push(less);
        }
    }
    for at in 0..used {
        let mut rest = choices.to_vec();
        rest.remove(at);
        simpler.push(rest);
    }
    simpler
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_that_were_made_make_the_same_again() {
        let draw = |choices: &mut Choices| {
            let pair: [usize; 2] = choices.each(3, 9);
            (pair, choices.of(['a', 'b', 'c']), choices.once_in(4))
        };
        for seed in 0..50 {
            let mut first = Choices::random(seed, 1);
            let drawn = draw(&mut first);
            let mut again = Choices::given(first.taken().to_vec());
            assert_eq!(draw(&mut again), drawn);
            assert_eq!(again.taken(), first.taken());
        }
        assert_eq!(draw(&mut Choices::given(Vec::new())), ([3, 3], 'a', false));
        assert_eq!(draw(&mut Choices::given(vec![90; 4])), ([9, 9], 'c', true));
    }

    #[test]
    fn a_larger_power_prefers_small_numbers() {
        let mean = |power| {
            let mut choices = Choices::random(7, power);
            (0..2000).map(|_| choices.below(100)).sum::<u32>() / 2000
        };
        assert!((45..55).contains(&mean(1)));
        assert!((20..29).contains(&mean(3)));
    }

    #[test]
    fn simpler_choices_are_fewer_or_smaller_and_end() {
        let size = |choices: &[u32]| {
            let used = choices.len() - choices.iter().rev().take_while(|&&c| c == 0).count();
            (used, choices.iter().sum::<u32>())
        };
        let choices = [3, 0, 7, 1, 0, 0];
        let all = simpler(&choices);
        assert!(all.iter().all(|other| size(other) < size(&choices)));
        assert!(all.contains(&vec![3, 0, 3, 1]) && all.contains(&vec![3, 0, 7]));
        assert!(simpler(&[0, 0]).is_empty());
    }
}
