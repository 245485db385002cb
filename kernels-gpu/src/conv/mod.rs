//! `conv1d`, `conv2d` and `conv3d`.
//!
//! Two algorithms. `direct` needs no workspace. `im2col` and `gemm` together turn the
//! convolution into a matrix product, which reuses each value more often, at the price of writing
//! and reading the column matrix. `border` is for what neither reads by itself: anything but zeros on both sides alike.

mod border;
mod direct;
mod gemm;
mod im2col;
mod window;

pub use border::*;
pub use direct::*;
pub use gemm::*;
pub use im2col::*;
