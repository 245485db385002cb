//! Compiles a kernel crate to PTX.
