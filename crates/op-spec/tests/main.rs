//! The tests of specifications, chains and launches, as one program.

mod chain;
mod channels_last;
mod implicit_gemm;
mod inputs;
mod launch;
mod layers;
mod paddings;
mod pool;
mod properties;
mod refusals;
mod split_k;
mod warp_specialized_choice;
mod warp_specialized_tiles;
