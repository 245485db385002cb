//! Times as bars, a group for each problem.

use super::super::{Problem, Report, Score, Summary};
use super::svg::{Anchor, Svg};
use super::{MARGIN, WIDTH, duration, name, timed};

const LABEL_WIDTH: f64 = 200.0;
const VALUE_WIDTH: f64 = 190.0;
const GROUP_HEADER: f64 = 34.0;
const ROW_HEIGHT: f64 = 22.0;
const BAR_HEIGHT: f64 = 14.0;

/// The height of [`draw`]'s drawing.
pub(super) fn height(report: &Report) -> f64 {
    let groups = report.problems.iter().map(|problem| {
        let rows = problem
            .results
            .iter()
            .filter(|score| score.run.time.is_some());
        GROUP_HEADER + rows.count() as f64 * ROW_HEIGHT
    });
    groups.sum::<f64>() + MARGIN
}

/// Draws from `top` down. Every group has its own scale: problems are not there to be compared with each
/// other.
pub(super) fn draw(svg: &mut Svg, report: &Report, top: f64) {
    let mut y = top;
    for problem in &report.problems {
        let rows: Vec<_> = timed(report)
            .filter(|(of, ..)| std::ptr::eq(*of, problem))
            .collect();
        let slowest = rows.iter().filter_map(|(_, score, _)| score.run.time);
        let slowest = slowest.map(|time| time.median).fold(0.0, f64::max);
        group_header(svg, problem, y + GROUP_HEADER - 12.0);
        y += GROUP_HEADER;
        for (_, score, colour) in rows {
            if let Some(time) = score.run.time {
                bar(svg, score, &time, slowest, colour, y);
                y += ROW_HEIGHT;
            }
        }
    }
}

fn group_header(svg: &mut Svg, problem: &Problem, y: f64) {
    let text = format!(
        "{}: {}, input {:?}",
        problem.label(),
        problem.name,
        problem.input
    );
    svg.text((MARGIN, y), Anchor::Start, 13.0, &text);
}

fn bar(svg: &mut Svg, score: &Score, time: &Summary, slowest: f64, colour: &str, y: f64) {
    let left = MARGIN + LABEL_WIDTH;
    let scale = (WIDTH - MARGIN - VALUE_WIDTH - left) / slowest.max(f64::MIN_POSITIVE);
    let middle = y + BAR_HEIGHT / 2.0;
    svg.text((left - 8.0, y + 11.0), Anchor::End, 12.0, &name(score));
    let end = left + time.median * scale;
    svg.rect((left, y), (end - left, BAR_HEIGHT), colour);
    // The quartiles, which may lie beyond the longest median.
    let at = |seconds: f64| left + (seconds * scale).min(WIDTH - MARGIN - left);
    svg.line(
        (at(time.lower_quartile), middle),
        (at(time.upper_quartile), middle),
        "#222222",
        false,
    );
    if let Some(floor) = score.floor_s {
        let x = left + floor * scale;
        svg.line((x, y - 2.0), (x, y + BAR_HEIGHT + 2.0), "#222222", false);
    }
    let fraction = score.fraction_of_ceiling.map_or(String::new(), |fraction| {
        format!(", {:.0} % of the ceiling", fraction * 100.0)
    });
    let value = format!("{}{fraction}", duration(time.median));
    svg.text((end + 8.0, y + 11.0), Anchor::Start, 12.0, &value);
}
