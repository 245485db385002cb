//! The tests of specifications, chains and launches, as one program.

mod chain;
mod implicit_gemm;
mod inputs;
mod launch;
mod layers;
mod paddings;
mod pool;
mod properties;
mod refusals;
mod split_sums;
mod unpacked;
mod wide_choice;
mod wide_tiles;
