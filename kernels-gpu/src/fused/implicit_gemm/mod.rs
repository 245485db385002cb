//! Any convolution as an implicit GEMM on tensor cores, with moments for a norm and pooled results.
//!
//! # Idea
//! The im2col matrix is never written. Tensor core operands are rows of eight 16-bit values, and a K-vector
//! of the reformatted input is such a row for every window that contains it. From window to window only its
//! address differs, by an addition.
//!
//! ```text
//! reformat  reformatted = padded input * 512, f16 (and the rounding error), in K-vectors # 16-bit: as stored
//!           largest magnitude of each sample; `rescale`: reformats samples again that 512 does not suit
//! filters   operands = filters * 2^e, f16 (and the rounding error)               # once for a model
//! product   a block has a tile of filters; for each of its tiles of pixels:
//!               sums = 0
//!               for each K block of channels:                                      # in one of two stages
//!                   wait for the halo tile: the K-vectors of `reformatted` that the tile touches; barrier
//!                   start to copy the next K block's, or the next tile's           # (`halo`)
//!                   for each step, two K-vectors of the reduction:       # (`sm80::warps`, `sm90::warpgroup`)
//!                       sums[filter][pixel] += operands[step] * halo tile[base[pixel] + offset[step]]
//!               value = sums * descale + bias                                    # (`results`)
//!               without a norm: y = epilogue(value); recompute results that are NaN  # (`fixup`)
//!               moments of each filter over the tile's pixels
//!               without a pool: y = value
//!               with one: y = for each window the value that pooling would take after the norm: the
//!                         largest, or, where norm and scale reverse the order, the smallest
//! combine   moments of each row of the norm, from those of its tiles, in a fixed order
//! ```
//! The next kernel is `group_norm_scale_pointwise` if outputs were pooled or no maximum follows. Otherwise it
//! is `group_norm_scale_max_pool2d_clamp` or `instance_norm_clamp_multiply_channel_reduction`.
//!
//! `launch_config::implicit_gemm` has the layouts of the reformatted input and of tiles.
//!
//! # Precision
//! | symbols | products |
//! |---|---|
//! | `.._f16x2_f32` | f16 high and low parts, three products of 22 bits in all |
//! | `.._scaled_f16_f32` | one product of f16, as accurate as tf32 |
//! | `.._bf16x3_f32` | three bf16, which hold all bits, in six passes; for convolutions without a norm |
//! | `.._f16`, `.._bf16` | as stored, exact |
//!
//! Accumulators are f32. Tensor cores truncate them, so accumulators of split values are promoted
//! (`sm80::warps`, `sm90::warpgroup`). A value that is not finite may make all results of its sample and
//! group infinite or NaN; with a norm they become NaN anyway. Without a norm, results that are NaN are
//! recomputed from their own window (`fixup`).
//!
//! # Layers
//! The modules, from the bottom up. Each imports only from lines before its own (`cargo xtask layout`).
//! 1. `format`, `tile`: operand formats; tiles as types, and their accumulators
//! 2. `reformat`, `combine`: the kernels that reformat the input and combine moments
//! 3. `tile_coord`, `tables`: the tile of a block; tables of K blocks, K-vectors, pixels and windows
//! 4. `filters`, `halo`, `fixup`: the kernel on the filters; halo tiles; the NaN/Inf fix-up
//! 5. `results`: the epilogue
//! 6. `multiplier`: the interface of the mainloop's MMA
//! 7. `sm80`, `sm90`: the implementations of `multiplier` by `mma.sync` and `wgmma`; the kernels for Hopper
//! 8. `product`: the kernels for all architectures

mod combine;
mod filters;
mod fixup;
mod format;
mod halo;
mod multiplier;
mod product;
mod reformat;
mod results;
mod sm80 {
    pub(super) mod warps;
}
#[cfg(hopper)]
mod sm90;
mod tables;
mod tile;
mod tile_coord;

pub use combine::*;
pub use filters::*;
pub use product::*;
pub use reformat::*;
#[cfg(hopper)]
pub use sm90::*;
