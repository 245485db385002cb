//! Kernels that run one unit of the device as fast as it goes: memory, FMA units, tensor cores.
//!
//! Benchmarks time them to learn the ceilings of the device at hand. They load as little as they can and
//! keep several independent chains of instructions in flight, enough to hide the latency of each.

mod copy;
mod fma;
mod mma;
// Only Hopper has `wgmma`.
#[cfg(hopper)]
mod wgmma;

pub use copy::*;
pub use fma::*;
pub use mma::*;
#[cfg(hopper)]
pub use wgmma::*;
