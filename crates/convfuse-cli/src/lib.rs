//! What stands behind the command line of convfuse, and behind its tests.
//!
//! - [`bench`](mod@bench): how fast models are, beside what the device could do.
//! - [`Way`]: the oracle's cases, run on a device in every way that the library has for them.

pub mod bench;
mod way;

pub use way::{Way, rounded};
