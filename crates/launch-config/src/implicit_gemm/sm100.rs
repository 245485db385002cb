//! Blackwell has no kernels yet. It runs those of `sm_80`, so it has their tiles, conditions and costs. Only
//! the rates are its own.

pub(crate) use super::sm80::{COSTS, TILES, suits};

use crate::TensorRates;

/// The rates of a B200.
pub(crate) const USUAL_RATES: TensorRates = TensorRates::of_f16(4096);

/// The rates of compute capability 10 and above, by its major number.
pub(crate) const fn rates(major: u32) -> Option<TensorRates> {
    match major {
        10 => Some(USUAL_RATES),
        12 => Some(TensorRates::of_f16(512)),
        _ => None,
    }
}
