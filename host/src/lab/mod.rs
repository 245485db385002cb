//! Runs the [`oracle`]'s cases on a device, in every way that the library has for them. For the tests and the command
//! line, with which it leaves the library.

mod bridge;
mod way;

pub use bridge::{case_79, case_85};
pub(crate) use bridge::{cpu_79, cpu_85};
pub use way::{Way, rounded};
