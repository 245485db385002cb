//! Validated operator specifications.
#![no_std]

pub mod launch;
