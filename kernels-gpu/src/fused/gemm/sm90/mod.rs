//! A convolution from NHWC to NHWC as a matrix product (GEMM) on Hopper (sm_90a), with batch norm, function,
//! residual and clamp in its epilogue. Operands are f16, bf16, or f32 that are rounded to tf32.
//!
//! # Idea
//! The windows of all samples are the rows of A, filters the columns of B. Both have contiguous channels, as
//! tensor cores need them. Tensor maps therefore load tiles of the tensors themselves to shared memory, and
//! store tiles of the output from there; no thread computes an address. Elements outside of a tensor are
//! loaded as zeros and are not stored.
//!
//! K runs over the channels of a tap, then over the taps. In im2col mode, the tensor map loads one tap of a
//! tile's windows at a time, 128 bytes of its channels. The maps of f32 operands round to tf32. Windows of
//! one element that lie side by side are pixels; then the input is a matrix, and its map is of boxes.
//!
//! ```text
//! producers, one thread     if filters are resident: copy their boxes
//! for windows and one for   for each tile of the block, for each tap, for each 128 bytes of channels:
//! filters:                      wait until the stage is empty; copy its windows, or streamed filters
//! consumers, a warpgroup:   for each of its tiles:
//!                               if its filters have changed: bias, gain and shift of them, from the
//!                                   batch norm's statistics
//!                               for each 128 bytes of K: wait until the stage is full; start 4 wgmma steps;
//!                                   release the stage before, whose steps are over
//!                               wait until there is room for results, and the residual is there
//!                               y = function(round(gain * (sum + bias) + shift)) + residual, in its place,
//!                                   or a list of functions of it
//! writers, one thread       for each buffer of its warpgroup: start to copy the residual to it
//! for each warpgroup:       for each tile of its warpgroup:
//!                               wait until its results are there; store them; wait until they have been read
//!                               start to copy the residual of the buffer's next tile
//! ```
//! `launch_config::gemm` has the tiles and the map of shared memory.
//!
//! # Schedules
//! *Ping-pong*: each warpgroup has every second tile of the block, so that one runs its epilogue while the
//! other multiplies. Stages belong to one warpgroup for a whole tile. An order barrier of each warpgroup
//! delays its mainloop until the other one has finished its own, because a stage's barrier tells only the
//! parity of its phase. *Cooperative*: each warpgroup has half of a tile's pixels.
//!
//! # Results that are not finite
//! A window's values are multiplied by filter values, and zeros by zeros. A result is therefore infinite or
//! NaN only where it should be.

#[cfg(not(target_arch = "nvptx64"))]
mod boxes;
mod consume;
pub mod pad_channels;
mod produce;
mod results;
mod write;

#[cfg(not(target_arch = "nvptx64"))]
pub use boxes::{boxes_of_filters, boxes_of_output, map_of_input};

use core::ffi::c_void;

use cuda_std::mbarrier::Barrier;
use cuda_std::shared::{self, Shared, SharedAddr};
use cuda_std::tensor_map::TensorMap;
use cuda_std::wgmma::{self, InFlight, MatrixDescriptor};
use cuda_std::{async_proxy, bf16, f16, kernel, opaque, registers, thread};
use launch_config::batch_norm::FoldGeometry;
use launch_config::gemm::{
    BLOCK_THREADS, CHANNEL_VALUES, GemmGeometry, GemmLayout, LINE_BYTES, STAGE_STEPS, TILE_BYTES,
    WARPGROUP_WARPS, WARPGROUPS, WARPS,
};
use launch_config::implicit_gemm::{Epilogue, RoundedEpilogue};
use launch_config::pointwise::PointwiseList;
use launch_config::{AffineType, Presence, WARP_THREADS};

use crate::parts::batch_norm::Norm;
use crate::parts::index::div_rem;
use crate::parts::pipeline::Pipeline;
use crate::parts::store::{GainAndShift, Packed, StoreEpilogue};
use consume::consume;
use produce::{produce_filters, produce_windows};
use write::write;

/// Registers of a consumer thread and of a producer thread (`setmaxnreg`).
const CONSUMER_REGISTERS: u32 = 232;
const PRODUCER_REGISTERS: u32 = 40;

/// The thread that loads windows, which also initialises the barriers.
const PRODUCER: u32 = WARPS * WARP_THREADS;

/// The rows of an MMA.
const MMA_ROWS: u32 = 64;

/// The tile of a warpgroup.
pub(super) trait Tile {
    /// Pixels and filters.
    const EXTENTS: [u32; 2];

    /// Runs a consumer warpgroup, as [`consume()`].
    ///
    /// # Safety
    /// As for [`consume()`].
    unsafe fn consume<T: Multiply<32> + Multiply<64>>(
        memory: &Memory,
        output: &Output<'_, T>,
        warp: u32,
    );
}

macro_rules! tiles {
    ($($Tile:ident: $pixels:literal $filters:literal;)*) => {$(
        #[doc = concat!(stringify!($pixels), " pixels of ", stringify!($filters), " filters.")]
        pub(super) struct $Tile;
        impl Tile for $Tile {
            const EXTENTS: [u32; 2] = [$pixels, $filters];

            #[inline(always)]
            unsafe fn consume<T: Multiply<32> + Multiply<64>>(
                memory: &Memory,
                output: &Output<'_, T>,
                warp: u32,
            ) {
                consume::<T, { $filters / 2 }, { $pixels / MMA_ROWS as usize }>(memory, output, warp);
            }
        }
    )*};
}

tiles! {
    M64N64: 64 64;
    M64N128: 64 128;
    M128N64: 128 64;
    M128N128: 128 128;
}

/// An element type with MMAs of 64 rows and `2 * SUMS` columns.
pub(super) trait Multiply<const SUMS: usize>: Packed {
    /// Adds the products of a stage to sums that may be in flight.
    ///
    /// # Safety
    /// As for the functions of [`wgmma`].
    unsafe fn add(
        sums: InFlight<SUMS>,
        a: &[MatrixDescriptor; STAGE_STEPS as usize],
        b: &[MatrixDescriptor; STAGE_STEPS as usize],
    ) -> InFlight<SUMS>;

    /// Waits for all products, and returns the sums.
    ///
    /// # Safety
    /// All threads of the warpgroup make this call.
    unsafe fn wait(sums: InFlight<SUMS>) -> [f32; SUMS];
}

macro_rules! multiply {
    ($($T:ident $sums:literal $add:ident;)*) => {$(
        impl Multiply<$sums> for $T {
            #[inline(always)]
            unsafe fn add(
                sums: InFlight<$sums>,
                a: &[MatrixDescriptor; STAGE_STEPS as usize],
                b: &[MatrixDescriptor; STAGE_STEPS as usize],
            ) -> InFlight<$sums> {
                wgmma::$add(sums, a, b)
            }

            #[inline(always)]
            unsafe fn wait(sums: InFlight<$sums>) -> [f32; $sums] {
                sums.wait::<0>()
            }
        }
    )*};
}

multiply! {
    f16 32 add_shared_n64_f16_4;
    f16 64 add_shared_n128_f16_4;
    bf16 32 add_shared_n64_bf16_4;
    bf16 64 add_shared_n128_bf16_4;
    f32 32 add_shared_n64_tf32_4;
    f32 64 add_shared_n128_tf32_4;
}

/// The epilogue of sums.
#[derive(Clone, Copy)]
pub(super) struct Output<'a, T> {
    bias: *const T,
    norm: Norm,
    store: StoreEpilogue,
    rounded: RoundedEpilogue,
    /// Functions of rounded results, in place of `rounded`.
    list: &'a PointwiseList,
}

/// A block computes tiles of pixels times filters of `y`.
///
/// *Launch*: `launch_config::gemm::Gemm`'s shape. *Mapping*, *schedules*: at the head of the module.
/// *Barriers*: one of the block after the initialisation; `full` and `empty` of each stage and of each buffer
/// of results; for each warpgroup an order barrier, and a named barrier for its parameters of filters.
/// *Traffic*: pixels once for each tile of filters, filters once for each tile of pixels, both mostly from
/// the level-2 cache; the residual and the output once.
///
/// # Safety
/// `x`, `filters`, `residual` and `y` are the tensor maps of the geometry's boxes over tensors of its
/// extents. `y` overlaps no other tensor, and `residual` is read only if `rounded` adds it. `bias`, `gain`,
/// `shift` and the norm's running statistics, weight and bias have an element for each filter if the
/// arguments say that they exist. With a norm the epilogue has no gain and shift of its own. The list is
/// empty, or `rounded` changes no result and the tile has
/// [`LISTED_PIXELS`](launch_config::gemm::LISTED_PIXELS) pixels.
#[kernel(
    instances(W: [m64n64: M64N64, m64n128: M64N128, m128n64: M128N64, m128n128: M128N128], T: [f16, bf16]),
    instances(W: [m64n64: M64N64, m64n128: M64N128, m128n64: M128N64], T: [f32]),
    max_threads = BLOCK_THREADS,
    min_blocks = 1
)]
pub unsafe fn gemm_sm90<W: Tile, T: Multiply<32> + Multiply<64>>(
    x: &TensorMap,
    filters: &TensorMap,
    residual: &TensorMap,
    y: &TensorMap,
    bias: *const T,
    gain: *const f32,
    shift: *const f32,
    running_mean: *const c_void,
    running_var: *const c_void,
    norm_weight: *const c_void,
    norm_bias: *const c_void,
    g: &GemmGeometry,
    norm: FoldGeometry,
    norm_type: AffineType,
    has_norm: Presence,
    epilogue: Epilogue,
    rounded: RoundedEpilogue,
    list: &PointwiseList,
) {
    let memory = Memory::of::<T>(g, W::EXTENTS);
    if thread::thread_idx_x() == PRODUCER {
        let consumers = WARPS >> g.schedule.shift();
        let producers = 2 - g.residency.is_resident() as u32;
        memory.stages().init(producers, consumers);
        let mut warpgroup = 0;
        while warpgroup < WARPGROUPS {
            memory.order_barrier(warpgroup).init(WARPGROUP_WARPS);
            memory.results_pipeline(warpgroup).init(WARPGROUP_WARPS, 1);
            warpgroup = opaque::to_compiler(warpgroup + 1);
        }
        memory.filters_are_there().init(1);
        async_proxy::fence_shared();
    }
    thread::sync_threads();

    let warp = opaque::uniform(thread::thread_idx_x() / WARP_THREADS);
    if warp >= WARPS {
        registers::decrease::<PRODUCER_REGISTERS>();
        let number = warp - WARPS;
        if !thread::thread_idx_x().is_multiple_of(WARP_THREADS) {
            return;
        }
        if number == 0 {
            produce_windows(&memory, x);
        } else if number <= WARPGROUPS {
            write(&memory, number - 1, (residual, rounded.residual), y);
        } else {
            produce_filters(&memory, filters);
        }
        return;
    }
    registers::increase::<CONSUMER_REGISTERS>();
    let output = Output {
        bias,
        norm: Norm {
            running: [running_mean, running_var],
            affine: [norm_weight, norm_bias],
            geometry: norm,
            ty: norm_type,
            presence: has_norm,
        },
        store: StoreEpilogue {
            of_channels: GainAndShift { gain, shift },
            epilogue,
        },
        rounded,
        list,
    };
    W::consume(&memory, &output, warp);
}

/// The parts of shared memory that [`GemmLayout`] describes.
#[derive(Clone, Copy)]
pub(super) struct Memory {
    g: GemmGeometry,
    layout: GemmLayout,
    /// The tile of a warpgroup.
    tile: [u32; 2],
    /// The offset of the parts from the start of dynamic shared memory, for their alignment.
    first: u32,
}

impl Memory {
    #[inline(always)]
    unsafe fn of<T>(g: &GemmGeometry, tile: [u32; 2]) -> Self {
        let start = shared::dynamic::<u32>(0, 0).addr(0).0;
        // A constant, which the compiler does not know from the argument.
        let g = GemmGeometry {
            element_bytes: size_of::<T>() as u32,
            ..*g
        };
        Self {
            g,
            layout: g.layout(tile),
            tile,
            first: start.wrapping_neg() % TILE_BYTES,
        }
    }

    /// Returns the first tile of a consumer warpgroup; the next one is `tile_step` further. In the ping-pong
    /// schedule the other warpgroup has the tiles between.
    #[inline(always)]
    unsafe fn first_tile(&self, number: u32) -> u32 {
        thread::block_idx_x() + self.g.schedule.shift() * number * thread::grid_dim_x()
    }

    #[inline(always)]
    unsafe fn tile_step(&self) -> u32 {
        thread::grid_dim_x() << self.g.schedule.shift()
    }

    /// Returns the first pixel of a consumer warpgroup in its tiles: in the cooperative schedule the second
    /// warpgroup has the second half.
    #[inline(always)]
    unsafe fn first_pixel(&self, number: u32) -> u32 {
        (1 - self.g.schedule.shift()) * number * self.tile[0]
    }

    /// Returns the first pixel and the first filter of tile `tile` of the block's size. Neighbouring blocks
    /// have the same pixels.
    #[inline(always)]
    unsafe fn start(&self, tile: u32) -> [u32; 2] {
        let (pixel_tile, filter_tile) = div_rem(tile, self.g.filter_tiles);
        [pixel_tile * self.g.tile_pixels, filter_tile * self.tile[1]]
    }

    #[inline(always)]
    unsafe fn words<T: cuda_std::element::Element>(&self, at: u32, len: u32) -> Shared<T> {
        shared::dynamic(self.first + at, len)
    }

    /// Bytes of a tile's filters in a stage.
    #[inline(always)]
    fn filter_bytes(&self) -> u32 {
        self.tile[1] * LINE_BYTES
    }

    /// Returns the resident filters of K block `k_block` of each tile.
    #[inline(always)]
    unsafe fn resident(&self, k_block: u32) -> SharedAddr {
        let words = self.g.k_blocks * self.filter_bytes() / 4;
        let words = self.words::<u32>(self.layout.filters, words);
        words.addr(k_block * self.filter_bytes() / 4)
    }

    /// Returns stage `stage`: its pixels, then its filters.
    #[inline(always)]
    unsafe fn stage(&self, stage: u32) -> SharedAddr {
        let bytes = self.layout.stage_bytes;
        let words = self.words::<u32>(stage * bytes, bytes / 4);
        words.addr(0)
    }

    /// Returns a buffer for the results of a warpgroup, line by line of `g.line_values()` filters.
    #[inline(always)]
    unsafe fn results(&self, warpgroup: u32, buffer: u32) -> Shared<u32> {
        let words = self.tile[0] * self.tile[1] * self.g.element_bytes / 4;
        let before = warpgroup * self.g.buffers + buffer;
        self.words(self.layout.results + before * words * 4, words)
    }

    /// Returns gain and shift of each filter of a warpgroup's tile and, behind them, the bias of each filter.
    #[inline(always)]
    unsafe fn of_channels(&self, warpgroup: u32) -> Shared<f32> {
        let values = self.tile[1] * CHANNEL_VALUES;
        self.words(self.layout.of_channels + warpgroup * values * 4, values)
    }

    #[inline(always)]
    unsafe fn barriers(&self) -> Shared<u64> {
        self.words(self.layout.barriers, self.g.barriers())
    }

    #[inline(always)]
    unsafe fn stages(&self) -> Pipeline {
        Pipeline {
            barriers: self.barriers(),
            first: 0,
            stages: self.g.stages,
            wraps: 1,
        }
    }

    /// Returns the buffers of a warpgroup's results. An empty buffer holds the residual, if there is one.
    #[inline(always)]
    unsafe fn results_pipeline(&self, warpgroup: u32) -> Pipeline {
        Pipeline {
            barriers: self.barriers(),
            first: 2 * (self.g.stages + warpgroup * self.g.buffers),
            stages: self.g.buffers,
            wraps: 1,
        }
    }

    /// Returns the order barrier at which `warpgroup` waits before its next tile in the ping-pong schedule.
    /// The other warpgroup arrives when it waits for no more stages.
    #[inline(always)]
    unsafe fn order_barrier(&self, warpgroup: u32) -> Barrier {
        let first = 2 * (self.g.stages + WARPGROUPS * self.g.buffers);
        Barrier::at(self.barriers(), first + warpgroup)
    }

    /// Returns the barrier at which the resident filters arrive.
    #[inline(always)]
    unsafe fn filters_are_there(&self) -> Barrier {
        Barrier::at(self.barriers(), self.g.barriers() - 1)
    }
}
