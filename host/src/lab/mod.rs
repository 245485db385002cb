//! Runs the [`oracle`]'s cases on a device, in every way that the library has for them. For the tests and the command
//! line, with which it leaves the library.

mod way;

pub use way::{Way, rounded};
