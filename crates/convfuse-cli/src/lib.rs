//! The library of convfuse's command line and of its tests.
//!
//! - [`bench`](mod@bench): how fast models are, beside what the device could do.
//! - [`campaign`]: random cases without end, judged by the oracle, and made smaller where they fail.
//! - [`compare`]: the oracle's cases, run on a device in every [`ExecutionMode`], against the oracle.
//! - [`Status`]: what the program's exit status says.

#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod bench;
pub mod campaign;
mod execution_mode;
mod status;

pub use execution_mode::{
    CaseFailure, DeviceCase, Executable, ExecutionMode, compare, named, rounded,
};
pub use status::{Status, told};
