//! The demo and command line of convfuse.
fn main() {}
