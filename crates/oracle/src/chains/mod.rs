//! The cases of whole chains.

use crate::Cases;

mod kernelbench_79;
mod kernelbench_85;

/// The cases of all chains.
pub(crate) const CASES: &[Cases] = &[kernelbench_85::CASES, kernelbench_79::CASES];
