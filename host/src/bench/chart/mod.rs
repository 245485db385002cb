//! A report as a picture.

mod bars;
mod roofline;
mod svg;

use super::{Problem, Report, Score};
use svg::{Anchor, Svg};

const WIDTH: f64 = 960.0;
const MARGIN: f64 = 24.0;
const HEADER_HEIGHT: f64 = 64.0;

/// One colour per problem, told apart also by people who see few of them (Okabe and Ito).
const COLOURS: [&str; 6] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9",
];

/// The report as an SVG file: a bar for each result's time beside the least time that the ceilings allow, and below, where
/// ceilings were measured, the roofline with every result under it.
#[must_use]
pub fn to_svg(report: &Report) -> String {
    let roofline = report.ceilings.as_ref();
    let bars_height = bars::height(report);
    let height = HEADER_HEIGHT + bars_height + roofline.map_or(0.0, |_| roofline::HEIGHT) + MARGIN;
    let mut svg = Svg::new(WIDTH, height);
    header(&mut svg, report);
    bars::draw(&mut svg, report, HEADER_HEIGHT);
    if let Some(ceilings) = roofline {
        roofline::draw(&mut svg, report, ceilings, HEADER_HEIGHT + bars_height);
    }
    svg.finish()
}

fn header(svg: &mut Svg, report: &Report) {
    let title = format!("convfuse {} on {}", report.convfuse, report.device.name);
    svg.text((MARGIN, 30.0), Anchor::Start, 18.0, &title);
    let subtitle = format!("{}; medians, {}", report.date, report.clock);
    svg.text((MARGIN, 50.0), Anchor::Start, 12.0, &subtitle);
}

/// Results that have a time, with their problem and its colour.
fn timed(report: &Report) -> impl Iterator<Item = (&Problem, &Score, &'static str)> {
    let colours = COLOURS.iter().cycle();
    let problems = report.problems.iter().zip(colours);
    problems.flat_map(|(problem, colour)| {
        let timed = problem
            .results
            .iter()
            .filter(|score| score.run.time.is_some());
        timed.map(move |score| (problem, score, *colour))
    })
}

/// Such as `unfused, fast`; the usual products go without saying.
fn name(score: &Score) -> String {
    match score.products {
        super::Products::Fast => format!("{}, fast", score.run.strategy),
        _ => score.run.strategy.clone(),
    }
}

/// A number with three digits that matter.
fn three_digits(value: f64) -> String {
    let decimals = match value {
        _ if value >= 100.0 => 0,
        _ if value >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// A duration in the unit that suits it, such as `12.3 us`.
#[must_use]
pub fn duration(seconds: f64) -> String {
    if seconds < 1e-3 {
        format!("{} us", three_digits(seconds * 1e6))
    } else if seconds < 1.0 {
        format!("{} ms", three_digits(seconds * 1e3))
    } else {
        format!("{} s", three_digits(seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_choose_their_unit() {
        assert_eq!(duration(1.2345e-5), "12.3 us");
        assert_eq!(duration(0.0023), "2.30 ms");
        assert_eq!(duration(125.0), "125 s");
    }
}
