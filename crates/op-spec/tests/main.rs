//! The tests of specifications and graphs, as one program.

mod chain;
mod graph;
mod guide;
mod inputs;
mod layers;
mod paddings;
mod pool;
mod properties;
mod refusals;
