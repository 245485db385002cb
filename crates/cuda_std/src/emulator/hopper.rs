//! The functions of sm_90 and sm_90a that kernels call, as the public modules name them.

use std::panic::Location;

use super::exec::with;
use super::mbarriers::{self, Reach};
use super::tensor::Kind;
use super::views::GlobalView;
use super::waiting::Setting;
use super::wgmma::{self, RowsOfA};
pub(crate) use super::wgmma_in_flight::BatchNumber;
use super::{async_proxy, box_stores, clusters, registers, transfers, wgmma_in_flight};
use crate::map_modes::{AXES, SPATIAL_AXES, TensorMap};

backend_functions! {
    fn fence_async_proxy() = async_proxy::fence(Location::caller());
    fn increase_registers[const N: u32]() = registers::set(Setting::Increase(N), Location::caller());
    fn decrease_registers[const N: u32]() = registers::set(Setting::Decrease(N), Location::caller());
    unsafe fn mbarrier_init(address: u32, arrivals: u32) =
        mbarriers::init(address, arrivals, Location::caller());
    unsafe fn mbarrier_arrive(address: u32) = mbarriers::arrive(address, 0, Location::caller());
    unsafe fn mbarrier_arrive_expect(address: u32, bytes: u32) =
        mbarriers::arrive(address, bytes, Location::caller());
    unsafe fn mbarrier_try_wait(address: u32, parity: u32) -> bool =
        mbarriers::try_wait(address, parity, Location::caller());
    unsafe fn mbarrier_wait(address: u32, parity: u32) =
        mbarriers::wait(address, parity, Reach::Block, Location::caller());
}

#[track_caller]
pub(crate) unsafe fn copy_bulk<T>(
    target: u32,
    source: GlobalView,
    index: usize,
    bytes: u32,
    barrier: u32,
) {
    let source = source.source::<T>(index, bytes as usize);
    transfers::copy(target, source, bytes, barrier, Location::caller());
}

backend_functions! {
    unsafe fn copy_box(target: u32, map: &TensorMap, at: [i32; AXES], barrier: u32) =
        transfers::copy_box(target, map, at, barrier, Location::caller());
    unsafe fn copy_im2col(target: u32, map: &TensorMap, at: [i32; AXES], offsets: [u16; SPATIAL_AXES], barrier: u32) =
        transfers::copy_im2col(target, map, (at, offsets), barrier, Location::caller());
    unsafe fn store_box(source: u32, map: &TensorMap, at: [i32; AXES]) =
        box_stores::store_box(source, map, at, Location::caller());
    fn commit_stores() = box_stores::commit(Location::caller());
    fn wait_stores_read[const LEFT: u32]() = box_stores::wait_read(LEFT as usize, Location::caller());
}

#[track_caller]
pub(crate) unsafe fn cluster_copy_bulk<T>(
    target: u32,
    source: GlobalView,
    index: usize,
    bytes: u32,
    barrier: u32,
    blocks: u16,
) {
    let source = source.source::<T>(index, bytes as usize);
    transfers::copy_to_blocks(target, source, bytes, barrier, blocks, Location::caller());
}

/// MMA batches that start from zero or add to the accumulator, with A in registers or in shared memory. The
/// inline assembly of some includes the wait.
macro_rules! batches {
    ($($a:ident $name:ident, $kind:ident, $steps:literal, $sums:literal
        $(, $given:ident)? $(= [$start:expr; $count:literal])? $(=> $wait:ident)?;)*) => {$(
        batches! { @$a $name, $steps, $sums, ($($given)?) ($([$start; $count])?), [Kind::$kind] [$($wait)?] }
    )*};
    (@registers $name:ident, $steps:literal, $sums:literal, () ($start:expr), $kind:tt $wait:tt) => {
        #[track_caller]
        pub(crate) unsafe fn $name(a: &[[u32; 4]; $steps], b: &[u64; $steps]) -> [f32; $sums] {
            let mut sums = $start;
            batches!(@run &mut sums, RowsOfA::Registers(a), b, $kind $wait);
            sums
        }
    };
    (@registers $name:ident, $steps:literal, $sums:literal, ($d:ident) (), $kind:tt $wait:tt) => {
        #[track_caller]
        pub(crate) unsafe fn $name(mut $d: [f32; $sums], a: &[[u32; 4]; $steps], b: &[u64; $steps]) -> [f32; $sums] {
            batches!(@run &mut $d, RowsOfA::Registers(a), b, $kind $wait);
            $d
        }
    };
    (@shared $name:ident, $steps:literal, $sums:literal, () ($($start:expr)?), $kind:tt $wait:tt) => {
        #[track_caller]
        pub(crate) unsafe fn $name(d: &mut [f32; $sums], a: &[u64; $steps], b: &[u64; $steps]) {
            $(*d = $start;)?
            batches!(@run d, RowsOfA::Shared(a), b, $kind $wait);
        }
    };
    (@run $sums:expr, $a:expr, $b:ident, [$kind:expr] [$($wait:ident)?]) => {
        let place = Location::caller();
        wgmma::multiply($kind, $sums, $a, &[$b], place);
        $(wgmma_in_flight::$wait(wgmma_in_flight::newest(), 0, place);)?
    };
}

batches! {
    registers m64n32_f16_7, F16, 7, 16 = [0.0; 16] => wait;
    registers m64n32_bf16_7, Bf16, 7, 16 = [0.0; 16] => wait;
    registers start_f16_5, F16, 5, 32 = [0.0; 32];
    registers start_f16_9, F16, 9, 32 = [0.0; 32];
    registers start_f16_14, F16, 14, 32 = [0.0; 32];
    registers start_bf16_5, Bf16, 5, 32 = [0.0; 32];
    registers add_f16_3, F16, 3, 32, d;
    registers add_bf16_3, Bf16, 3, 32, d;
    shared start_shared_n128_f16_9, F16, 9, 64 = [0.0; 64];
    shared start_shared_n128_f16_3, F16, 3, 64 = [0.0; 64];
    shared start_shared_n256_f16_3, F16, 3, 128 = [0.0; 128];
    shared add_shared_n64_f16_4, F16, 4, 32;
    shared add_shared_n64_bf16_4, Bf16, 4, 32;
    shared add_shared_n64_tf32_4, Tf32, 4, 32;
    shared add_shared_n128_f16_4, F16, 4, 64;
    shared add_shared_n128_bf16_4, Bf16, 4, 64;
    shared add_shared_n128_tf32_4, Tf32, 4, 64;
    shared add_shared_n128_f16_3, F16, 3, 64;
    shared add_shared_n128_bf16_3, Bf16, 3, 64;
    shared add_shared_n256_f16_3, F16, 3, 128;
    shared add_shared_n256_bf16_3, Bf16, 3, 128;
    shared add_shared_f16_8, F16, 8, 128 => wait;
}

macro_rules! interleaved_batches {
    ($($name:ident, $kind:ident, $sums:literal $(= $start:expr)?;)*) => {$(
        #[track_caller]
        pub(crate) unsafe fn $name(d: &mut [f32; $sums], a: &[u64; 3], b: [&[u64; 3]; 2]) {
            $(*d = $start;)?
            wgmma::multiply(Kind::$kind, d, RowsOfA::Shared(a), &[b[0], b[1]], Location::caller());
        }
    )*};
}

interleaved_batches! {
    start_interleaved_n128_f16_3, F16, 64 = [0.0; 64];
    start_interleaved_n128_bf16_3, Bf16, 64 = [0.0; 64];
    start_interleaved_n256_f16_3, F16, 128 = [0.0; 128];
    start_interleaved_n256_bf16_3, Bf16, 128 = [0.0; 128];
    add_interleaved_n128_f16_3, F16, 64;
    add_interleaved_n128_bf16_3, Bf16, 64;
    add_interleaved_n256_f16_3, F16, 128;
    add_interleaved_n256_bf16_3, Bf16, 128;
}

backend_functions! {
    /// The last MMA batch that the thread has started.
    fn newest_batch() -> BatchNumber = wgmma_in_flight::newest();

    /// No MMA batch.
    fn no_batch() -> BatchNumber = BatchNumber::NONE;
    unsafe fn wait_older_batches[const LEFT: u32]() =
        wgmma_in_flight::wait(BatchNumber::NONE, LEFT, Location::caller());
}

macro_rules! waits {
    ($($name:ident, $sums:literal;)*) => {$(
        #[track_caller]
        pub(crate) unsafe fn $name<const LEFT: u32>(d: [f32; $sums], batch: BatchNumber) -> [f32; $sums] {
            wgmma_in_flight::wait(batch, LEFT, Location::caller());
            d
        }
    )*};
}

waits! {
    wait_batch_32, 32;
    wait_batch_64, 64;
    wait_batch_128, 128;
}

backend_functions! {
    fn cluster_block_rank() -> u32 = with().rank;
    fn cluster_blocks() -> u32 = with().cluster_blocks;
    fn cluster_sync() = clusters::sync(Location::caller());
    fn cluster_arrive() = clusters::arrive(Location::caller());
    fn cluster_wait_all() = clusters::wait(Location::caller());
    fn cluster_fence_barriers() = mbarriers::fence(Location::caller());
    unsafe fn cluster_wait(address: u32, parity: u32) =
        mbarriers::wait(address, parity, Reach::Cluster, Location::caller());
    unsafe fn cluster_arrive_at(address: u32, rank: u32) =
        mbarriers::arrive_remote(address, rank, Location::caller());
    unsafe fn cluster_store_async(to: u32, barrier: u32, rank: u32, values: [f32; 2]) =
        transfers::store(to, barrier, rank, values, Location::caller());
}
