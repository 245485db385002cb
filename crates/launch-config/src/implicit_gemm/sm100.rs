//! Blackwell has no kernels yet. It runs those of `sm_80`, so it has their tiles, conditions and costs. Only
//! the rates are its own.

pub(crate) use super::sm80::{COSTS, TILES, suits};

/// Multiply-adds per cycle of compute capability 10 and above, by its major number.
pub(crate) const fn rate(major: u32) -> u32 {
    match major {
        10 => 4096,
        _ => 512,
    }
}
