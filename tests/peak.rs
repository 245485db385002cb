//! The kernels that measure a device's ceilings.

use convfuse_cli::bench::Ceilings;
use libtest_mimic::Trial;

use crate::backend::{Backend, Outcome};

pub(crate) fn trials() -> Vec<Trial> {
    Backend::trials(
        &Backend::KERNELS,
        "peak",
        &[
            // `run.sh sanitize` searches for this name.
            ("matches_reference_on_smoke_shapes", closed_form),
        ],
    )
}

/// Runs each kernel once, and compares its stored values with their closed form.
fn closed_form(backend: Backend) -> Outcome {
    Ok(Ceilings::check(&backend.stream()?)?)
}
