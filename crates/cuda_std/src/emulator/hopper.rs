//! The functions of sm_90 and sm_90a that kernels call, as the public modules name them.

use std::panic::Location;

use super::exec::with;
use super::mbarriers::{self, Reach};
use super::tensor::Kind;
use super::views::GlobalView;
use super::waiting::Setting;
use super::wgmma::{self, RowsOfA};
pub(crate) use super::wgmma_in_flight::ChainNumber;
use super::{async_proxy, clusters, registers, transfers, wgmma_in_flight};
use crate::common::{AXES, TensorMap};

#[track_caller]
pub(crate) fn fence_async_proxy() {
    async_proxy::fence(Location::caller());
}

#[track_caller]
pub(crate) fn increase_registers<const N: u32>() {
    registers::set(Setting::Increase(N), Location::caller());
}

#[track_caller]
pub(crate) fn decrease_registers<const N: u32>() {
    registers::set(Setting::Decrease(N), Location::caller());
}

#[track_caller]
pub(crate) unsafe fn mbarrier_init(address: u32, arrivals: u32) {
    mbarriers::init(address, arrivals, Location::caller());
}

#[track_caller]
pub(crate) unsafe fn mbarrier_arrive(address: u32) {
    mbarriers::arrive(address, 0, Location::caller());
}

#[track_caller]
pub(crate) unsafe fn mbarrier_arrive_expect(address: u32, bytes: u32) {
    mbarriers::arrive(address, bytes, Location::caller());
}

#[track_caller]
pub(crate) unsafe fn mbarrier_try_wait(address: u32, parity: u32) -> bool {
    mbarriers::try_wait(address, parity, Location::caller())
}

#[track_caller]
pub(crate) unsafe fn mbarrier_wait(address: u32, parity: u32) {
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

#[track_caller]
pub(crate) unsafe fn copy_box(target: u32, map: &TensorMap, at: [i32; AXES], barrier: u32) {
    transfers::copy_box(target, map, at, barrier, Location::caller());
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

macro_rules! chains {
    ($($name:ident, $kind:ident, $steps:literal, $sums:literal;)*) => {$(
        #[track_caller]
        pub(crate) unsafe fn $name(a: &[[u32; 4]; $steps], b: &[u64; $steps]) -> [f32; $sums] {
            let mut sums = [0.0; $sums];
            wgmma::multiply(Kind::$kind, &mut sums, RowsOfA::Registers(a), &[b], Location::caller());
            sums
        }
    )*};
}

chains! {
    start_f16_5, F16, 5, 32;
    start_f16_9, F16, 9, 32;
    start_f16_14, F16, 14, 32;
    start_bf16_5, Bf16, 5, 32;
}

macro_rules! adding_chains {
    ($($name:ident, $kind:ident, $steps:literal;)*) => {$(
        #[track_caller]
        pub(crate) unsafe fn $name(mut d: [f32; 32], a: &[[u32; 4]; $steps], b: &[u64; $steps]) -> [f32; 32] {
            wgmma::multiply(Kind::$kind, &mut d, RowsOfA::Registers(a), &[b], Location::caller());
            d
        }
    )*};
}

adding_chains! {
    add_f16_3, F16, 3;
    add_bf16_3, Bf16, 3;
}

/// Chains whose inline assembly includes the wait.
macro_rules! chains_with_wait {
    ($($name:ident, $kind:ident, $steps:literal;)*) => {$(
        #[track_caller]
        pub(crate) unsafe fn $name(a: &[[u32; 4]; $steps], b: &[u64; $steps]) -> [f32; 16] {
            let (mut sums, place) = ([0.0; 16], Location::caller());
            wgmma::multiply(Kind::$kind, &mut sums, RowsOfA::Registers(a), &[b], place);
            wgmma_in_flight::wait(wgmma_in_flight::newest(), 0, place);
            sums
        }
    )*};
}

chains_with_wait! {
    m64n32_f16_7, F16, 7;
    m64n32_bf16_7, Bf16, 7;
}

#[track_caller]
pub(crate) unsafe fn start_shared_n128_f16_9(d: &mut [f32; 64], a: &[u64; 9], b: &[u64; 9]) {
    *d = [0.0; 64];
    wgmma::multiply(Kind::F16, d, RowsOfA::Shared(a), &[b], Location::caller());
}

macro_rules! adding_shared_chains {
    ($($name:ident, $kind:ident, $steps:literal, $sums:literal;)*) => {$(
        #[track_caller]
        pub(crate) unsafe fn $name(d: &mut [f32; $sums], a: &[u64; $steps], b: &[u64; $steps]) {
            wgmma::multiply(Kind::$kind, d, RowsOfA::Shared(a), &[b], Location::caller());
        }
    )*};
}

adding_shared_chains! {
    add_shared_n128_f16_3, F16, 3, 64;
    add_shared_n128_bf16_3, Bf16, 3, 64;
    add_shared_n256_f16_3, F16, 3, 128;
    add_shared_n256_bf16_3, Bf16, 3, 128;
}

macro_rules! interleaved_chains {
    ($($name:ident, $kind:ident, $sums:literal;)*) => {$(
        #[track_caller]
        pub(crate) unsafe fn $name(d: &mut [f32; $sums], a: &[u64; 3], b: [&[u64; 3]; 2]) {
            wgmma::multiply(Kind::$kind, d, RowsOfA::Shared(a), &[b[0], b[1]], Location::caller());
        }
    )*};
}

interleaved_chains! {
    add_interleaved_n128_f16_3, F16, 64;
    add_interleaved_n128_bf16_3, Bf16, 64;
    add_interleaved_n256_f16_3, F16, 128;
    add_interleaved_n256_bf16_3, Bf16, 128;
}

/// A chain whose inline assembly includes the wait.
#[track_caller]
pub(crate) unsafe fn add_shared_f16_8(d: &mut [f32; 128], a: &[u64; 8], b: &[u64; 8]) {
    let place = Location::caller();
    wgmma::multiply(Kind::F16, d, RowsOfA::Shared(a), &[b], place);
    wgmma_in_flight::wait(wgmma_in_flight::newest(), 0, place);
}

/// The last chain that the thread has started.
pub(crate) fn newest_chain() -> ChainNumber {
    wgmma_in_flight::newest()
}

/// No chain.
pub(crate) fn no_chain() -> ChainNumber {
    ChainNumber::NONE
}

#[track_caller]
pub(crate) unsafe fn wait_older_chains<const LEFT: u32>() {
    wgmma_in_flight::wait(ChainNumber::NONE, LEFT, Location::caller());
}

macro_rules! waits {
    ($($name:ident, $sums:literal;)*) => {$(
        #[track_caller]
        pub(crate) unsafe fn $name<const LEFT: u32>(d: [f32; $sums], chain: ChainNumber) -> [f32; $sums] {
            wgmma_in_flight::wait(chain, LEFT, Location::caller());
            d
        }
    )*};
}

waits! {
    wait_chain_32, 32;
    wait_chain_64, 64;
    wait_chain_128, 128;
}

pub(crate) fn cluster_block_rank() -> u32 {
    with().rank
}

pub(crate) fn cluster_blocks() -> u32 {
    with().cluster_blocks
}

#[track_caller]
pub(crate) fn cluster_sync() {
    clusters::sync(Location::caller());
}

#[track_caller]
pub(crate) fn cluster_arrive() {
    clusters::arrive(Location::caller());
}

#[track_caller]
pub(crate) fn cluster_wait_all() {
    clusters::wait(Location::caller());
}

#[track_caller]
pub(crate) fn cluster_fence_barriers() {
    mbarriers::fence(Location::caller());
}

#[track_caller]
pub(crate) unsafe fn cluster_wait(address: u32, parity: u32) {
    mbarriers::wait(address, parity, Reach::Cluster, Location::caller());
}

#[track_caller]
pub(crate) unsafe fn cluster_arrive_at(address: u32, rank: u32) {
    mbarriers::arrive_remote(address, rank, Location::caller());
}

#[track_caller]
pub(crate) unsafe fn cluster_store_async(to: u32, barrier: u32, rank: u32, values: [f32; 2]) {
    transfers::store(to, barrier, rank, values, Location::caller());
}
