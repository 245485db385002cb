//! The comparison of `--compare`: each run next to that of an earlier record.

use std::path::Path;

use comfy_table::CellAlignment::{Left, Right};
use comfy_table::Table;
use convfuse_cli::bench::{Comparison, Finding, Record, Report, RunComparison};

use super::arguments::Arguments;
use super::print::duration;
use crate::cli::failure::Failure;
use crate::cli::files;
use crate::cli::out::{Out, plain, say};
use crate::cli::table::aligned;

/// Reads the record of an earlier benchmark.
pub(in crate::cli) fn read(path: &Path) -> Result<Record, Failure> {
    Ok(Record::of_text(path, &files::text(path)?)?)
}

/// Prints the comparison of `report` with an old record, and returns whether it passes. If standard output
/// has no text, the comparison goes to standard error.
pub(super) fn compare(
    old: &Record,
    report: &Report,
    arguments: &Arguments,
    out: &mut Out,
) -> Result<bool, Failure> {
    let new = Record::from_json(&report.to_json());
    let new = new.map_err(|error| Failure::Refused(format!("the new record: {error}")))?;
    let comparison = Comparison::new(old, &new, |strategy, math_mode| {
        arguments.ask_for(strategy, math_mode)
    });
    let text = text(old, &new, &comparison, arguments.time_limit);
    match out.is_silent() {
        true => say(format_args!("{text}")),
        false => write!(out, "{text}")?,
    }
    Ok(comparison.is_right(arguments.time_limit))
}

/// Formats a comparison as text.
pub(in crate::cli) fn text(
    old: &Record,
    new: &Record,
    comparison: &Comparison,
    time_limit: Option<f64>,
) -> String {
    let mut text = format!("compared with the record of {}\n", old.date);
    if old.device != new.device {
        let (old, new) = (&old.device.name, &new.device.name);
        text += &format!("  that was made on another device: {old}, now {new}\n");
    }
    text += &format!("\n{}\n\n", table(comparison, time_limit).trim_fmt());
    let [equal, different, missing_in_old, missing_in_new, wrong] = [
        Finding::Equal,
        Finding::Different,
        Finding::MissingInOld,
        Finding::MissingInNew,
        Finding::Wrong,
    ]
    .map(|finding| comparison.count(finding));
    text += &format!(
        "{equal} equal, {different} different, {missing_in_old} missing in the old record, {missing_in_new} missing in the new \
         one, {wrong} wrong\n"
    );
    if equal + different == 0 {
        text += "nothing was compared: the old record has none of these runs\n";
    }
    if let Some((median, largest)) = comparison.ratios() {
        text += &format!("times, new over old: median {median:.3}, largest {largest:.3}");
        if let Some(percent) = time_limit {
            let slower = comparison.slower(percent);
            text += &format!(", {slower} more than {percent} % slower");
        }
        text += "\n";
    }
    text
}

fn table(comparison: &Comparison, time_limit: Option<f64>) -> Table {
    let mut table = aligned([
        ("problem", Left),
        ("strategy", Left),
        ("math mode", Left),
        ("old", Right),
        ("new", Right),
        ("ratio", Right),
        ("output", Left),
    ]);
    for run in &comparison.runs {
        let time = |seconds: Option<f64>| seconds.map_or_else(|| "-".to_owned(), duration);
        let ratio = run.ratio().map(|ratio| format!("{ratio:.3}"));
        table.add_row([
            plain(&run.problem),
            plain(&run.strategy),
            run.math_mode.name().to_owned(),
            time(run.old_s),
            time(run.new_s),
            ratio.unwrap_or_else(|| "-".to_owned()),
            verdict(run, time_limit),
        ]);
    }
    table
}

fn verdict(run: &RunComparison, time_limit: Option<f64>) -> String {
    let bits = match run.finding {
        Finding::Equal => "equal bits",
        Finding::Different => "DIFFERENT bits",
        Finding::MissingInOld => "missing in old",
        Finding::MissingInNew => "MISSING in new",
        _ => "WRONG",
    };
    if time_limit.is_some_and(|percent| run.is_slower(percent)) {
        format!("{bits}, SLOWER than the limit")
    } else {
        bits.to_owned()
    }
}
