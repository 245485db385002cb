//! `convfuse compare`: two files of tensors, element by element, or two records of `bench`.

use std::io::Read;
use std::path::{Path, PathBuf};

use comfy_table::CellAlignment::{Left, Right};
use convfuse::{Element, bf16, f16};
use convfuse_cli::Status;
use convfuse_cli::bench::Comparison;
use safetensors::Dtype;
use serde::Serialize;
use serde_json::json;

use super::bench::{comparison_text, not_negative, read_record};
use super::failure::{Failure, Outcome};
use super::files;
use super::json::{Found, Json};
use super::out::{Out, plain};
use super::table::aligned;
use super::tensors::{Entry, TensorFile, coarser};

/// Options of `compare`.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// A .safetensors or .npy file, or a record that `bench --json` wrote
    actual: PathBuf,
    /// What it is compared with: a file of the same kind
    expected: PathBuf,
    /// How far an element may be from the expected one
    #[arg(long, default_value_t = 0.0, value_parser = not_negative)]
    atol: f64,
    /// How far an element may be from the expected one, as a part of the expected one's magnitude, in
    /// addition to --atol
    #[arg(long, default_value_t = 0.0, value_parser = not_negative)]
    rtol: f64,
    /// How many units of the last place of the coarser of the two element types an element may be off,
    /// whatever --atol and --rtol are
    #[arg(long, default_value_t = 0)]
    ulps: u64,
    /// Of records: how much slower than expected a median may be
    #[arg(long, value_name = "PERCENT", value_parser = not_negative)]
    time_limit: Option<f64>,
    #[command(flatten)]
    json: Json,
}

pub(super) fn run(arguments: &Arguments, out: &mut Out) -> Outcome {
    let json = &arguments.json;
    json.record("compare", out, |out, found| {
        let (actual, expected) = (&arguments.actual, &arguments.expected);
        match (is_json(actual)?, is_json(expected)?) {
            (true, true) => records(arguments, out, found),
            (false, false) => tensors(arguments, out, found),
            (true, false) | (false, true) => Err(Failure::Refused(format!(
                "{} and {}: one is a record and one has tensors, must be two of a kind",
                actual.display(),
                expected.display()
            ))),
        }
    })
}

/// Whether the first byte of a file starts a JSON object.
fn is_json(path: &Path) -> Result<bool, Failure> {
    let mut file = files::open(path)?;
    let mut first = [0];
    loop {
        let read = file.read(&mut first);
        match read.map_err(|error| Failure::of_file(path, &error))? {
            0 => return Ok(false),
            _ if first[0].is_ascii_whitespace() => {}
            _ => return Ok(first[0] == b'{'),
        }
    }
}

fn records(arguments: &Arguments, out: &mut Out, found: &mut Found) -> Outcome {
    if (arguments.atol, arguments.rtol, arguments.ulps) != (0.0, 0.0, 0) {
        return Err("--atol, --rtol and --ulps are for tensors, records have hashes".into());
    }
    let (new, old) = (
        read_record(&arguments.actual)?,
        read_record(&arguments.expected)?,
    );
    let comparison = Comparison::new(&old, &new, |_, _| true);
    for run in &comparison.runs {
        found.push(
            "runs",
            json!({
                "problem": run.problem,
                "strategy": run.strategy,
                "math_mode": run.math_mode,
                "finding": format!("{:?}", run.finding),
                "expected_s": run.old_s,
                "actual_s": run.new_s,
            }),
        );
    }
    write!(
        out,
        "{}",
        comparison_text(&old, &new, &comparison, arguments.time_limit)
    )?;
    Ok(match comparison.is_right(arguments.time_limit) {
        true => Status::Right,
        false => Status::Wrong,
    })
}

/// The difference between two tensors.
#[derive(Debug, Default, Serialize, PartialEq)]
struct Difference {
    name: String,
    elements: usize,
    /// Elements that are not equal. NaN equals NaN.
    different: usize,
    /// Elements beyond the tolerance.
    beyond: usize,
    /// Elements that are NaN in only one of the two tensors.
    nan: usize,
    /// The largest difference of finite elements.
    largest_absolute: f64,
    /// The largest difference of finite elements relative to the expected magnitude, if that is not 0.
    largest_relative: f64,
    /// The largest distance of finite elements in units of the last place.
    largest_ulps: u64,
    /// The row-major index of the first element beyond the tolerance.
    first_beyond: Option<usize>,
    /// The reason why the tensors cannot be compared.
    flaw: Option<String>,
}

/// The number of elements read at a time.
const PART: usize = 1 << 20;

fn tensors(arguments: &Arguments, out: &mut Out, found: &mut Found) -> Outcome {
    if arguments.time_limit.is_some() {
        return Err("--time-limit is for records, tensors have no times".into());
    }
    let mut actual = TensorFile::open(&arguments.actual)?;
    let mut expected = TensorFile::open(&arguments.expected)?;
    let mut table = aligned([
        ("tensor", Left),
        ("elements", Right),
        ("different", Right),
        ("beyond", Right),
        ("NaN in one", Right),
        ("largest absolute", Right),
        ("largest relative", Right),
        ("ulps", Right),
        ("verdict", Left),
    ]);
    let mut status = Status::Right;
    for (name, one, other) in pairs(&actual.entries, &expected.entries) {
        let mut difference = Difference {
            name,
            ..Difference::default()
        };
        match (one, other) {
            (Some(one), Some(other)) => {
                compare(
                    arguments,
                    (&mut actual, one),
                    (&mut expected, other),
                    &mut difference,
                )?;
            }
            (None, _) => difference.flaw = Some("missing in the first file".to_owned()),
            (_, None) => difference.flaw = Some("missing in the second file".to_owned()),
        }
        let is_right = difference.beyond == 0 && difference.flaw.is_none();
        if !is_right {
            status = Status::Wrong;
        }
        table.add_row([
            plain(&difference.name),
            difference.elements.to_string(),
            difference.different.to_string(),
            difference.beyond.to_string(),
            difference.nan.to_string(),
            format!("{:.2e}", difference.largest_absolute),
            format!("{:.2e}", difference.largest_relative),
            difference.largest_ulps.to_string(),
            match (&difference.flaw, difference.first_beyond) {
                (Some(flaw), _) => flaw.clone(),
                (None, Some(index)) => format!("BEYOND the tolerance, first at {index}"),
                (None, None) if difference.different == 0 => "equal".to_owned(),
                (None, None) => "close".to_owned(),
            },
        ]);
        found.push("tensors", json!(difference));
    }
    writeln!(out, "{}", table.trim_fmt())?;
    Ok(status)
}

/// Pairs the tensors of two files by name, and returns their indices. If each file has a single tensor,
/// these two are a pair regardless of their names.
fn pairs(actual: &[Entry], expected: &[Entry]) -> Vec<(String, Option<usize>, Option<usize>)> {
    if let ([one], [_]) = (actual, expected) {
        let name = if one.name.is_empty() {
            "array"
        } else {
            &one.name
        };
        return vec![(name.to_owned(), Some(0), Some(0))];
    }
    let place = |entries: &[Entry], name: &str| entries.iter().position(|entry| entry.name == name);
    let of_actual = actual.iter().enumerate();
    let of_actual = of_actual.map(|(index, entry)| {
        (
            entry.name.clone(),
            Some(index),
            place(expected, &entry.name),
        )
    });
    let others = expected.iter().enumerate();
    let others = others.filter(|(_, entry)| place(actual, &entry.name).is_none());
    let others = others.map(|(index, entry)| (entry.name.clone(), None, Some(index)));
    of_actual.chain(others).collect()
}

fn compare(
    arguments: &Arguments,
    (actual, one): (&mut TensorFile, usize),
    (expected, other): (&mut TensorFile, usize),
    difference: &mut Difference,
) -> Result<(), Failure> {
    let [a, b] = [&actual.entries[one], &expected.entries[other]];
    if a.shape != b.shape {
        difference.flaw = Some(format!("shape {:?}, expected {:?}", a.shape, b.shape));
        return Ok(());
    }
    let (elements, dtype) = (a.elements(), coarser(a.dtype, b.dtype));
    for start in (0..elements).step_by(PART) {
        let part = start..elements.min(start + PART);
        let values = actual.read(one, part.clone())?;
        let wanted = expected.read(other, part)?;
        for (index, (value, wanted)) in values.into_iter().zip(wanted).enumerate() {
            difference.note(arguments, dtype, start + index, value, wanted);
        }
    }
    Ok(())
}

impl Difference {
    fn note(
        &mut self,
        arguments: &Arguments,
        dtype: Dtype,
        index: usize,
        actual: f64,
        expected: f64,
    ) {
        self.elements += 1;
        if actual == expected || actual.is_nan() && expected.is_nan() {
            return;
        }
        self.different += 1;
        let is_finite = actual.is_finite() && expected.is_finite();
        let mut is_close = false;
        if is_finite {
            let absolute = (actual - expected).abs();
            self.largest_absolute = self.largest_absolute.max(absolute);
            if expected != 0.0 {
                self.largest_relative = self.largest_relative.max(absolute / expected.abs());
            }
            let ulps = ulps(dtype, actual, expected);
            self.largest_ulps = self.largest_ulps.max(ulps);
            let allowed = arguments.atol + arguments.rtol * expected.abs();
            is_close = absolute <= allowed || ulps <= arguments.ulps;
        } else if actual.is_nan() || expected.is_nan() {
            self.nan += 1;
        }
        if !is_close {
            self.beyond += 1;
            self.first_beyond.get_or_insert(index);
        }
    }
}

/// Returns the distance of two values in units of the last place of an element type, after rounding to it.
fn ulps(dtype: Dtype, one: f64, other: f64) -> u64 {
    // Numbers of equal sign are as far apart as their bits, and both zeros are equal.
    let place = |value: f64| {
        let magnitude = match dtype {
            Dtype::F64 => value.abs().to_bits(),
            Dtype::F32 => u64::from((value.abs() as f32).to_bits()),
            Dtype::F16 => u64::from(f16::from_f64(value.abs()).to_bits()),
            _ => u64::from(<bf16 as Element>::from_f32(value.abs() as f32).to_bits()),
        };
        let magnitude = i128::from(magnitude);
        if value < 0.0 { -magnitude } else { magnitude }
    };
    u64::try_from((place(one) - place(other)).abs()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_the_last_place_are_those_of_the_type() {
        let next = f64::from(f32::from_bits(1.0f32.to_bits() + 1));
        assert_eq!(ulps(Dtype::F32, 1.0, next), 1);
        assert_eq!(ulps(Dtype::F64, 1.0, next), 1 << 29);
        assert_eq!(ulps(Dtype::F16, 1.0, 1.0 + 1.0 / 1024.0), 1);
        assert_eq!(ulps(Dtype::BF16, 1.0, 1.0 + 1.0 / 128.0), 1);
        assert_eq!(ulps(Dtype::F32, 0.0, -0.0), 0);
        let least = f64::from(f32::from_bits(1));
        assert_eq!(ulps(Dtype::F32, least, -least), 2);
        assert_eq!(ulps(Dtype::F64, f64::MAX, f64::MIN), 2 * f64::MAX.to_bits());
        assert_eq!(coarser(Dtype::BF16, Dtype::F16), Dtype::BF16);
        assert_eq!(coarser(Dtype::F16, Dtype::F64), Dtype::F16);
    }
}
