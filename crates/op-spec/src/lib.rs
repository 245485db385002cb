//! Validated operator specifications.
#![no_std]
