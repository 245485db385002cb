//! The tests of launch configurations, as one program.

mod channels_last;
mod implicit_gemm;
mod launch;
mod split_k;
mod warp_specialized_choice;
mod warp_specialized_tiles;
mod without_norm;
