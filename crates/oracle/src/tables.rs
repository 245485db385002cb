use crate::case::Case;
use crate::cases::Cases;
use crate::{chains, operators};

/// The cases of all operators, then of all chains.
pub fn all() -> impl Iterator<Item = &'static Cases> {
    operators::all().chain(chains::CASES)
}

/// The plain cases of all operators and chains.
#[must_use]
pub fn smoke() -> Vec<Case> {
    all().flat_map(|cases| (cases.smoke)()).collect()
}

/// The edge cases of all operators and chains.
#[must_use]
pub fn ragged() -> Vec<Case> {
    all().flat_map(|cases| (cases.ragged)()).collect()
}

/// The realistic cases of all operators and chains.
#[must_use]
pub fn realistic() -> Vec<Case> {
    all().flat_map(|cases| (cases.realistic)()).collect()
}
