//! Fused convolution pipelines on the GPU.

pub mod data;
pub mod reference;
pub mod weights;
