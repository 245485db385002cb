//! `conv1d`, `conv2d` and `conv3d`.
//!
//! Two algorithms. `direct` needs no workspace. `im2col` and `gemm` together turn the convolution into a
//! matrix product, which reuses each value more often, at the price of writing and reading the column matrix.
//! `pad` is for what neither reads by itself: anything but zeros on both sides alike.

mod direct;
mod gemm;
mod im2col;
mod pad;
mod window;

pub use direct::*;
pub use gemm::*;
pub use im2col::*;
pub use pad::*;
