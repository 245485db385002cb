//! Any convolution as a matrix product on tensor cores, with what a norm and a pool want of it.
//!
//! # Idea
//! The matrix of columns is never written: the operands of the tensor cores are K-vectors of eight
//! 16-bit values, and a K-vector of the padded input, laid out right, is a staged tile of a column for
//! every window that it is in. Only where it is differs, and that is an addition to an address.
//!
//! ```text
//! reformat      reformatted = padded input * 512, f16 (and what that leaves), in K-vectors   # 16-bit types: as stored
//!           largest magnitude of each sample; `rescale`: those again that 512 does not suit
//! filters   operands = filters * 2^e, f16 (and what that leaves)                 # once for a model
//! product   a block has a tile of filters; for each of its tiles of pixels:
//!               sums = 0
//!               for each K block of channels:                                      # in one of two buffers
//!                   wait for the halo tile: the K-vectors of `reformatted` that the tile touches; barrier
//!                   start to copy the next K block's, be it the next tile's        # (`halo`)
//!                   for each step, two K-vectors of the reduction:                 # (`warps`, `warpgroup`)
//!                       sums[filter][pixel] += operands[step] * halo tile[base[pixel] + offset[step]]
//!               value = sums * descale + bias                                    # (`results`)
//!               without a norm: y = epilogue(value); that again which is NaN         # (`fixup`)
//!               moments of each filter over the tile's pixels
//!               without a pool: y = value
//!               with one: y = of each window the value that pooling would take after the norm, the
//!                         largest, or, where norm and scale reverse the order, the smallest
//! combine   moments of each row of the norm, from those of its tiles, always in the same order
//! ```
//! What follows is `group_norm_scale_pointwise` where outputs were pooled, or where there is no maximum, else
//! `group_norm_scale_max_pool2d_clamp` or `instance_norm_clamp_multiply_channel_max`.
//!
//! How reformatted input and tiles are laid out: `launch_config::implicit_gemm`.
//!
//! # Precision
//! | symbols | products |
//! |---|---|
//! | `.._f16x2_f32` | f16 high and low parts, three products of 22 bits in all |
//! | `.._scaled_f16_f32` | one product of f16, as accurate as tf32 |
//! | `.._bf16x3_f32` | three bf16, which are all bits, six products, each a pass; where no norm follows |
//! | `.._f16`, `.._bf16` | as stored, exact |
//!
//! Sums are f32. Tensor cores truncate them, so those of split values are promoted now and then (`warps`,
//! `warpgroup`). A value that is not finite makes all results of its sample and group not finite, or NaN: a
//! norm follows, and there they all become NaN in any case. Where none follows, what comes out as NaN is
//! computed again from its own window (`fixup`).
//!
//! # Layers
//! The modules, from the bottom up; each imports only from lines before its own, which a test checks.
//! 1. `format`, `tile`: how values become operands; tiles as types, and their sums
//! 2. `reformat`, `combine`: the kernels before the product, on the input, and after it
//! 3. `place`, `tables`: what a block computes; by what it finds K blocks, K-vectors, pixels and windows
//! 4. `filters`, `halo`, `fixup`: the kernel before it, on the filters; what a block multiplies; what it
//!    computes again
//! 5. `results`: what becomes of the sums
//! 6. `multiplier`: what a way to multiply has to do
//! 7. `warps`, `warpgroup`: the two ways
//! 8. `product`, `sm90`: the kernels that all of these are for

mod combine;
mod filters;
mod fixup;
mod format;
mod halo;
mod multiplier;
mod place;
mod product;
mod reformat;
mod results;
#[cfg(hopper)]
mod sm90;
mod tables;
mod tile;
#[cfg(hopper)]
mod warpgroup;
mod warps;

pub use combine::*;
pub use filters::*;
pub use product::*;
pub use reformat::*;
#[cfg(hopper)]
pub use sm90::*;
