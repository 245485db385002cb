//! The library of convfuse's command line and of its tests.
//!
//! - [`bench`](mod@bench): timings of models, compared with the measured ceilings of the device.
//! - [`campaign`]: random cases, compared with the oracle. A failing case is reduced.
//! - [`compare`]: runs a case in every [`ExecutionMode`] of a device and compares the outputs with the
//!   oracle.
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
