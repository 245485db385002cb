//! A report as text: ceilings, and a table for each problem.

use comfy_table::CellAlignment::{Left, Right};
use comfy_table::Table;
use convfuse_cli::bench::{Problem, Report, Score, chart};

use crate::cli::table::aligned;

pub(super) fn print(report: &Report) {
    println!("device\n{}", report.device);
    if let Some(ceilings) = &report.ceilings {
        println!("ceilings, measured");
        let line = |what: &str, value: f64, unit: &str| println!("  {what:<20} {value:.2} {unit}");
        line("copy", ceilings.copy_bytes_per_s * 1e-12, "TB/s");
        for (unit, speed) in ceilings.arithmetic() {
            line(unit, speed * 1e-12, "TFLOP/s");
        }
        println!();
    }
    for problem in &report.problems {
        println!(
            "{}: {}, {:?} to {:?}\n  {:.3} GFLOP, {:.3} MB; medians, {}\n",
            problem.label(),
            problem.name,
            problem.input,
            problem.output,
            problem.flop as f64 * 1e-9,
            problem.bytes as f64 * 1e-6,
            report.clock,
        );
        println!("{}\n", table(problem).trim_fmt());
        for score in &problem.results {
            if let Some(complaint) = &score.run.complaint {
                println!("  {}: {complaint}", score.run.strategy);
            }
        }
    }
}

fn table(problem: &Problem) -> Table {
    let mut table = aligned([
        ("strategy", Left),
        ("products", Left),
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
    let time = run.time.as_ref();
    [
        run.strategy.clone(),
        score.products.name().to_owned(),
        time.map_or_else(|| "WRONG".to_owned(), |time| chart::duration(time.median)),
        or_dash(time.map(|time| {
            let [lower, upper] = [time.lower_quartile, time.upper_quartile];
            format!("{} to {}", chart::duration(lower), chart::duration(upper))
        })),
        or_dash(
            score
                .flop_per_s
                .map(|speed| format!("{:.2}", speed * 1e-12)),
        ),
        or_dash(
            score
                .bytes_per_s
                .map(|speed| format!("{:.1}", speed * 1e-9)),
        ),
        or_dash(
            score
                .fraction_of_ceiling
                .map(|fraction| format!("{:.0} %", fraction * 100.0)),
        ),
        run.launches.to_string(),
        format!("{:.1}", run.extra_bytes as f64 * 1e-6),
        or_dash(run.largest_error.map(|error| format!("{error:.1e}"))),
    ]
}
