//! Fused convolution pipelines on the GPU.
