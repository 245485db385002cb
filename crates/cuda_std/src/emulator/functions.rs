//! The functions that kernels call, as the public modules name them.

use std::panic::Location;

use super::barriers::{self, Use};
use super::clock;
use super::exec::{fail, with};
use super::fault::FaultKind;
use super::lanes::{self, ALL};
use super::tensor::Kind;
use super::vector_clocks::Scope;
use super::views::GlobalView;
use super::waiting::Op;
use super::{access, copies, schedule};
use crate::common::{WarpReductionOp, WarpShuffleMode};

macro_rules! special_registers {
    ($($name:ident = $field:ident[$axis:literal];)*) => {$(
        pub(crate) fn $name() -> u32 {
            with().$field[$axis]
        }
    )*};
}

special_registers! {
    thread_idx_x = thread_idx[0];
    thread_idx_y = thread_idx[1];
    thread_idx_z = thread_idx[2];
    block_idx_x = block_idx[0];
    block_idx_y = block_idx[1];
    block_idx_z = block_idx[2];
    block_dim_x = block_dim[0];
    block_dim_y = block_dim[1];
    block_dim_z = block_dim[2];
    grid_dim_x = grid_dim[0];
    grid_dim_y = grid_dim[1];
    grid_dim_z = grid_dim[2];
}

backend_functions! {
    fn sync_threads() = { barriers::sync_all(Use::Whole, false, Location::caller()); };
    fn sync_threads_count(predicate: bool) -> u32 =
        barriers::sync_all(Use::Reduce, predicate, Location::caller());
    fn sync_threads_and(predicate: bool) -> bool =
        barriers::sync_all(Use::Reduce, predicate, Location::caller()) == with().block_threads;
    fn sync_threads_or(predicate: bool) -> bool =
        barriers::sync_all(Use::Reduce, predicate, Location::caller()) > 0;
    fn barrier_sync(id: u32, threads: u32) = barriers::come_named(id, threads, true, Location::caller());
    fn barrier_arrive(id: u32, threads: u32) = barriers::come_named(id, threads, false, Location::caller());
    fn block_fence() = clock::fence(Scope::Block, Location::caller());
    fn device_fence() = clock::fence(Scope::Device, Location::caller());
    fn system_fence() = clock::fence(Scope::Device, Location::caller());
}

#[track_caller]
pub(crate) fn nanosleep(_: u32) {
    with().tick(Location::caller());
    schedule::step_aside();
}

backend_functions! {
    fn lane_id() -> u32 = with().thread % 32;
}

pub(crate) fn activemask() -> u32 {
    let exec = with();
    exec.lanes((exec.thread / 32) as usize)
}

backend_functions! {
    unsafe fn sync_warp(mask: u32) = { lanes::meet(Op::Sync, mask, &[], Location::caller()); };
}

#[track_caller]
pub(crate) unsafe fn shuffle(
    mode: WarpShuffleMode,
    mask: u32,
    value: u32,
    b: u32,
    width: u32,
) -> (u32, bool) {
    let place = Location::caller();
    let op = Op::Shuffle(mode);
    if !width.is_power_of_two() || width > 32 {
        fail(
            place,
            FaultKind::Argument(format!(
                "{op}: width is {width}, which is no power of two up to 32"
            )),
        );
    }
    let lane = with().thread % 32;
    let (source, inside) = lanes::source_lane(mode, lane, b, width);
    if inside && mask >> source & 1 == 0 {
        let problem = format!("lane {lane} reads lane {source}, which mask {mask:#010x} lacks");
        fail(
            place,
            FaultKind::Warp {
                op: op.to_string(),
                problem,
            },
        );
    }
    let [value, inside, ..] = lanes::meet(op, mask, &[value, b, width], place);
    (value, inside != 0)
}

backend_functions! {
    unsafe fn vote_ballot(mask: u32, predicate: bool) -> u32 =
        lanes::meet(Op::Ballot, mask, &[u32::from(predicate)], Location::caller())[0];
    unsafe fn vote_all(mask: u32, predicate: bool) -> bool = vote_ballot(mask, predicate) == mask;
    unsafe fn vote_any(mask: u32, predicate: bool) -> bool = vote_ballot(mask, predicate) != 0;
    unsafe fn match_any_32(mask: u32, value: u32) -> u32 =
        lanes::meet(Op::MatchAny, mask, &[value, 0], Location::caller())[0];
}

#[track_caller]
pub(crate) unsafe fn match_any_64(mask: u32, value: u64) -> u32 {
    let words = [value as u32, (value >> 32) as u32];
    lanes::meet(Op::MatchAny, mask, &words, Location::caller())[0]
}

backend_functions! {
    unsafe fn match_all_32(mask: u32, value: u32) -> bool = match_any_32(mask, value) == mask;
    unsafe fn match_all_64(mask: u32, value: u64) -> bool = match_any_64(mask, value) == mask;
    unsafe fn reduce(mask: u32, value: u32, op: WarpReductionOp, signed: bool) -> u32 =
        lanes::meet(Op::Reduce(op, signed), mask, &[value], Location::caller())[0];
}

macro_rules! ldmatrix {
    ($($name:ident, $n:literal, $transposed:literal;)*) => {$(
        #[track_caller]
        pub(crate) unsafe fn $name(address: u32) -> [u32; $n] {
            let place = Location::caller();
            let op = Op::Ldmatrix { count: $n, transposed: $transposed };
            let mut row = [0; 4];
            if with().thread % 32 < 8 * $n {
                row = access::read_row(op, address, place);
            }
            let words = lanes::meet(op, ALL, &row, place);
            std::array::from_fn(|i| words[i])
        }
    )*};
}

ldmatrix! {
    ldmatrix_x1, 1, false;
    ldmatrix_x2, 2, false;
    ldmatrix_x4, 4, false;
    ldmatrix_x1_trans, 1, true;
    ldmatrix_x2_trans, 2, true;
    ldmatrix_x4_trans, 4, true;
}

#[track_caller]
pub(crate) unsafe fn stmatrix_x4_trans(address: u32, words: [u32; 4]) {
    let place = Location::caller();
    let row = lanes::meet(Op::StmatrixTransposed, ALL, &words, place);
    access::write_row(Op::StmatrixTransposed, address, row, place);
}

macro_rules! multiply {
    ($($name:ident, $kind:ident;)*) => {$(
        #[track_caller]
        pub(crate) unsafe fn $name(d: [f32; 4], a: [u32; 4], b: [u32; 2]) -> [f32; 4] {
            let [d0, d1, d2, d3] = d.map(f32::to_bits);
            let input = [d0, d1, d2, d3, a[0], a[1], a[2], a[3], b[0], b[1]];
            lanes::meet(Op::Multiply(Kind::$kind), ALL, &input, Location::caller()).map(f32::from_bits)
        }
    )*};
}

multiply! {
    m16n8k8_tf32, Tf32;
    m16n8k16_f16, F16;
    m16n8k16_bf16, Bf16;
}

#[track_caller]
pub(crate) unsafe fn copy_async<T, const BYTES: usize>(
    target: u32,
    source: GlobalView,
    index: usize,
) {
    let source = source.source::<T>(index, BYTES);
    copies::start(target, source, BYTES, BYTES, Location::caller());
}

#[track_caller]
pub(crate) unsafe fn copy_async_zfill<T, const BYTES: usize>(
    target: u32,
    source: GlobalView,
    index: usize,
    valid: u32,
) {
    let source = source.source::<T>(index, valid as usize);
    copies::start(target, source, valid as usize, BYTES, Location::caller());
}

backend_functions! {
    fn commit_group() = copies::commit(Location::caller());
    fn wait_group[const N: u32]() = copies::wait_groups(N as usize, Location::caller());
    fn wait_all() = copies::wait_all(Location::caller());
    fn opaque_to_compiler(value: u32) -> u32 = value;
    fn opaque_wide_product(a: u32, b: u32) -> u64 = u64::from(a) * u64::from(b);
}

pub(crate) fn not_unrolled() {}
