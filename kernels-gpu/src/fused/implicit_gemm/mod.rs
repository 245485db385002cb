//! Any convolution as a matrix product on tensor cores, with what a norm and a pool want of it.
//!
//! # Idea
//! The matrix of columns is never written: the operands of the tensor cores are vectors of eight
//! 16-bit values, and a vector of the padded input, laid out right, is a piece of a column for
//! every window that it is in. Only where it is differs, and that is an addition to an address.
//!
//! 1. `image`: the largest magnitude of each sample, then the padded input as such vectors. f32 is
//!    scaled by a power of two and rounded to one f16, or split in two.
//! 2. `filters`: the filters as operands, once for a model.
//! 3. `product`: a block brings the patch of the image that its pixels touch into shared memory and
//!    multiplies (`patch`). `results` then takes each channel's moments over the block's pixels, for the norm
//!    that follows, and writes the convolution, or of each window only the value that pooling would
//!    take after the norm: the largest, or, where norm and scale reverse the order, the smallest.
//! 4. `combine`: the moments of all blocks, always in the same order.
//!
//! How images and tiles are laid out: `op_spec::launch::implicit_gemm`.
//!
//! # Precision
//! | symbols | products |
//! |---|---|
//! | `.._split_f32` | f16 high and low parts, three products of 22 bits in all |
//! | `.._rounded_f32` | one product of f16, as accurate as tf32 |
//! | `.._f16`, `.._bf16` | as stored, exact |
//!
//! Sums are f32. Tensor cores truncate them, so those of split values are put aside now and then (`warps`,
//! `warpgroup`). A value that is not finite makes all results of its sample and group not finite, or
//! NaN: a norm follows, and there they all become NaN in any case.

mod aside;
mod combine;
mod filters;
mod format;
mod image;
mod patch;
mod product;
mod results;
#[cfg(hopper)]
mod warpgroup;
mod warps;
mod windows;

pub use combine::*;
pub use filters::*;
pub use image::*;
pub use product::*;
