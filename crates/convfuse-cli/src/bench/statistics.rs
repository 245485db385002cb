//! Repeated measurements in a few numbers.

use std::time::Duration;

use serde::Serialize;

/// The middle and the spread of repeated timings, in seconds.
///
/// The median stands for the run: one interrupted repetition moves a mean, but not a median. The
/// quartiles tell whether to believe it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// The fastest.
    pub min: f64,
    /// A quarter were faster.
    pub lower_quartile: f64,
    /// Half were faster.
    pub median: f64,
    /// A quarter were slower.
    pub upper_quartile: f64,
    /// The slowest.
    pub max: f64,
    /// How many there were.
    pub repeats: usize,
}

impl Summary {
    /// Sums up timings; `None` if there are none.
    #[must_use]
    pub fn of(times: &[Duration]) -> Option<Summary> {
        let mut seconds: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
        seconds.sort_by(f64::total_cmp);
        let (&min, &max) = (seconds.first()?, seconds.last()?);
        Some(Summary {
            min,
            lower_quartile: quantile(&seconds, 0.25),
            median: quantile(&seconds, 0.5),
            upper_quartile: quantile(&seconds, 0.75),
            max,
            repeats: seconds.len(),
        })
    }
}

/// The value below which `fraction` of the sorted values lie, on the straight line between its neighbours.
pub(super) fn quantile(sorted: &[f64], fraction: f64) -> f64 {
    let position = fraction * (sorted.len() - 1) as f64;
    let (below, weight) = (position.floor() as usize, position.fract());
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + weight * (sorted[above] - sorted[below])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(seconds: &[u64]) -> Summary {
        let times: Vec<_> = seconds.iter().copied().map(Duration::from_secs).collect();
        Summary::of(&times).expect("not empty")
    }

    #[test]
    fn the_order_of_timings_does_not_matter() {
        let summary = summary(&[5, 1, 4, 2, 3]);
        let Summary {
            min,
            lower_quartile,
            median,
            upper_quartile,
            max,
            repeats,
        } = summary;
        assert_eq!([min, lower_quartile, median], [1.0, 2.0, 3.0]);
        assert_eq!([upper_quartile, max], [4.0, 5.0]);
        assert_eq!(repeats, 5);
    }

    #[test]
    fn an_even_number_of_timings_has_its_median_in_between() {
        assert_eq!(summary(&[1, 2, 3, 100]).median, 2.5);
    }

    #[test]
    fn one_timing_is_all_of_its_quantiles() {
        let one = summary(&[7]);
        assert_eq!(
            [one.min, one.lower_quartile, one.upper_quartile, one.max],
            [7.0; 4]
        );
        assert_eq!(Summary::of(&[]), None);
    }
}
