//! The library of convfuse's command line and of its tests.
//!
//! - [`bench`](mod@bench): times of models, beside the ceilings of the device.
//! - [`campaign`]: random cases, compared with the oracle, and reduced if they fail.
//! - [`compare`]: the oracle's cases, run on a device in every [`ExecutionMode`], against the oracle.
//! - [`Status`]: the program's exit status.

#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod bench;
pub mod campaign;
mod execution_mode;
mod status;

pub use execution_mode::{
    CaseFailure, DeviceCase, Executable, ExecutionMode, compare, named, rounded,
};
pub use status::{Status, told};
