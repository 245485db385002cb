//! Runs properties on random inputs.

use std::cell::Cell;

use convfuse::chain::ChainError;
use convfuse::spec::SpecError;
use convfuse::{DType, Error, Stream};
use convfuse_cli::{Way, compare};
use libtest_mimic::Failed;
use oracle::Case;
use proptest::prelude::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use crate::backend::{Backend, Outcome};
use crate::cost;

/// What a property gets to work with.
pub(super) struct Bench {
    pub(super) backend: Backend,
    pub(super) stream: Stream,
    /// Inputs that were too costly to be compared.
    skipped: Cell<u32>,
}

/// Checks a property on inputs from `strategy`; a failure shows the smallest input that was found to fail.
pub(super) fn check<S: Strategy>(
    backend: Backend,
    strategy: S,
    property: impl Fn(&Bench, S::Value) -> Result<(), String>,
) -> Outcome {
    let bench = Bench {
        backend,
        stream: backend.stream()?,
        skipped: Cell::new(0),
    };
    let cases = match backend {
        Backend::Emulator => 16,
        _ => 64,
    };
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 200,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let verdict = TestRunner::new_with_rng(config, rng).run(&strategy, |value| {
        property(&bench, value).map_err(TestCaseError::fail)
    });
    verdict.map_err(|error| match error {
        TestError::Fail(reason, value) => Failed::from(format!("{reason}\nfor {value:?}")),
        TestError::Abort(reason) => Failed::from(format!("no inputs: {reason}")),
    })?;
    if bench.skipped.get() == cases {
        return Err("none of the inputs is affordable".into());
    }
    Ok(())
}

/// Compares all ways of a case with the reference.
pub(super) fn agrees(bench: &Bench, case: &Case) -> Result<(), String> {
    if bench.backend == Backend::Emulator && case.cost() > cost::EMULATED / 4 {
        bench.skipped.set(bench.skipped.get() + 1);
        return Ok(());
    }
    if let Err(refusal) = case.problem() {
        let ChainError::Layer { source, .. } = &refusal else {
            return Err(refusal.to_string());
        };
        return match Way::all(case, DType::F32)[0].run(case, &bench.stream) {
            // A model also says which layer it is.
            Err(Error::Chain(error)) if error == refusal => Ok(()),
            got => refuses(got, source),
        };
    }
    for (way, result) in compare(case, DType::F32, &bench.stream, |precision| {
        case.expected(precision)
    }) {
        result.map_err(|complaint| format!("{way}: {complaint}"))?;
    }
    Ok(())
}

/// What a specification refuses a device refuses, too, with the same words.
pub(super) fn refuses<T>(got: convfuse::Result<T>, refusal: &SpecError) -> Result<(), String> {
    match got {
        Err(error) if error.to_string() == refusal.to_string() => Ok(()),
        Err(error) => Err(format!("refused with {error}, reference: {refusal}")),
        Ok(_) => Err(format!("accepted, reference: {refusal}")),
    }
}

/// Runs steps that may fail with the library's error.
pub(super) fn device(
    steps: impl FnOnce() -> convfuse::Result<Result<(), String>>,
) -> Result<(), String> {
    steps().map_err(|error| error.to_string())?
}
