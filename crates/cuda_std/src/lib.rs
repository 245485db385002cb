//! Device library for GPU kernels in Rust.
