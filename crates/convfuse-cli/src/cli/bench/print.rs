//! A report as text: ceilings, and a table for each problem.

use comfy_table::CellAlignment::{Left, Right};
use comfy_table::Table;
use convfuse_cli::Status;
use convfuse_cli::bench::{Problem, Report, Score};

use crate::cli::failure::Failure;
use crate::cli::out::{Out, plain};
use crate::cli::table::aligned;

/// Prints the parts common to all problems.
pub(super) fn head(report: &Report, out: &mut Out) -> Result<(), Failure> {
    writeln!(out, "device\n{}", report.device)?;
    if let Some(ceilings) = &report.ceilings {
        writeln!(out, "ceilings, measured")?;
        let mut line =
            |what: &str, value: f64, unit: &str| writeln!(out, "  {what:<20} {value:.2} {unit}");
        line("copy", ceilings.copy_bytes_per_s * 1e-12, "TB/s")?;
        for (unit, speed) in ceilings.arithmetic() {
            line(unit, speed * 1e-12, "TFLOP/s")?;
        }
        writeln!(out)?;
    }
    out.flush()
}

/// Prints the results of a problem.
pub(super) fn problem(problem: &Problem, clock: &str, out: &mut Out) -> Result<(), Failure> {
    let description = &problem.description;
    writeln!(
        out,
        "{}: {}, {:?} to {:?}\n  {:.3} GFLOP, {:.3} MB; medians, {clock}\n",
        plain(&problem.label()),
        problem.name,
        description.input,
        description.output,
        description.flop as f64 * 1e-9,
        description.bytes as f64 * 1e-6,
    )?;
    if !problem.results.is_empty() {
        writeln!(out, "{}\n", table(problem).trim_fmt())?;
    }
    for score in &problem.results {
        if let Some(complaint) = &score.run.complaint {
            writeln!(out, "  {}: {}", score.run.strategy, plain(complaint))?;
        }
    }
    if let Some(error) = &problem.error {
        writeln!(out, "  not run to its end: {}\n", plain(error))?;
    }
    out.flush()
}

fn table(problem: &Problem) -> Table {
    let mut table = aligned([
        ("strategy", Left),
        ("math mode", Left),
        ("time", Right),
        ("quartiles", Right),
        ("TFLOP/s", Right),
        ("GB/s", Right),
        ("of ceiling", Right),
        ("launches", Right),
        ("extra MB", Right),
        ("largest error", Right),
    ]);
    for score in &problem.results {
        table.add_row(row(score));
    }
    table
}

fn row(score: &Score) -> [String; 10] {
    let run = &score.run;
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let figure = |value: Option<f64>, factor: f64, decimals: usize, unit: &str| {
        or_dash(value.map(|value| format!("{:.decimals$}{unit}", value * factor)))
    };
    let time = run.time.as_ref();
    [
        run.strategy.clone(),
        score.math_mode.name().to_owned(),
        match (time, run.status) {
            (Some(time), _) => duration(time.median),
            (None, Status::Failed | Status::Refused) => "FAILED".to_owned(),
            (None, _) => "WRONG".to_owned(),
        },
        or_dash(time.map(|time| {
            let [lower, upper] = [time.lower_quartile, time.upper_quartile];
            format!("{} to {}", duration(lower), duration(upper))
        })),
        figure(score.flop_per_s, 1e-12, 2, ""),
        figure(score.bytes_per_s, 1e-9, 1, ""),
        figure(score.fraction_of_ceiling, 100.0, 0, " %"),
        run.launches.to_string(),
        format!("{:.1}", run.extra_bytes as f64 * 1e-6),
        or_dash(run.largest_error.map(|error| format!("{error:.1e}"))),
    ]
}

/// A duration with three significant digits in the unit that suits it, such as `12.3 us`.
pub(super) fn duration(seconds: f64) -> String {
    let (value, unit) = match seconds {
        _ if seconds < 1e-3 => (seconds * 1e6, "us"),
        _ if seconds < 1.0 => (seconds * 1e3, "ms"),
        _ => (seconds, "s"),
    };
    let decimals = match value {
        _ if value >= 100.0 => 0,
        _ if value >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn durations_choose_their_unit() {
        assert_eq!(duration(1.2345e-5), "12.3 us");
        assert_eq!(duration(0.0023), "2.30 ms");
        assert_eq!(duration(125.0), "125 s");
    }
}
