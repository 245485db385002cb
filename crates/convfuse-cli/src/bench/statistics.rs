//! Statistics of repeated measurements.

use std::time::Duration;

use serde::Serialize;

/// The median and the spread of repeated timings, in seconds.
///
/// The median represents the run: one interrupted repetition shifts a mean, but not a median. The quartiles
/// show how reliable it is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// The shortest time.
    pub min: f64,
    /// The 25th percentile.
    pub lower_quartile: f64,
    /// The 50th percentile.
    pub median: f64,
    /// The 75th percentile.
    pub upper_quartile: f64,
    /// The longest time.
    pub max: f64,
    /// The number of timings.
    pub repeats: usize,
}

impl Summary {
    /// Summarizes timings; `None` if there are none.
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

/// Returns the `fraction` quantile of sorted values, by linear interpolation between its neighbours.
pub(super) fn quantile(sorted: &[f64], fraction: f64) -> f64 {
    let position = fraction * (sorted.len() - 1) as f64;
    let (below, weight) = (position.floor() as usize, position.fract());
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + weight * (sorted[above] - sorted[below])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_neighbours_whatever_the_order() {
        for (seconds, wanted) in [
            (&[5, 1, 4, 2, 3][..], [1.0, 2.0, 3.0, 4.0, 5.0]),
            (&[1, 2, 3, 100], [1.0, 1.75, 2.5, 27.25, 100.0]),
            (&[7], [7.0; 5]),
        ] {
            let times: Vec<_> = seconds.iter().copied().map(Duration::from_secs).collect();
            let found = Summary::of(&times).expect("not empty");
            let quartiles = [found.lower_quartile, found.median, found.upper_quartile];
            assert_eq!(
                (found.min, quartiles, found.max),
                (wanted[0], [1, 2, 3].map(|at| wanted[at]), wanted[4])
            );
            assert_eq!(found.repeats, seconds.len());
        }
        assert_eq!(Summary::of(&[]), None);
    }
}
