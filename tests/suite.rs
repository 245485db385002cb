//! The standard tests of every operator and chain, on every backend.

use std::fmt::Display;
use std::path::PathBuf;

use convfuse::model::Explanation;
use convfuse::{DType, Stream};
use convfuse_cli::{CaseFailure, ExecutionMode, compare, rounded};
use libtest_mimic::Trial;
use oracle::{Case, Cases, Expected, Precision, golden};

use crate::backend::{Backend, Outcome};

/// The standard tests for an operator or a chain.
pub(crate) fn of(cases: &'static Cases) -> Vec<Trial> {
    let kind = cases.kind;
    let mut trials = Vec::new();
    for backend in Backend::ALL {
        trials.push(
            backend.trial(kind, "matches_pytorch_golden_files", |backend| {
                golden_files(backend, kind)
            }),
        );
    }
    for backend in Backend::ARCHITECTURES {
        for (name, table, dtype) in [
            ("smoke_shapes", cases.smoke, DType::F32),
            ("ragged_shapes", cases.ragged, DType::F32),
            ("realistic_shapes", cases.realistic, DType::F32),
            ("ragged_shapes_in_f16", cases.ragged, DType::F16),
            ("ragged_shapes_in_bf16", cases.ragged, DType::BF16),
        ] {
            let name = format!("matches_reference_on_{name}");
            trials.push(backend.trial(kind, &name, move |backend| {
                matches_reference(backend, table, dtype)
            }));
        }
        trials.push(backend.trial(kind, "repeats_bit_for_bit", |backend| {
            repeats(backend, cases)
        }));
    }
    trials
}

/// The element types of models, with their precisions.
pub(crate) const DTYPES: [(DType, Precision); 3] = [
    (DType::F32, Precision::F32),
    (DType::F16, Precision::F16),
    (DType::BF16, Precision::BF16),
];

/// The cost limit of an emulated case, as [`Case::cost`] counts it: the emulator's work in seconds.
///
/// The emulator checks every access of every thread. About a million accesses take it a second in a release
/// build, and several seconds in a development build.
pub(crate) const EMULATED: u64 = if cfg!(debug_assertions) {
    600_000
} else {
    6_000_000
};

type Table = fn() -> Vec<Case>;

/// Whether a backend runs a case.
fn affordable(backend: Backend, case: &Case) -> bool {
    !backend.is_emulator() || case.cost() <= EMULATED
}

/// Compares the results of a case in all modes, and returns the failures.
fn complaints_of<E: Display>(
    case: &Case,
    dtype: DType,
    stream: &Stream,
    expected: impl Fn(&Precision) -> Result<Expected, E>,
) -> Vec<String> {
    let results = compare(case, dtype, stream, expected).into_iter();
    let complaint = |(mode, result): (ExecutionMode, Result<_, CaseFailure>)| {
        let complaint = result.err()?;
        Some(format!("{} {mode}: {complaint}", case.name))
    };
    results.filter_map(complaint).collect()
}

fn matches_reference(backend: Backend, table: Table, dtype: DType) -> Outcome {
    let mut cases = table();
    cases.retain(|case| affordable(backend, case));
    if cases.is_empty() {
        return Err("no case of the table is affordable".into());
    }
    match_reference(backend, &cases, &[dtype])
}

/// Compares cases with their reference in every mode.
pub(crate) fn match_reference(backend: Backend, cases: &[Case], dtypes: &[DType]) -> Outcome {
    let stream = backend.stream()?;
    let mut complaints = Vec::new();
    for case in cases {
        for &dtype in dtypes {
            let case = rounded(case, dtype);
            let expected = |precision: &Precision| case.expected(precision);
            complaints.extend(complaints_of(&case, dtype, &stream, expected));
        }
    }
    all_right(&complaints)
}

/// Tests of a group that compare cases with their reference, on every architecture and in every type.
pub(crate) fn in_every_type(group: &str, cases: fn() -> Vec<Case>) -> Vec<Trial> {
    let trials = Backend::ARCHITECTURES.into_iter().flat_map(|backend| {
        DTYPES.map(|(dtype, _)| {
            let test = move |backend| match_reference(backend, &cases(), &[dtype]);
            backend.trial(group, &format!("match_reference_in_{dtype}"), test)
        })
    });
    trials.collect()
}

/// The folder of the golden files.
pub(crate) fn golden_folder() -> PathBuf {
    let built_with = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden");
    std::env::var_os("CONVFUSE_GOLDEN").map_or_else(|| built_with.into(), PathBuf::from)
}

fn golden_files(backend: Backend, kind: &str) -> Outcome {
    let mut complaints = Vec::new();
    let (mut found, mut compared) = (0, 0);
    for file in golden::files(golden_folder())? {
        let golden = golden::load(&file)?;
        let case = &golden.case;
        // In a development build, the reference of a full-size problem takes minutes.
        let slow = golden.is_full_size() && cfg!(debug_assertions) && backend != Backend::Gpu;
        if case.kind() != kind || slow {
            continue;
        }
        found += 1;
        if backend == Backend::Reference {
            compared += 1;
            let verdict = golden
                .expected(&Precision::F64)?
                .check_f64(case.reference()?.view());
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
        compared += 1;
        let stream = backend.stream()?;
        let expected = |precision: &Precision| golden.expected(precision);
        complaints.extend(complaints_of(case, DType::F32, &stream, expected));
    }
    // The project's own folder has files for everything, small enough for any backend; another folder may
    // not.
    if compared == 0 && std::env::var_os("CONVFUSE_GOLDEN").is_none() {
        return Err(format!(
            "of {found} golden files for {kind} in {}, none was compared",
            golden_folder().display()
        )
        .into());
    }
    all_right(&complaints)
}

/// The number of launches of kernels whose names contain `part`.
pub(crate) fn count(explained: &Explanation, part: &str) -> usize {
    let launches = explained.launches.iter();
    launches.filter(|of| of.kernel.contains(part)).count()
}

/// The bits of a result.
pub(crate) fn bits<'a>(values: impl IntoIterator<Item = &'a f32>) -> Vec<u32> {
    values.into_iter().map(|value| value.to_bits()).collect()
}

/// Compares `got` bitwise with `wanted` followed by a NaN. Any NaN matches NaN, but zeros of both signs
/// differ.
#[track_caller]
pub(crate) fn must_be<'a>(got: impl IntoIterator<Item = &'a f32>, wanted: &[f32], what: &str) {
    for (y, want) in got.into_iter().zip(wanted.iter().chain(&[f32::NAN])) {
        let same = y.to_bits() == want.to_bits() || y.is_nan() && want.is_nan();
        assert!(same, "{what}: {y} instead of {want}");
    }
}

/// The number of runs in a test of repeatability.
pub(crate) fn runs(backend: Backend) -> u64 {
    let asked = std::env::var("CONVFUSE_REPEATS").ok();
    match asked.and_then(|runs| runs.parse().ok()) {
        Some(runs) => runs,
        None if backend == Backend::Gpu => 100,
        None => 3,
    }
}

/// Every run gives the same bits, each on its own stream. In the emulator, each has another order of blocks
/// and threads.
///
/// In f32, in every math mode, on the largest case of the tables `realistic` and `ragged` that the backend
/// can afford: repeatability fails where many blocks or threads take part. `repeats` runs the benchmark
/// problems at full size.
fn repeats(backend: Backend, cases: &Cases) -> Outcome {
    let runs = runs(backend);
    let affordable = |case: &Case| {
        backend == Backend::Gpu || affordable(backend, case) && case.cost() < EMULATED
    };
    let case = (cases.realistic)()
        .into_iter()
        .chain((cases.ragged)())
        .filter(affordable)
        .max_by_key(Case::cost)
        .ok_or("no affordable case")?;
    for mode in ExecutionMode::all_on(&backend.device()?, &case, DType::F32) {
        let run = |seed: u64| -> Result<Vec<u32>, libtest_mimic::Failed> {
            let outputs = mode.run(&case, &backend.shuffled_stream(seed)?)?;
            Ok(outputs.iter().flat_map(bits).collect())
        };
        let first = run(0)?;
        for number in 1..runs {
            if run(number)? != first {
                let complaint =
                    format!("{} {mode}: run {number} differs from the first", case.name);
                return Err(complaint.into());
            }
        }
    }
    Ok(())
}

/// Fails with all complaints, one per line.
pub(crate) fn all_right(complaints: &[String]) -> Outcome {
    if complaints.is_empty() {
        return Ok(());
    }
    Err(complaints.join("\n").into())
}

/// Fails unless an error has the wanted text.
pub(crate) fn says<T>(result: convfuse::Result<T>, wanted: &str) -> Outcome {
    match result {
        Ok(_) => Err(format!("was accepted, should say: {wanted}").into()),
        Err(error) if error.to_string() == wanted => Ok(()),
        Err(error) => Err(format!("says: {error}\nshould say: {wanted}").into()),
    }
}
