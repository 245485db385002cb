//! Building blocks of operators and fusions.

pub(crate) mod batch_norm;
pub(crate) mod channel_reduce;
pub(crate) mod channels;
mod coarse;
pub(crate) mod elementwise;
pub(crate) mod exponential;
pub(crate) mod extrema;
pub(crate) mod index;
pub(crate) mod lanes;
pub(crate) mod map;
pub(crate) mod moments;
pub(crate) mod nhwc;
pub(crate) mod pair;
#[cfg(hopper)]
pub(crate) mod pipeline;
pub(crate) mod planes;
pub(crate) mod pointwise;
pub(crate) mod pool;
pub(crate) mod prescale;
pub(crate) mod reduction_operations;
pub(crate) mod series;
pub(crate) mod store;
pub(crate) mod unroll;
