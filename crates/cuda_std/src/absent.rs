//! The backend of a host without the emulator: kernels compile, and nothing runs them.
//!
//! There a [`Family`](crate::Family) has names, labels and launch bounds, which is all that launching on a
//! GPU takes. Arithmetic is the emulator's, which needs no launch.

#![allow(
    clippy::extra_unused_type_parameters,
    reason = "the signatures are those of the other backends"
)]

use crate::common::{AXES, Element, TensorMap, WarpReductionOp, WarpShuffleMode};

#[path = "emulator/math.rs"]
mod math;

pub(crate) use math::*;

/// What a device function does here.
#[cold]
fn absent() -> ! {
    panic!("kernels run on a GPU, or on the CPU with cuda_std's feature `emulator`")
}

macro_rules! safe {
    ($($name:ident $([$($generic:tt)*])? ($($ty:ty),*) $(-> $result:ty)?;)*) => {$(
        pub(crate) fn $name $(<$($generic)*>)? ($(_: $ty),*) $(-> $result)? {
            absent()
        }
    )*};
}

macro_rules! trusting {
    ($($name:ident $([$($generic:tt)*])? ($($ty:ty),*) $(-> $result:ty)?;)*) => {$(
        pub(crate) unsafe fn $name $(<$($generic)*>)? ($(_: $ty),*) $(-> $result)? {
            absent()
        }
    )*};
}

safe! {
    thread_idx_x() -> u32;
    thread_idx_y() -> u32;
    thread_idx_z() -> u32;
    block_idx_x() -> u32;
    block_idx_y() -> u32;
    block_idx_z() -> u32;
    block_dim_x() -> u32;
    block_dim_y() -> u32;
    block_dim_z() -> u32;
    grid_dim_x() -> u32;
    grid_dim_y() -> u32;
    grid_dim_z() -> u32;
    sync_threads();
    sync_threads_count(bool) -> u32;
    sync_threads_and(bool) -> bool;
    sync_threads_or(bool) -> bool;
    barrier_sync(u32, u32);
    barrier_arrive(u32, u32);
    block_fence();
    device_fence();
    system_fence();
    nanosleep(u32);
    lane_id() -> u32;
    activemask() -> u32;
    commit_group();
    wait_group[const N: u32]();
    wait_all();
    opaque_to_compiler(u32) -> u32;
    not_unrolled();
    fence_async_proxy();
    increase_registers[const N: u32]();
    decrease_registers[const N: u32]();
    cluster_block_rank() -> u32;
    cluster_blocks() -> u32;
    cluster_sync();
    cluster_arrive();
    cluster_wait_all();
    cluster_fence_barriers();
    newest_chain() -> ChainNumber;
    no_chain() -> ChainNumber;
}

trusting! {
    sync_warp(u32);
    shuffle(WarpShuffleMode, u32, u32, u32, u32) -> (u32, bool);
    vote_ballot(u32, bool) -> u32;
    vote_all(u32, bool) -> bool;
    vote_any(u32, bool) -> bool;
    match_any_32(u32, u32) -> u32;
    match_any_64(u32, u64) -> u32;
    match_all_32(u32, u32) -> bool;
    match_all_64(u32, u64) -> bool;
    reduce(u32, u32, WarpReductionOp, bool) -> u32;
    ldmatrix_x1(u32) -> [u32; 1];
    ldmatrix_x2(u32) -> [u32; 2];
    ldmatrix_x4(u32) -> [u32; 4];
    ldmatrix_x1_trans(u32) -> [u32; 1];
    ldmatrix_x2_trans(u32) -> [u32; 2];
    ldmatrix_x4_trans(u32) -> [u32; 4];
    m16n8k8_tf32([f32; 4], [u32; 4], [u32; 2]) -> [f32; 4];
    m16n8k16_f16([f32; 4], [u32; 4], [u32; 2]) -> [f32; 4];
    m16n8k16_bf16([f32; 4], [u32; 4], [u32; 2]) -> [f32; 4];
    copy_async[T, const BYTES: usize](u32, GlobalView, usize);
    copy_async_zfill[T, const BYTES: usize](u32, GlobalView, usize, u32);
    mbarrier_init(u32, u32);
    mbarrier_arrive(u32);
    mbarrier_arrive_expect(u32, u32);
    mbarrier_try_wait(u32, u32) -> bool;
    mbarrier_wait(u32, u32);
    copy_bulk[T](u32, GlobalView, usize, u32, u32);
    copy_box(u32, &TensorMap, [i32; AXES], u32);
    m64n32_f16_7(&[[u32; 4]; 7], &[u64; 7]) -> [f32; 16];
    m64n32_bf16_7(&[[u32; 4]; 7], &[u64; 7]) -> [f32; 16];
    start_f16_5(&[[u32; 4]; 5], &[u64; 5]) -> [f32; 32];
    start_f16_9(&[[u32; 4]; 9], &[u64; 9]) -> [f32; 32];
    start_f16_14(&[[u32; 4]; 14], &[u64; 14]) -> [f32; 32];
    start_bf16_5(&[[u32; 4]; 5], &[u64; 5]) -> [f32; 32];
    add_f16_3([f32; 32], &[[u32; 4]; 3], &[u64; 3]) -> [f32; 32];
    add_bf16_3([f32; 32], &[[u32; 4]; 3], &[u64; 3]) -> [f32; 32];
    add_shared_f16_8(&mut [f32; 128], &[u64; 8], &[u64; 8]);
    wait_older_chains[const LEFT: u32]();
    wait_chain_32[const LEFT: u32]([f32; 32], ChainNumber) -> [f32; 32];
    wait_chain_64[const LEFT: u32]([f32; 64], ChainNumber) -> [f32; 64];
    wait_chain_128[const LEFT: u32]([f32; 128], ChainNumber) -> [f32; 128];
    cluster_copy_bulk[T](u32, GlobalView, usize, u32, u32, u16);
    cluster_wait(u32, u32);
    cluster_arrive_at(u32, u32);
    cluster_store_async(u32, u32, u32, [f32; 2]);
}

macro_rules! shared_chains {
    ($sums:literal, $steps:literal: $($name:ident),*) => {$(
        pub(crate) unsafe fn $name(_: &mut [f32; $sums], _: &[u64; $steps], _: &[u64; $steps]) {
            absent()
        }
    )*};
}

shared_chains!(64, 9: start_shared_n128_f16_9);
shared_chains!(64, 3: add_shared_n128_f16_3, add_shared_n128_bf16_3);
shared_chains!(128, 3: add_shared_n256_f16_3, add_shared_n256_bf16_3);

macro_rules! interleaved_chains {
    ($sums:literal: $($name:ident),*) => {$(
        pub(crate) unsafe fn $name(_: &mut [f32; $sums], _: &[u64; 3], _: [&[u64; 3]; 2]) {
            absent()
        }
    )*};
}

interleaved_chains!(64: add_interleaved_n128_f16_3, add_interleaved_n128_bf16_3);
interleaved_chains!(128: add_interleaved_n256_f16_3, add_interleaved_n256_bf16_3);

/// Which chain a wait is for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChainNumber;

/// A view of global memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GlobalView;

/// A view of shared memory.
#[derive(Debug, Clone, Copy)]
pub struct SharedView;

/// A static shared array's declaration.
#[derive(Debug)]
pub struct SharedSymbol;

macro_rules! view {
    ($view:ident, $index:ty) => {
        impl $view {
            pub(crate) fn len(self) -> $index {
                absent()
            }

            pub(crate) fn slice<T>(self, _: $index, _: $index) -> Self {
                absent()
            }

            pub(crate) unsafe fn load<T: Element>(self, _: $index) -> T {
                absent()
            }

            pub(crate) unsafe fn store<T: Element>(self, _: $index, _: T) {
                absent()
            }

            pub(crate) unsafe fn load_vec<T: Element, const N: usize>(self, _: $index) -> [T; N] {
                absent()
            }

            pub(crate) unsafe fn store_vec<T: Element, const N: usize>(self, _: $index, _: [T; N]) {
                absent()
            }

            pub(crate) unsafe fn atomic_add<T: AtomicAdd>(self, _: $index, _: T) -> T {
                absent()
            }

            pub(crate) unsafe fn atomic_cas<T: AtomicInteger>(self, _: $index, _: T, _: T) -> T {
                absent()
            }

            pub(crate) unsafe fn atomic_load<T: AtomicInteger>(self, _: $index) -> T {
                absent()
            }
        }
    };
    ($view:ident, $index:ty: $($name:ident),*) => {
        impl $view {$(
            pub(crate) unsafe fn $name<T: AtomicInteger>(self, _: $index, _: T) -> T {
                absent()
            }
        )*}
    };
}

view!(GlobalView, usize);
view!(SharedView, u32);
view!(GlobalView, usize: atomic_max, atomic_min, atomic_exchange, atomic_store);
view!(SharedView, u32: atomic_max, atomic_min, atomic_exchange, atomic_store);

impl GlobalView {
    pub(crate) unsafe fn new(_: *const u8, _: usize) -> Self {
        absent()
    }

    pub(crate) unsafe fn load_readonly<T: Element>(self, _: usize) -> T {
        absent()
    }

    pub(crate) unsafe fn load_vec_readonly<T: Element, const N: usize>(self, _: usize) -> [T; N] {
        absent()
    }
}

impl SharedView {
    pub(crate) fn dynamic<T>(_: u32, _: u32) -> Self {
        absent()
    }

    pub(crate) fn cast<T, U>(self) -> Self {
        absent()
    }

    pub(crate) fn addr<T>(self, _: u32) -> u32 {
        absent()
    }

    pub(crate) unsafe fn load_opaque<T: Element>(self, _: u32) -> T {
        absent()
    }

    pub(crate) unsafe fn load_remote<T: Element>(self, _: u32, _: u32) -> T {
        absent()
    }

    pub(crate) unsafe fn store_remote<T: Element>(self, _: u32, _: u32, _: T) {
        absent()
    }

    pub(crate) unsafe fn store_remote_vec<T: Element>(self, _: u32, _: u32, _: [T; 4]) {
        absent()
    }
}

impl SharedSymbol {
    #[doc(hidden)]
    #[must_use]
    pub const fn new(_: &'static str, _: u32, _: u32) -> Self {
        SharedSymbol
    }

    #[doc(hidden)]
    pub fn view(&'static self) -> SharedView {
        absent()
    }
}

/// An element type that can be added to.
pub trait AtomicAdd: Element {}

/// An integer element type.
pub trait AtomicInteger: Element {}

macro_rules! atomics {
    ($trait:ident: $($ty:ty),*) => { $(impl $trait for $ty {})* };
}
atomics!(AtomicAdd: u32, i32, u64, f32, f64);
atomics!(AtomicInteger: u32, i32, u64);
