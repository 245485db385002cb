//! The tests of specifications and chains, as one program.

mod chain;
mod guide;
mod inputs;
mod layers;
mod paddings;
mod pool;
mod properties;
mod refusals;
