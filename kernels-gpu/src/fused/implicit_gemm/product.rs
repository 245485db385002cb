//! The mainloop of tiles whose filters are in registers: `mma.sync`, or `wgmma` with A in registers.
//!
//! # Tiles
//! A block has 4 warps and a tile of filters times pixels (`launch_config::implicit_gemm`). The pixels are a
//! box of the output, so the K-vectors that they touch are a box as well: the halo tile. A pixel has a base
//! in the halo tile, a tap has an offset, and their sum is the address of the K-vector that the tap of that
//! pixel multiplies, for any stride, dilation and filter. A [`Multiplier`] multiplies a K block, warp by warp
//! (`sm80::warps`) or as a warpgroup (`sm90::warpgroup`).
//!
//! A block keeps its filters and takes one tile of pixels after another. The halo tile is double buffered:
//! While the block multiplies one K block, it loads the halo tile of the next K block, of this tile or the
//! next. Filters come from global memory in the order of registers, one step ahead. All warps of a block read
//! the same filters, so filters stay in cache.
//!
//! # Barriers
//! All threads reach all barriers. After the barrier at the start of a K block, its halo tile has arrived and
//! the other buffer is free. A barrier in `results` separates writing a tile's results from reading them. The
//! next K block's barrier separates reading them from the next writes. The same barriers separate writing the
//! description of the next tile, reading it, and writing it again.
//!
//! # Invariants
//! - A thread copies exactly the K-vectors whose sources it wrote to the table itself.
//! - While a K block is multiplied, only the other buffer is written.
//! - Each step adds two K-vectors to the accumulators. If a K block has an odd number of K-vectors, the last
//!   step's second K-vector meets filters of 0, as does everything beyond the last channel.

use core::ptr;

use cuda_std::global::Global;
use cuda_std::shared;
use cuda_std::{cp_async, kernel, opaque, thread};
use launch_config::WARP_THREADS;
use launch_config::conv::ConvGeometry;
use launch_config::implicit_gemm::{
    BLOCK_THREADS, Epilogue, GemmTile, ImplicitGemmGeometry, K_VECTOR_WORDS, OPERAND_ROWS,
    OPERAND_WORDS, OperandFormat, TILE_WORDS, sm80,
};
use launch_config::pointwise::OperandList;

use super::fixup::WithoutNorm;
use super::format::{Bf16, Bf16x3, F16, F16x2, Format, ScaledF16};
use super::halo::Halo;
use super::multiplier::Multiplier;
use super::results::{Output, Results};
use super::sm80::warps::Warps;
#[cfg(hopper)]
use super::sm90::warpgroup::Warpgroup;
use super::tables::Tables;
#[cfg(hopper)]
use super::tile::W64N128;
use super::tile::{M16N64, M16N256, M32N128, M64N32, M64N128, NO_SUMS, TileShape};
use super::tile_coord::{FilterSet, TileCoord, load_tile};
use crate::parts::index::div_rem;
use crate::parts::store::{GainAndShift, StoreEpilogue};

/// A tile with its MMA implementation.
pub(super) trait Multiplied: TileShape + Sized {
    type Multiplier<F: Format>: Multiplier<F, Self>;
}

macro_rules! multiplied {
    ($($tile:ident by $multiplier:ident,)*) => {$(
        impl Multiplied for $tile {
            type Multiplier<F: Format> = $multiplier;
        }
    )*};
}

multiplied!(
    M64N128 by Warps,
    M32N128 by Warps,
    M16N256 by Warps,
    M64N32 by Warps,
    M16N64 by Warps,
);
#[cfg(hopper)]
multiplied!(W64N128 by Warpgroup,);

/// Returns the number of pixel tiles of all samples, recomputed at each call.
#[inline(always)]
fn work_tiles_here(g: &ImplicitGemmGeometry) -> u32 {
    let tiles = opaque::to_compiler(g.tiles_d) * g.tiles_h * g.tiles_w;
    g.conv.n as u32 * tiles
}

/// Returns the geometry, with the numbers that the epilogue uses opaque to the compiler.
#[inline(always)]
fn geometry_here(g: &ImplicitGemmGeometry) -> ImplicitGemmGeometry {
    ImplicitGemmGeometry {
        conv: ConvGeometry {
            group_k: opaque::to_compiler(g.conv.group_k),
            groups: opaque::to_compiler(g.conv.groups),
            z: opaque::to_compiler(g.conv.z),
            p: opaque::to_compiler(g.conv.p),
            q: opaque::to_compiler(g.conv.q),
            ..g.conv
        },
        tile_d: opaque::to_compiler(g.tile_d),
        tile_h: opaque::to_compiler(g.tile_h),
        tile_w: opaque::to_compiler(g.tile_w),
        tile_pitch: opaque::to_compiler(g.tile_pitch),
        tiles_d: opaque::to_compiler(g.tiles_d),
        tiles_h: opaque::to_compiler(g.tiles_h),
        tiles_w: opaque::to_compiler(g.tiles_w),
        halo_k_vectors: opaque::to_compiler(g.halo_k_vectors),
        offsets: opaque::to_compiler(g.offsets),
        windows_h: opaque::to_compiler(g.windows_h),
        windows_w: opaque::to_compiler(g.windows_w),
        pooled_h: opaque::to_compiler(g.pooled_h),
        pooled_w: opaque::to_compiler(g.pooled_w),
        ..*g
    }
}

/// Returns the minimum of resident blocks per multiprocessor: the tile's number, or one less for the larger
/// tiles of split values on Ampere and Ada. The assembler cannot fit these into so few registers.
const fn min_blocks(tile: GemmTile, format: OperandFormat) -> u32 {
    let parts = format.step_parts();
    let roomy = cfg!(hopper) || parts == 1 || tile.operands == 1;
    tile.blocks_per_processor(parts) - !roomy as u32
}

/// A block computes tiles of filters times pixels, and the moments of each filter over a tile's pixels. It
/// writes the results, or their pooled extrema.
///
/// *Launch*: the config's `shape(..)`. *Mapping*, *barriers*: at the head of the module.
/// *Traffic*: each K-vector of the reformatted input about once for each tile of filters, the filters once a
/// block (from cache), the output once.
///
/// # Safety
/// `reformatted` and `input_descales` were written by the reformat kernels of the same config, `operands` and
/// `filter_descales` by the filters kernel; `bias`, `norm_weight` and `scale` are null or have an element for
/// each output channel; `y` has an element for each output, or, with pooling, for each window; `moments` has
/// the config's `moment_elements()`. Without a norm, `x` and `weight` are the original input and filters;
/// `gain` and `shift` have an element for each output channel if the epilogue uses them, `gain_behind` and
/// `shift_behind` if the list does; the list has no residual. With a norm, none of these is accessed. `y` and
/// `moments` overlap nothing else and are 16-byte aligned.
#[kernel(
    instances(
        S: [
            m64n128: M64N128,
            m32n128: M32N128,
            m16n256: M16N256,
            m64n32: M64N32,
            m16n64: M16N64,
            #[cfg(hopper)]
            w64n128: W64N128,
        ],
        F: [f16x2_f32: F16x2, scaled_f16_f32: ScaledF16, f16: F16, bf16: Bf16]
    ),
    instances(S: [m32n128: M32N128], F: [bf16x3_f32: Bf16x3]),
    max_threads = BLOCK_THREADS,
    min_blocks = min_blocks(S::TILE, F::OPERANDS)
)]
pub unsafe fn implicit_gemm<S: Multiplied, F: Format>(
    reformatted: *const u32,
    input_descales: *const f32,
    operands: *const u32,
    filter_descales: *const f32,
    bias: *const F::Stored,
    norm_weight: *const F::Stored,
    scale: *const F::Stored,
    x: *const F::Stored,
    weight: *const F::Stored,
    gain: *const f32,
    shift: *const f32,
    gain_behind: *const f32,
    shift_behind: *const f32,
    y: *mut F::Stored,
    moments: *mut f32,
    g: &ImplicitGemmGeometry,
    epilogue: Epilogue,
    list: &OperandList,
) {
    let output = Output {
        bias,
        norm_weight,
        scale,
        y,
        moments,
        without_norm: WithoutNorm {
            x,
            weight,
            store: StoreEpilogue {
                of_channels: GainAndShift { gain, shift },
                epilogue,
            },
            list,
            residual: ptr::null(),
            behind: GainAndShift {
                gain: gain_behind,
                shift: shift_behind,
            },
            rounded: None,
        },
    };
    let (parts, step_parts) = (F::OPERANDS.parts, F::OPERANDS.step_parts());
    let sets = g.filter_sets();
    let (first_work_tile, set) = div_rem(thread::block_idx_x(), sets);
    let (work_tile_step, _) = div_rem(thread::grid_dim_x(), sets);
    let (group, filter_tile) = div_rem(set, g.filter_tiles);

    let layout = g.layout(S::TILE, parts);
    let planes = g.conv.n as usize * (g.conv.groups * g.planes * parts) as usize;
    let reformatted_words = planes * g.plane_k_vectors() as usize * K_VECTOR_WORDS as usize;
    let tables = Tables::of::<S>(&layout, g);
    let halo = Halo {
        tables,
        buffers: shared::dynamic(layout.halos, sm80::STAGES * g.k_block_bytes(parts) / 4),
        reformatted: Global::new(reformatted, reformatted_words),
        group,
    };
    let tiles = shared::dynamic(layout.tiles, 2 * TILE_WORDS);
    let mut work_tile = first_work_tile;
    let place = TileCoord::of(work_tile, g);
    let filters = FilterSet::of::<S>(group, filter_tile, g);
    if thread::thread_idx_x() == 0 {
        place.store(tiles, 0);
        filters.store(tiles);
    }
    tables.find_sources::<S>();
    halo.start::<F>(&place, 0, 0);
    cp_async::commit_group();
    tables.find_coords::<F, S>();

    let results_of = |warp: u32, thread: u32, g: ImplicitGemmGeometry| {
        let layout = g.layout(S::TILE, parts);
        Results::<F, S> {
            thread,
            pixels: shared::dynamic(layout.pixels, S::TILE.pixels()),
            positions: shared::dynamic(layout.positions, S::TILE.pixels()),
            windows: shared::dynamic(layout.windows, g.windows()),
            channels: shared::dynamic(layout.channels, S::TILE.filters() * K_VECTOR_WORDS),
            moments: shared::dynamic(layout.moments, (layout.results - layout.moments) / 4),
            tile: shared::dynamic(layout.results, Results::<F, S>::TILE_WORDS),
            output: &output,
            g,
            filter_warp: warp / S::TILE.pixel_warps(),
            pixel_warp: warp % S::TILE.pixel_warps(),
            format: core::marker::PhantomData,
        }
    };
    let thread = thread::thread_idx_x();
    let warp = opaque::uniform(thread / WARP_THREADS);
    let results = results_of(warp, thread, *g);
    let all_channels = g.conv.output_channels() as usize;
    results.load_channels(&filters, Global::new(filter_descales, all_channels));

    let words = g.filter_words(S::TILE, step_parts) as usize;
    let all_mma_steps = g.k_blocks * g.mma_steps;
    let tile_words =
        (all_mma_steps * step_parts * (S::TILE.filters() / OPERAND_ROWS) * OPERAND_WORDS) as usize;
    let operands = Global::new(operands, g.conv.groups as usize * words).slice(
        group as usize * words + filter_tile as usize * tile_words,
        tile_words,
    );
    let input_descales = Global::new(input_descales, g.conv.n as usize);
    thread::sync_threads();
    let mut multiplier = S::Multiplier::<F>::new(operands, &halo, &results);

    let (mut buffer, mut entry) = (0, 0);
    loop {
        work_tile += work_tile_step;
        let another = work_tile < work_tiles_here(g);
        let mut sums = NO_SUMS;
        let mut k_block = 0;
        while k_block < g.k_blocks {
            cp_async::wait_all();
            S::Multiplier::<F>::show_halo();
            thread::sync_threads();
            if k_block + 1 < g.k_blocks {
                let (place, _) = load_tile(tiles, entry);
                halo.start::<F>(&place, k_block + 1, 1 - buffer);
            } else if another {
                let following = TileCoord::of(work_tile, g);
                if thread::thread_idx_x() == 0 {
                    following.store(tiles, 1 - entry);
                }
                halo.start::<F>(&following, 0, 1 - buffer);
            }
            multiplier.multiply_k_block(&mut sums, &halo, &results, buffer);
            buffer = 1 - buffer;
            k_block += 1;
        }
        // Recomputed here; values derived from it earlier would take registers during the mainloop.
        let thread = opaque::to_compiler(thread::thread_idx_x());
        let results = results_of(thread / WARP_THREADS, thread, geometry_here(g));
        multiplier.end(&mut sums, &results);
        results.finish(&mut sums, tiles, entry, input_descales);
        if !another {
            break;
        }
        entry = 1 - entry;
    }
}
