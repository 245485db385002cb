//! The kernels that measure a device's ceilings.

use convfuse_cli::bench::Ceilings;
use libtest_mimic::Trial;

use crate::backend::{Backend, Outcome};

pub(crate) fn trials() -> Vec<Trial> {
    Backend::trials(
        &Backend::KERNELS,
        "peak",
        &[
            // The name that `run.sh sanitize` looks for.
            ("matches_reference_on_smoke_shapes", closed_form),
        ],
    )
}

/// Each kernel once, against what arithmetic says that it stores.
fn closed_form(backend: Backend) -> Outcome {
    Ok(Ceilings::check(&backend.stream()?)?)
}
