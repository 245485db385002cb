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

/// The report as an SVG file: a bar for each result's time beside the least time that the ceilings allow, and
/// below, where ceilings were measured, the roofline with every result under it.
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
    let mut subtitle = format!("{}; medians and quartiles, {}", report.date, report.clock);
    if report.ceilings.is_some() {
        subtitle += "; the upright mark is the least time that the ceilings allow";
    }
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
    use std::time::Duration;

    use super::*;
    use crate::bench::{Ceilings, Description, Products, Protocol, Run, Summary};
    use convfuse::chain::presets::KernelBench85;
    use convfuse::{DType, Device};

    /// A report with figures as a large GPU has them.
    fn report() -> Report {
        let stream = Device::cpu().stream().unwrap();
        let protocol = Protocol::new(&stream).unwrap();
        let ceilings = Ceilings {
            copy_bytes_per_s: 4.3e12,
            fma_flop_per_s: 64e12,
            mma_tf32_flop_per_s: 322e12,
            mma_f16_flop_per_s: 645e12,
            wgmma_f16_flop_per_s: Some(790e12),
        };
        let command = vec!["convfuse".to_owned()];
        let mut report = Report::new("today".into(), command, &protocol, Some(ceilings));
        let attributes = KernelBench85::default();
        let description = Description::of_85(&attributes, &[1, 8, 9, 9], DType::F32, 0).unwrap();
        let mut problem = Problem::of(&description);
        (problem.flop, problem.bytes) = (18_700_000_000, 98_600_000);
        let runs = [
            ("one <kernel> each", Products::Accurate, 2298),
            ("fused", Products::Accurate, 110),
            ("fused", Products::Fast, 75),
        ];
        for (strategy, products, microseconds) in runs {
            let times = [90, 100, 100, 103].map(|percent| {
                Duration::from_nanos(microseconds * 1000).mul_f64(f64::from(percent) / 100.0)
            });
            let mut run = Run::of(strategy.to_owned(), "kernels".to_owned());
            run.time = Summary::of(&times);
            problem
                .results
                .push(problem.score(run, products, Some(&ceilings)));
        }
        let mut run = Run::of("broken".to_owned(), "kernels".to_owned());
        run.complaint = Some("wrong".to_owned());
        problem
            .results
            .push(problem.score(run, Products::Accurate, Some(&ceilings)));
        report.problems.push(problem);
        report
    }

    #[test]
    fn every_timed_result_has_a_bar_and_a_dot() {
        let svg = to_svg(&report());
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        let count = |what: &str| svg.matches(what).count();
        // The background, and three bars; what went wrong has none.
        assert_eq!(count("<rect "), 1 + 3);
        assert_eq!(count("<circle "), 3);
        assert_eq!(count("<text "), count("</text>"));
        assert!(svg.contains("one &lt;kernel&gt; each") && svg.contains("fused, fast"));
        assert!(!svg.contains("broken") && !svg.contains("NaN"));
    }

    #[test]
    fn without_ceilings_there_is_no_roofline() {
        let mut report = report();
        report.ceilings = None;
        assert!(!to_svg(&report).contains("(roofline)"));
        report.problems.clear();
        assert!(to_svg(&report).ends_with("</svg>\n"));
    }

    #[test]
    fn durations_choose_their_unit() {
        assert_eq!(duration(1.2345e-5), "12.3 us");
        assert_eq!(duration(0.0023), "2.30 ms");
        assert_eq!(duration(125.0), "125 s");
    }
}
