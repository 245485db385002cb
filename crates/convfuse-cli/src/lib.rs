//! What stands behind the command line of convfuse, and behind its tests.
//!
//! - [`bench`](mod@bench): how fast models are, beside what the device could do.
//! - [`compare`]: the oracle's cases, run on a device in every [`Way`] that the library has for them, against the oracle.

pub mod bench;
mod way;

pub use way::{Way, compare, named, rounded};
