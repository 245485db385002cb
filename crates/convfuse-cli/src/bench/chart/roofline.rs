//! Every result under the ceilings of the device.
//!
//! Across: operations for each byte that must move, which the problem fixes. Upwards: operations per second,
//! which the implementation earns. The slope is what memory allows, the level lines what arithmetic allows.

use super::super::{Ceilings, Report};
use super::svg::{Anchor, Svg};
use super::{MARGIN, WIDTH, name, timed};

/// The height of [`draw`]'s drawing.
pub(super) const HEIGHT: f64 = 420.0;

const TOP_MARGIN: f64 = 40.0;
const BOTTOM_MARGIN: f64 = 44.0;
const LEFT_MARGIN: f64 = 64.0;
const RIGHT_MARGIN: f64 = 170.0;

/// A logarithmic axis from whole power of ten to whole power of ten.
struct Axis {
    /// The decades at its ends.
    decades: [i32; 2],
    /// Their positions.
    ends: [f64; 2],
}

impl Axis {
    /// The shortest such axis that holds all values, one decade long at least.
    fn around(values: impl Iterator<Item = f64>, ends: [f64; 2]) -> Axis {
        let logs: Vec<f64> = values
            .filter(|value| *value > 0.0)
            .map(f64::log10)
            .collect();
        let low = logs.iter().copied().fold(f64::INFINITY, f64::min);
        let high = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = if low <= high { (low, high) } else { (0.0, 1.0) };
        let low = low.floor() as i32;
        Axis {
            decades: [low, (high.ceil() as i32).max(low + 1)],
            ends,
        }
    }

    fn at(&self, value: f64) -> f64 {
        let [low, high] = self.decades.map(f64::from);
        let part = (value.log10() - low) / (high - low);
        self.ends[0] + part * (self.ends[1] - self.ends[0])
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        (self.decades[0]..=self.decades[1]).map(|decade| 10.0_f64.powi(decade))
    }

    fn bounds(&self) -> [f64; 2] {
        self.decades.map(|decade| 10.0_f64.powi(decade))
    }
}

/// Draws from `top` down.
pub(super) fn draw(svg: &mut Svg, report: &Report, ceilings: &Ceilings, top: f64) {
    let left = MARGIN + LEFT_MARGIN;
    let right = WIDTH - MARGIN - RIGHT_MARGIN;
    let (upper, lower) = (top + TOP_MARGIN, top + HEIGHT - BOTTOM_MARGIN);
    let levels: Vec<_> = ceilings.arithmetic().collect();
    // Where memory stops to bind, for the highest level and the lowest: the bends should be seen.
    let bends = levels
        .iter()
        .map(|(_, level)| level / ceilings.copy_bytes_per_s);
    let intensities = report.problems.iter().map(|problem| problem.intensity());
    let x = Axis::around(intensities.chain(bends), [left, right]);
    let speeds = timed(report).filter_map(|(_, score, _)| score.flop_per_s);
    let y = Axis::around(
        speeds.chain(levels.iter().map(|(_, level)| *level)),
        [lower, upper],
    );

    svg.text(
        (MARGIN, top + 22.0),
        Anchor::Start,
        13.0,
        "TFLOP/s of one convolution pass, under the measured ceilings (roofline)",
    );
    grid(svg, &x, &y);
    let slope = |intensity: f64| intensity * ceilings.copy_bytes_per_s;
    for &(label, level) in &levels {
        let bend = level / ceilings.copy_bytes_per_s;
        svg.line(
            (x.at(bend), y.at(level)),
            (right, y.at(level)),
            "#222222",
            false,
        );
        let text = format!("{label}: {:.1} TFLOP/s", level * 1e-12);
        svg.text((right + 6.0, y.at(level) + 4.0), Anchor::Start, 11.0, &text);
    }
    let highest = levels.iter().map(|(_, level)| *level).fold(0.0, f64::max);
    // The slope enters from the left, or from below where it starts under the lowest tick.
    let start = x.bounds()[0].max(y.bounds()[0] / ceilings.copy_bytes_per_s);
    let end = highest / ceilings.copy_bytes_per_s;
    svg.line(
        (x.at(start), y.at(slope(start))),
        (x.at(end), y.at(highest)),
        "#222222",
        false,
    );
    let text = format!("copy: {:.2} TB/s", ceilings.copy_bytes_per_s * 1e-12);
    svg.text(
        (x.at(start) + 8.0, y.at(slope(start)) + 16.0),
        Anchor::Start,
        11.0,
        &text,
    );

    for problem in &report.problems {
        let at = x.at(problem.intensity());
        svg.line((at, upper), (at, lower), "#999999", true);
        svg.text((at, upper - 6.0), Anchor::Middle, 11.0, &problem.label());
    }
    for (problem, score, colour) in timed(report) {
        if let Some(speed) = score.flop_per_s {
            let title = format!(
                "{} {}: {:.1} TFLOP/s",
                problem.label(),
                name(score),
                speed * 1e-12
            );
            svg.dot((x.at(problem.intensity()), y.at(speed)), colour, &title);
        }
    }
}

fn grid(svg: &mut Svg, x: &Axis, y: &Axis) {
    for tick in x.ticks() {
        svg.line(
            (x.at(tick), y.ends[0]),
            (x.at(tick), y.ends[1]),
            "#dddddd",
            false,
        );
        svg.text(
            (x.at(tick), y.ends[0] + 16.0),
            Anchor::Middle,
            11.0,
            &tick.to_string(),
        );
    }
    for tick in y.ticks() {
        svg.line(
            (x.ends[0], y.at(tick)),
            (x.ends[1], y.at(tick)),
            "#dddddd",
            false,
        );
        let label = (tick * 1e-12).to_string();
        svg.text(
            (x.ends[0] - 6.0, y.at(tick) + 4.0),
            Anchor::End,
            11.0,
            &label,
        );
    }
    let middle = (x.ends[0] + x.ends[1]) / 2.0;
    svg.text(
        (middle, y.ends[0] + 34.0),
        Anchor::Middle,
        12.0,
        "operations per byte that must move",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_holds_its_values_between_whole_decades() {
        let axis = Axis::around([30.0, 400.0].into_iter(), [0.0, 100.0]);
        assert_eq!(axis.decades, [1, 3]);
        assert_eq!((axis.at(10.0), axis.at(1000.0)), (0.0, 100.0));
        assert_eq!(axis.ticks().count(), 3);
    }

    #[test]
    fn an_axis_of_nothing_is_an_axis() {
        assert_eq!(Axis::around(std::iter::empty(), [0.0, 1.0]).decades, [0, 1]);
        assert_eq!(Axis::around([10.0].into_iter(), [0.0, 1.0]).decades, [1, 2]);
    }
}
