use crate::case::Case;
use crate::cases::Cases;
use crate::{chains, operators};

/// Everything with cases: the operators, then the chains.
pub fn all() -> impl Iterator<Item = &'static Cases> {
    operators::all().chain(chains::CASES)
}

/// One plain case of each.
#[must_use]
pub fn smoke() -> Vec<Case> {
    all().flat_map(|cases| (cases.smoke)()).collect()
}

/// The awkward cases of all.
#[must_use]
pub fn ragged() -> Vec<Case> {
    all().flat_map(|cases| (cases.ragged)()).collect()
}

/// The realistic cases of all.
#[must_use]
pub fn realistic() -> Vec<Case> {
    all().flat_map(|cases| (cases.realistic)()).collect()
}
