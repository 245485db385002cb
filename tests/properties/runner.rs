//! Runs properties on random inputs.

use convfuse::verify::on_device::Way;
use convfuse::verify::{Operation, Precision};
use convfuse::{DType, Stream};
use libtest_mimic::Failed;
use proptest::prelude::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use crate::backend::{Backend, Outcome};
use crate::cost;

/// What a property gets to work with.
pub(super) struct Bench {
    pub(super) backend: Backend,
    pub(super) stream: Stream,
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
    })
}

/// Compares all ways of an operation with the reference.
pub(super) fn agrees(bench: &Bench, operation: &Operation) -> Result<(), String> {
    if bench.backend == Backend::Emulator && cost::of(operation) > cost::EMULATED / 4 {
        return Ok(());
    }
    let expected = match operation.expected(&Precision::F32) {
        Ok(expected) => expected,
        Err(refusal) => {
            // What the specification refuses a device refuses, too, with the same words.
            let way = Way::all(operation, DType::F32)[0];
            return match way.run(operation, &bench.stream) {
                Err(error) if error.to_string() == refusal.to_string() => Ok(()),
                Err(error) => Err(format!("refused with {error}, reference: {refusal}")),
                Ok(_) => Err(format!("accepted, reference: {refusal}")),
            };
        }
    };
    let mut ways = Way::all(operation, DType::F32);
    if bench.backend == Backend::Cpu {
        ways.truncate(1);
    }
    let (mut expected, mut precision) = (expected, Precision::F32);
    for way in ways {
        if way.precision() != precision {
            precision = way.precision();
            let again = operation.expected(&precision);
            expected = again.map_err(|refusal| refusal.to_string())?;
        }
        let got = way
            .run(operation, &bench.stream)
            .map_err(|error| format!("{way}: {error}"))?;
        expected
            .check(got.view())
            .map_err(|complaint| format!("{way}: {complaint}"))?;
    }
    Ok(())
}

/// Runs steps that may fail with the library's error.
pub(super) fn device(
    steps: impl FnOnce() -> convfuse::Result<Result<(), String>>,
) -> Result<(), String> {
    steps().map_err(|error| error.to_string())?
}
