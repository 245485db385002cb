//! Kernels that run one unit of the device as fast as it goes: memory, FMA units, tensor cores.
//!
//! Benchmarks time them to measure the peak rates of the device. The kernels load as little as possible and
//! keep enough independent instruction chains in flight to hide the latency of each.

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
