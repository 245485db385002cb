//! Runs properties on random inputs.

use convfuse::Stream;
use libtest_mimic::Failed;
use proptest::prelude::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use crate::backend::{Backend, Outcome};

/// The stream that a property runs on.
pub(super) struct Bench {
    pub(super) stream: Stream,
}

/// Checks a property on inputs from `strategy`. On failure, shows the smallest failing input found.
pub(super) fn check<S: Strategy>(
    backend: Backend,
    strategy: S,
    property: impl Fn(&Bench, S::Value) -> Result<(), String>,
) -> Outcome {
    let bench = Bench {
        stream: backend.stream()?,
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
    Ok(())
}

/// Runs steps that may fail with the library's error.
pub(super) fn device(
    steps: impl FnOnce() -> convfuse::Result<Result<(), String>>,
) -> Result<(), String> {
    steps().map_err(|error| error.to_string())?
}
