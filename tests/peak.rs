//! The kernels that measure a device's ceilings.

use convfuse_cli::bench::Ceilings;
use libtest_mimic::Trial;

use crate::backend::{Backend, Outcome};

pub(crate) fn trials() -> Vec<Trial> {
    let kernels = Backend::KERNELS.into_iter();
    // The name that `run.sh sanitize` looks for.
    kernels
        .map(|backend| backend.trial("peak", "matches_reference_on_smoke_shapes", closed_form))
        .collect()
}

/// Each kernel once, against what arithmetic says that it stores.
fn closed_form(backend: Backend) -> Outcome {
    Ok(Ceilings::check(&backend.stream()?)?)
}
