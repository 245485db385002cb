//! Tests that the kernels' checks detect planted bugs. See `tests/caught.rs`.
