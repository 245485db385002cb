//! The GPU kernels of convfuse.
#![no_std]
