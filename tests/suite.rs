//! The tests that every operator and model gets, on every backend.

use std::path::PathBuf;

use convfuse::DType;
use convfuse::verify::on_device::Way;
use convfuse::verify::{Case, Precision, golden, tables};
use libtest_mimic::Trial;

use crate::backend::{Backend, Outcome};
use crate::cost;

/// The standard tests for the operation called `operator`.
pub(crate) fn of(operator: &'static str) -> Vec<Trial> {
    let mut trials = Vec::new();
    let mut add =
        |backend: Backend, name: &str, test: Box<dyn FnOnce(Backend) -> Outcome + Send>| {
            trials.push(backend.trial(operator, name, test));
        };
    for backend in Backend::ALL {
        add(
            backend,
            "matches_pytorch_golden_files",
            Box::new(|backend| golden_files(backend, operator)),
        );
    }
    for backend in Backend::DEVICES {
        for (name, table) in TABLES {
            let name = format!("matches_reference_on_{name}_shapes");
            add(
                backend,
                &name,
                Box::new(move |backend| matches_reference(backend, operator, table, DType::F32)),
            );
        }
        for dtype in [DType::F16, DType::BF16] {
            let name = format!("matches_reference_on_ragged_shapes_in_{dtype}");
            add(
                backend,
                &name,
                Box::new(move |backend| {
                    matches_reference(backend, operator, tables::ragged, dtype)
                }),
            );
        }
        add(
            backend,
            "repeats_bit_for_bit",
            Box::new(|backend| repeats(backend, operator)),
        );
    }
    trials
}

type Table = fn() -> Vec<Case>;

const TABLES: [(&str, Table); 3] = [
    ("smoke", tables::smoke),
    ("ragged", tables::ragged),
    ("realistic", tables::realistic),
];

/// The ways to run a case on a backend: all of them, or the one that the CPU has.
fn ways(backend: Backend, case: &Case, dtype: DType) -> Vec<Way> {
    let mut ways = Way::all(&case.operation, dtype);
    if backend == Backend::Cpu {
        ways.truncate(1);
    }
    ways
}

/// Whether a backend is given a case.
fn affordable(backend: Backend, case: &Case) -> bool {
    backend != Backend::Emulator || cost::of(&case.operation) <= cost::EMULATED
}

fn cases(operator: &str, table: Table) -> Vec<Case> {
    let mut cases = table();
    cases.retain(|case| case.operation.name() == operator);
    assert!(!cases.is_empty(), "the table has a case for {operator}");
    cases
}

fn matches_reference(backend: Backend, operator: &str, table: Table, dtype: DType) -> Outcome {
    let stream = backend.stream()?;
    let mut complaints = Vec::new();
    for mut case in cases(operator, table) {
        if !affordable(backend, &case) {
            continue;
        }
        case.operation = case.operation.rounded(dtype);
        let ways = ways(backend, &case, dtype);
        let mut expected = case.operation.expected(&ways[0].precision())?;
        let mut precision = ways[0].precision();
        for way in ways {
            if way.precision() != precision {
                precision = way.precision();
                expected = case.operation.expected(&precision)?;
            }
            let got = way.run(&case.operation, &stream);
            let verdict = match got {
                Ok(got) => expected
                    .check(got.view())
                    .map(drop)
                    .map_err(|complaint| complaint.to_string()),
                Err(error) => Err(error.to_string()),
            };
            complaints.extend(
                verdict
                    .err()
                    .map(|complaint| format!("{} {way}: {complaint}", case.name)),
            );
        }
    }
    all_right(&complaints)
}

/// The folder of the golden files.
pub(crate) fn golden_folder() -> PathBuf {
    let built_with = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden");
    std::env::var_os("CONVFUSE_GOLDEN").map_or_else(|| built_with.into(), PathBuf::from)
}

fn golden_files(backend: Backend, operator: &str) -> Outcome {
    let mut complaints = Vec::new();
    let mut found = 0;
    for file in golden::files(golden_folder())? {
        let golden = golden::load(&file)?;
        let case = &golden.case;
        // In a development build the reference of a full-size problem takes minutes.
        let slow = golden.is_full_size() && cfg!(debug_assertions) && backend != Backend::Gpu;
        if case.operation.name() != operator || slow {
            continue;
        }
        found += 1;
        if backend == Backend::Reference {
            let verdict = golden
                .expected(&Precision::F64)?
                .check_f64(case.operation.reference()?.view());
            complaints.extend(
                verdict
                    .err()
                    .map(|complaint| format!("{}: {complaint}", case.name)),
            );
            continue;
        }
        if !affordable(backend, case) {
            continue;
        }
        let stream = backend.stream()?;
        for way in ways(backend, case, DType::F32) {
            let expected = golden.expected(&way.precision())?;
            let verdict = expected.check(backend.run(&case.operation, &way, &stream)?.view());
            complaints.extend(
                verdict
                    .err()
                    .map(|complaint| format!("{} {way}: {complaint}", case.name)),
            );
        }
    }
    // The project's own folder has files for every operator; another one need not.
    if found == 0 && std::env::var_os("CONVFUSE_GOLDEN").is_none() {
        return Err(format!(
            "no golden file for {operator} in {}",
            golden_folder().display()
        )
        .into());
    }
    all_right(&complaints)
}

/// How often a test of repeatability runs an operation.
pub(crate) fn runs(backend: Backend) -> u64 {
    let asked = std::env::var("CONVFUSE_REPEATS").ok();
    match asked.and_then(|runs| runs.parse().ok()) {
        Some(runs) => runs,
        None if backend == Backend::Gpu => 100,
        None => 3,
    }
}

/// The same bits from every run, each on a stream of its own, and in the emulator with blocks and threads in another order.
///
/// In f32, in all ways that there are, on the largest case of the tables `realistic` and `ragged`, or the largest that the
/// emulator can afford: repeatability is lost where many blocks or threads take part. The benchmark problems at full
/// size are in `repeats`.
fn repeats(backend: Backend, operator: &str) -> Outcome {
    let runs = runs(backend);
    let affordable = |case: &Case| {
        backend == Backend::Gpu
            || affordable(backend, case) && cost::of(&case.operation) < cost::EMULATED
    };
    let case = cases(operator, tables::realistic)
        .into_iter()
        .chain(cases(operator, tables::ragged))
        .filter(affordable)
        .max_by_key(|case| cost::of(&case.operation))
        .ok_or("no affordable case")?;
    for way in ways(backend, &case, DType::F32) {
        let bits = |seed: u64| -> Result<Vec<u32>, libtest_mimic::Failed> {
            let result = backend.run(&case.operation, &way, &backend.shuffled_stream(seed)?)?;
            Ok(result.iter().map(|value| value.to_bits()).collect())
        };
        let first = bits(0)?;
        for run in 1..runs {
            if bits(run)? != first {
                return Err(
                    format!("{} {way}: run {run} differs from the first", case.name).into(),
                );
            }
        }
    }
    Ok(())
}

/// Fails with all complaints, one to a line.
pub(crate) fn all_right(complaints: &[String]) -> Outcome {
    if complaints.is_empty() {
        return Ok(());
    }
    Err(complaints.join("\n").into())
}

/// Fails unless an error says what it should.
pub(crate) fn says<T>(result: convfuse::Result<T>, wanted: &str) -> Outcome {
    match result {
        Ok(_) => Err(format!("was accepted, should say: {wanted}").into()),
        Err(error) if error.to_string() == wanted => Ok(()),
        Err(error) => Err(format!("says: {error}\nshould say: {wanted}").into()),
    }
}
