//! The product of filters and image.
//!
//! # Tiles
//! A block has 4 warps, and a tile of filters times pixels (`op_spec::launch::implicit_gemm`). Its
//! pixels are a box of the output, so that the vectors of the image which they touch are one, too:
//! the patch. A pixel has its base in the patch, a tap its offset, and their sum is the address
//! of the vector that the tap of that pixel multiplies, whatever stride, dilation and filter are.
//! `ldmatrix` takes such an address from each lane.
//!
//! A block keeps its filters and takes one tile of pixels after another. While it multiplies one stage,
//! the patch of the next, be it the next tile's, is on its way. Filters come from global memory as
//! they are needed, already in the order of registers, a step ahead; all warps of a block read the
//! same ones again and again, so they stay in cache.
//!
//! # Barriers
//! All threads reach all barriers. One at the start of each stage: its patch is there then, and
//! the other buffer free. One in `results`, between writing and reading a tile's results; the next
//! stage's barrier stands between reading and writing them again.
//!
//! # Invariants
//! - A thread copies the vectors of the patch whose sources it wrote to the table itself.
//! - While a stage is multiplied, only the other buffer is written.
//! - Each step adds two vectors to the sums; where a stage has an odd number of them, the last one
//!   meets filters of 0. So does what a stage has beyond the last channel.

use cuda_std::global::Global;
use cuda_std::shared;
use cuda_std::{bf16, cp_async, f16, kernel, mma, thread, warp};
use op_spec::launch::WARP_THREADS;
use op_spec::launch::implicit_gemm::{
    BLOCK_THREADS, GemmGeometry, GemmMode, GemmTile, OPERAND_ROWS, OPERAND_WORDS, STEP_VECTORS,
    VECTOR_BYTES, VECTOR_WORDS,
};

use super::format::{Brain, Format, Half, Rounded, Split};
use super::patch::{Patch, Place};
use super::results::{Output, Results};
use crate::parts::index::div_rem;
use crate::parts::unroll::unroll;

/// A tile as a type.
pub(super) trait Shape {
    const TILE: GemmTile;
}

macro_rules! shape {
    ($($name:ident)*) => {$(
        pub(super) struct $name;
        impl Shape for $name {
            const TILE: GemmTile = op_spec::launch::implicit_gemm::$name;
        }
    )*};
}

/// The tiles, as types.
mod shapes {
    use super::{GemmTile, Shape};
    shape!(M64N128 M32N128 M16N256 M64N32 M16N64);
}

/// The most operands and groups of pixels that a warp of any tile has. What a tile does not use is
/// never touched, and so takes no registers.
pub(super) const MAX_OPERANDS: usize = 4;
pub(super) const MAX_PIXEL_GROUPS: usize = 8;

/// The sums of a lane, by operand and group of pixels; see `cuda_std::mma` for which they are.
pub(super) type Sums = [[[f32; 4]; MAX_PIXEL_GROUPS]; MAX_OPERANDS];

/// Operands of filters, by part.
type Filters = [[[u32; 4]; MAX_OPERANDS]; 2];

/// The filters of a block.
#[derive(Clone, Copy)]
pub(super) struct FilterSet {
    pub(super) group: u32,
    /// The tile of filters, in the group.
    pub(super) tile: u32,
}

/// Loads a step's operands for the filters of the thread's warp.
#[inline(always)]
unsafe fn load_filters<F: Format, S: Shape>(
    operands: Global<u32>,
    step: u32,
    first: u32,
) -> Filters {
    let parts = F::MODE.parts;
    let sets = S::TILE.filters() / OPERAND_ROWS;
    let lane = thread::thread_idx_x() % WARP_THREADS;
    let of_step = ((step * parts * sets + first) * OPERAND_WORDS + lane * 4) as usize;
    let mut filters: Filters = [[[0; 4]; MAX_OPERANDS]; 2];
    unroll!(2, |part| {
        if (part as u32) < parts {
            unroll!(4, |m| {
                if (m as u32) < S::TILE.operands {
                    let operand = part * sets as usize + m;
                    let at = of_step + operand * OPERAND_WORDS as usize;
                    filters[part][m] = operands.load_vec_readonly::<4>(at);
                }
            });
        }
    });
    filters
}

/// Adds the products of one step to the sums. `bases` are the addresses of the lane's pixels, for every
/// second group of pixels.
#[inline(always)]
unsafe fn multiply<F: Format, S: Shape>(
    sums: &mut Sums,
    filters: &Filters,
    bases: &[u32; MAX_PIXEL_GROUPS / 2],
    low_part: u32,
    patch: shared::SharedAddr,
) {
    let mut pixels = [[[0; 2]; MAX_PIXEL_GROUPS]; 2];
    unroll!(2, |part| {
        if (part as u32) < F::MODE.parts {
            unroll!(4, |pair| {
                if 2 * (pair as u32) < S::TILE.pixel_groups {
                    let at = patch.offset(bases[pair] + part as u32 * low_part);
                    let [a, b, c, d] = mma::ldmatrix_x4(at);
                    pixels[part][2 * pair] = [a, b];
                    pixels[part][2 * pair + 1] = [c, d];
                }
            });
        }
    });
    // Parts of filters and of pixels: high and high, high and low, low and high.
    unroll!(4, |product| {
        let (filter_part, pixel_part) = (product / 2, product % 2);
        if product < 3 && ((filter_part + pixel_part) as u32) < F::MODE.parts {
            unroll!(4, |m| {
                if (m as u32) < S::TILE.operands {
                    unroll!(8, |n| {
                        if (n as u32) < S::TILE.pixel_groups {
                            sums[m][n] = F::multiply_add(
                                sums[m][n],
                                filters[filter_part][m],
                                pixels[pixel_part][n],
                            );
                        }
                    });
                }
            });
        }
    });
}

/// Computes the block's tiles.
///
/// # Safety
/// As the kernels below.
#[inline(always)]
unsafe fn body<F: Format, S: Shape>(
    image: *const u32,
    image_unscales: *const f32,
    operands: *const u32,
    filter_unscales: *const f32,
    output: Output<F::Stored>,
    g: &GemmGeometry,
) {
    let parts = F::MODE.parts;
    let sets = g.filter_sets();
    let (first_item, set) = div_rem(thread::block_idx_x(), sets);
    let (item_step, _) = div_rem(thread::grid_dim_x(), sets);
    let (group, filter_tile) = div_rem(set, g.filter_tiles);
    let set = FilterSet {
        group,
        tile: filter_tile,
    };
    let items = g.items() as u32;

    let layout = g.layout(S::TILE, parts);
    let planes = g.conv.n as usize * (g.conv.groups * g.chunks * parts) as usize;
    let image_words = planes * g.plane_vectors() as usize * VECTOR_WORDS as usize;
    let patch = Patch {
        offsets: shared::dynamic(layout.offsets, g.stage_vectors() + 1),
        bases: shared::dynamic(layout.bases, S::TILE.pixels()),
        pixels: shared::dynamic(layout.pixels, S::TILE.pixels()),
        positions: shared::dynamic(layout.positions, S::TILE.pixels()),
        sources: shared::dynamic(layout.sources, g.patch_vectors()),
        windows: shared::dynamic(layout.windows, g.windows()),
        buffers: shared::dynamic(layout.patches, 2 * g.stage_bytes(parts) / 4),
        image: Global::new(image, image_words),
        group,
        g,
    };
    let mut item = first_item;
    let mut place = Place::of(item, g);
    patch.find_sources();
    patch.start::<F>(&place, 0, 0);
    cp_async::commit_group();
    patch.find_places::<F, S>();

    let lane = thread::thread_idx_x() % WARP_THREADS;
    let (warp, _) = warp::warp_shuffle_idx(u32::MAX, thread::thread_idx_x() / WARP_THREADS, 0, 32);
    let (pixel_warp, filter_warp) = (warp % S::TILE.pixel_warps(), warp / S::TILE.pixel_warps());
    let results = Results::<F, S> {
        pixels: patch.pixels,
        positions: patch.positions,
        windows: patch.windows,
        channels: shared::dynamic(layout.channels, S::TILE.filters() * VECTOR_WORDS),
        moments: shared::dynamic(layout.moments, (layout.results - layout.moments) / 4),
        tile: shared::dynamic(layout.results, Results::<F, S>::TILE_WORDS),
        set,
        output: &output,
        g,
        filter_warp,
        pixel_warp,
        format: core::marker::PhantomData,
    };
    results.load_channels(Global::new(
        filter_unscales,
        g.conv.output_channels() as usize,
    ));

    let words = g.filter_words(S::TILE, parts) as usize;
    let all_steps = g.stages * g.steps;
    let tile_words =
        (all_steps * parts * (S::TILE.filters() / OPERAND_ROWS) * OPERAND_WORDS) as usize;
    let operands = Global::new(operands, g.conv.groups as usize * words).slice(
        group as usize * words + filter_tile as usize * tile_words,
        tile_words,
    );
    let image_unscales = Global::new(image_unscales, g.conv.n as usize);
    let first_operand = filter_warp * S::TILE.operands;
    let mut step = 0;
    let mut filters = load_filters::<F, S>(operands, 0, first_operand);

    // Lanes 0 to 7 give the pixels of the first vector, 8 to 15 the same ones of the second, the others
    // those of the next group of pixels.
    let first_pixel = pixel_warp * S::TILE.warp_pixels() + lane / 16 * 8 + lane % 8;
    let second = lane / 8 % 2;
    let low_part = g.patch_vectors() * VECTOR_BYTES;
    let mut bases = [0; MAX_PIXEL_GROUPS / 2];
    thread::sync_threads();
    unroll!(4, |pair| {
        if 2 * (pair as u32) < S::TILE.pixel_groups {
            bases[pair] = patch.bases.load(first_pixel + 16 * pair as u32);
        }
    });

    let mut buffer = 0;
    loop {
        let image_unscale = if F::MODE.scaled {
            image_unscales.load_readonly(place.sample as usize)
        } else {
            1.0
        };
        item += item_step;
        let following = Place::of(item.min(items - 1), g);
        let mut sums: Sums = [[[0.0; 4]; MAX_PIXEL_GROUPS]; MAX_OPERANDS];
        let mut stage = 0;
        while stage < g.stages {
            cp_async::wait_all();
            thread::sync_threads();
            if stage + 1 < g.stages {
                patch.start::<F>(&place, stage + 1, 1 - buffer);
            } else if item < items {
                patch.start::<F>(&following, 0, 1 - buffer);
            }
            let at = patch.buffers.addr(buffer * (g.stage_bytes(parts) / 4));
            // Two steps at a time, so that the operands of one can be loaded while the other's are used.
            let mut vector = second;
            let mut left = g.steps;
            while left >= 2 {
                let others = load_filters::<F, S>(operands, step + 1, first_operand);
                let offset = patch.offsets.load(vector);
                multiply::<F, S>(&mut sums, &filters, &bases, low_part, at.offset(offset));
                step = if step + 2 < all_steps { step + 2 } else { 0 };
                filters = load_filters::<F, S>(operands, step, first_operand);
                let offset = patch.offsets.load(vector + STEP_VECTORS);
                multiply::<F, S>(&mut sums, &others, &bases, low_part, at.offset(offset));
                vector += 2 * STEP_VECTORS;
                left -= 2;
            }
            if left > 0 {
                let offset = patch.offsets.load(vector);
                multiply::<F, S>(&mut sums, &filters, &bases, low_part, at.offset(offset));
                step = if step + 1 < all_steps { step + 1 } else { 0 };
                filters = load_filters::<F, S>(operands, step, first_operand);
            }
            buffer = 1 - buffer;
            stage += 1;
        }
        results.finish(&mut sums, &place, image_unscale);
        if item >= items {
            break;
        }
        place = following;
    }
}

/// Blocks that a multiprocessor should hold: what the tile says, but for the larger tiles of split
/// values on Ampere and Ada, where the assembler does not fit them into so few registers.
const fn min_blocks(tile: GemmTile, mode: GemmMode) -> u32 {
    let roomy = cfg!(cuda_arch = "sm_90a") || mode.parts == 1 || tile.operands == 1;
    tile.blocks_per_processor() - !roomy as u32
}

macro_rules! product_kernel {
    ($name:ident, $format:ident, $T:ident, $shape:ident) => {
        #[doc = concat!("A block computes `", stringify!($shape), "` tiles of filters times pixels, the")]
        /// moments of each filter over those pixels, and writes them or their pooled extrema.
        ///
        /// *Launch*: the plan's `shape(..)`. *Mapping*, *barriers*: at the head of the module.
        /// *Traffic*: each vector of the image about once for each tile of filters, the filters once a
        /// block (from cache), the output once.
        ///
        /// # Safety
        /// `image` and `image_unscales` are what the image kernel of the same plan wrote, `operands` and
        /// `filter_unscales` what the filters kernel did; `bias`, `norm_weight` and `scale` are null or
        /// have an element for each output channel; `y` has an element for each output, or, with
        /// pooling, for each window; `moments` has the geometry's `moment_elements()`. `y` and `moments`
        /// are apart from all else and start on 16 bytes.
        #[kernel(max_threads = BLOCK_THREADS, min_blocks = min_blocks(shapes::$shape::TILE, $format::MODE))]
        pub unsafe fn $name(
            image: *const u32,
            image_unscales: *const f32,
            operands: *const u32,
            filter_unscales: *const f32,
            bias: *const $T,
            norm_weight: *const $T,
            scale: *const $T,
            y: *mut $T,
            moments: *mut f32,
            geometry: GemmGeometry,
        ) {
            let output = Output {
                bias,
                norm_weight,
                scale,
                y,
                moments,
            };
            body::<$format, shapes::$shape>(
                image,
                image_unscales,
                operands,
                filter_unscales,
                output,
                &geometry,
            );
        }
    };
}

product_kernel!(implicit_gemm_m64n128_split_f32, Split, f32, M64N128);
product_kernel!(implicit_gemm_m64n128_rounded_f32, Rounded, f32, M64N128);
product_kernel!(implicit_gemm_m64n128_f16, Half, f16, M64N128);
product_kernel!(implicit_gemm_m64n128_bf16, Brain, bf16, M64N128);
product_kernel!(implicit_gemm_m32n128_split_f32, Split, f32, M32N128);
product_kernel!(implicit_gemm_m32n128_rounded_f32, Rounded, f32, M32N128);
product_kernel!(implicit_gemm_m32n128_f16, Half, f16, M32N128);
product_kernel!(implicit_gemm_m32n128_bf16, Brain, bf16, M32N128);
product_kernel!(implicit_gemm_m16n256_split_f32, Split, f32, M16N256);
product_kernel!(implicit_gemm_m16n256_rounded_f32, Rounded, f32, M16N256);
product_kernel!(implicit_gemm_m16n256_f16, Half, f16, M16N256);
product_kernel!(implicit_gemm_m16n256_bf16, Brain, bf16, M16N256);
product_kernel!(implicit_gemm_m64n32_split_f32, Split, f32, M64N32);
product_kernel!(implicit_gemm_m64n32_rounded_f32, Rounded, f32, M64N32);
product_kernel!(implicit_gemm_m64n32_f16, Half, f16, M64N32);
product_kernel!(implicit_gemm_m64n32_bf16, Brain, bf16, M64N32);
product_kernel!(implicit_gemm_m16n64_split_f32, Split, f32, M16N64);
product_kernel!(implicit_gemm_m16n64_rounded_f32, Rounded, f32, M16N64);
product_kernel!(implicit_gemm_m16n64_f16, Half, f16, M16N64);
product_kernel!(implicit_gemm_m16n64_bf16, Brain, bf16, M16N64);
