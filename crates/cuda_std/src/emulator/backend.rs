//! The functions that kernels call.
#![expect(unused_variables, clippy::undocumented_unsafe_blocks)]
use crate::element::Element;
use crate::warp::WarpShuffleMode;
use half::{bf16, f16};
#[track_caller]
pub(crate) fn thread_idx_x() -> u32 {
    unimplemented!()
}
#[track_caller]
pub(crate) fn thread_idx_y() -> u32 {
    unimplemented!()
}
#[track_caller]
pub(crate) fn thread_idx_z() -> u32 {
    unimplemented!()
}
#[track_caller]
pub(crate) fn block_idx_x() -> u32 {
    unimplemented!()
}
#[track_caller]
pub(crate) fn block_idx_y() -> u32 {
    unimplemented!()
}
#[track_caller]
pub(crate) fn block_idx_z() -> u32 {
    unimplemented!()
}
#[track_caller]
pub(crate) fn block_dim_x() -> u32 {
    unimplemented!()
}
#[track_caller]
pub(crate) fn block_dim_y() -> u32 {
    unimplemented!()
}
#[track_caller]
pub(crate) fn block_dim_z() -> u32 {
    unimplemented!()
}
#[track_caller]
pub(crate) fn grid_dim_x() -> u32 {
    unimplemented!()
}
#[track_caller]
pub(crate) fn grid_dim_y() -> u32 {
    unimplemented!()
}
#[track_caller]
pub(crate) fn grid_dim_z() -> u32 {
    unimplemented!()
}
#[track_caller]
pub(crate) fn sync_threads() {
    unimplemented!()
}
#[track_caller]
pub(crate) fn sync_threads_count(p: bool) -> u32 {
    unimplemented!()
}
#[track_caller]
pub(crate) fn sync_threads_and(p: bool) -> bool {
    unimplemented!()
}
#[track_caller]
pub(crate) fn sync_threads_or(p: bool) -> bool {
    unimplemented!()
}
#[track_caller]
pub(crate) fn block_fence() {
    unimplemented!()
}
#[track_caller]
pub(crate) fn device_fence() {
    unimplemented!()
}
#[track_caller]
pub(crate) fn system_fence() {
    unimplemented!()
}
#[track_caller]
pub(crate) fn nanosleep(n: u32) {
    unimplemented!()
}
#[track_caller]
pub(crate) fn barrier_sync(id: u32, threads: u32) {
    unimplemented!()
}
#[track_caller]
pub(crate) fn barrier_arrive(id: u32, threads: u32) {
    unimplemented!()
}
#[track_caller]
pub(crate) fn lane_id() -> u32 {
    unimplemented!()
}
#[track_caller]
pub(crate) fn activemask() -> u32 {
    unimplemented!()
}
#[track_caller]
pub(crate) fn commit_group() {
    unimplemented!()
}
#[track_caller]
pub(crate) fn wait_group<const N: u32>() {
    unimplemented!()
}
#[track_caller]
pub(crate) fn wait_all() {
    unimplemented!()
}
#[track_caller]
pub(crate) unsafe fn sync_warp(mask: u32) {
    unimplemented!()
}
#[track_caller]
pub(crate) unsafe fn shuffle(
    mode: WarpShuffleMode,
    mask: u32,
    value: u32,
    b: u32,
    width: u32,
) -> (u32, bool) {
    unimplemented!()
}
#[track_caller]
pub(crate) unsafe fn vote_all(mask: u32, p: bool) -> bool {
    unimplemented!()
}
#[track_caller]
pub(crate) unsafe fn vote_any(mask: u32, p: bool) -> bool {
    unimplemented!()
}
#[track_caller]
pub(crate) unsafe fn vote_ballot(mask: u32, p: bool) -> u32 {
    unimplemented!()
}
#[track_caller]
pub(crate) unsafe fn match_any_32(mask: u32, v: u32) -> u32 {
    unimplemented!()
}
#[track_caller]
pub(crate) unsafe fn match_any_64(mask: u32, v: u64) -> u32 {
    unimplemented!()
}
#[track_caller]
pub(crate) unsafe fn match_all_32(mask: u32, v: u32) -> bool {
    unimplemented!()
}
#[track_caller]
pub(crate) unsafe fn match_all_64(mask: u32, v: u64) -> bool {
    unimplemented!()
}
#[track_caller]
pub(crate) unsafe fn reduce(mask: u32, v: u32, op: WarpReductionOp, signed: bool) -> u32 {
    unimplemented!()
}
#[track_caller]
pub(crate) unsafe fn copy_async<T, const B: usize>(dst: u32, src: GlobalView, i: usize) {
    unimplemented!()
}
#[track_caller]
pub(crate) unsafe fn copy_async_zfill<T, const B: usize>(
    dst: u32,
    src: GlobalView,
    i: usize,
    valid: u32,
) {
    unimplemented!()
}
#[track_caller]
pub(crate) unsafe fn ldmatrix_x1(a: u32) -> [u32; 1] {
    unimplemented!()
}
#[track_caller]
pub(crate) unsafe fn ldmatrix_x1_trans(a: u32) -> [u32; 1] {
    unimplemented!()
}
#[track_caller]
pub(crate) unsafe fn ldmatrix_x2(a: u32) -> [u32; 2] {
    unimplemented!()
}
#[track_caller]
pub(crate) unsafe fn ldmatrix_x2_trans(a: u32) -> [u32; 2] {
    unimplemented!()
}
#[track_caller]
pub(crate) unsafe fn ldmatrix_x4(a: u32) -> [u32; 4] {
    unimplemented!()
}
#[track_caller]
pub(crate) unsafe fn ldmatrix_x4_trans(a: u32) -> [u32; 4] {
    unimplemented!()
}
#[track_caller]
pub(crate) unsafe fn m16n8k8_tf32(d: [f32; 4], a: [u32; 4], b: [u32; 2]) -> [f32; 4] {
    unimplemented!()
}
#[track_caller]
pub(crate) unsafe fn m16n8k16_f16(d: [f32; 4], a: [u32; 4], b: [u32; 2]) -> [f32; 4] {
    unimplemented!()
}
#[track_caller]
pub(crate) unsafe fn m16n8k16_bf16(d: [f32; 4], a: [u32; 4], b: [u32; 2]) -> [f32; 4] {
    unimplemented!()
}

/// What a warp reduction computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WarpReductionOp {
    /// a
    Add,
    /// a
    Min,
    /// a
    Max,
    /// a
    And,
    /// a
    Or,
    /// a
    Xor,
}
#[derive(Debug, Clone, Copy)]
pub(crate) struct GlobalView {
    len: usize,
}
#[derive(Debug, Clone, Copy)]
pub struct SharedView {
    len: u32,
}
#[derive(Debug)]
pub struct SharedSymbol {}
pub trait AtomicAdd {}
pub trait AtomicInteger {}
impl<T> AtomicAdd for T {}
impl<T> AtomicInteger for T {}
impl SharedSymbol {
    #[doc(hidden)]
    pub const fn new(name: &'static str, len: u32, element: u32) -> Self {
        Self {}
    }
    #[doc(hidden)]
    pub fn view<T: Element>(&'static self) -> crate::shared::Shared<T> {
        unimplemented!()
    }
}
impl GlobalView {
    pub(crate) fn len(self) -> usize {
        self.len
    }
    #[track_caller]
    pub(crate) fn slice<T>(self, s: usize, l: usize) -> Self {
        unimplemented!()
    }
    #[track_caller]
    pub(crate) unsafe fn load<T: Element>(self, i: usize) -> T {
        unimplemented!()
    }
    #[track_caller]
    pub(crate) unsafe fn store<T: Element>(self, i: usize, v: T) {
        unimplemented!()
    }
    #[track_caller]
    pub(crate) unsafe fn load_vec<T: Element, const N: usize>(self, i: usize) -> [T; N] {
        unimplemented!()
    }
    #[track_caller]
    pub(crate) unsafe fn store_vec<T: Element, const N: usize>(self, i: usize, v: [T; N]) {
        unimplemented!()
    }
    #[track_caller]
    pub(crate) unsafe fn atomic_add<T: Element>(self, i: usize, v: T) -> T {
        unimplemented!()
    }
    #[track_caller]
    pub(crate) unsafe fn atomic_max<T: Element>(self, i: usize, v: T) -> T {
        unimplemented!()
    }
    #[track_caller]
    pub(crate) unsafe fn atomic_min<T: Element>(self, i: usize, v: T) -> T {
        unimplemented!()
    }
    #[track_caller]
    pub(crate) unsafe fn atomic_exchange<T: Element>(self, i: usize, v: T) -> T {
        unimplemented!()
    }
    #[track_caller]
    pub(crate) unsafe fn atomic_store<T: Element>(self, i: usize, v: T) -> T {
        unimplemented!()
    }
    #[track_caller]
    pub(crate) unsafe fn atomic_load<T: Element>(self, i: usize) -> T {
        unimplemented!()
    }
    #[track_caller]
    pub(crate) unsafe fn atomic_cas<T: Element>(self, i: usize, e: T, v: T) -> T {
        unimplemented!()
    }
    #[track_caller]
    pub(crate) unsafe fn new(ptr: *const u8, len: usize) -> Self {
        unimplemented!()
    }
    #[track_caller]
    pub(crate) unsafe fn load_readonly<T: Element>(self, i: usize) -> T {
        unimplemented!()
    }
    #[track_caller]
    pub(crate) unsafe fn load_vec_readonly<T: Element, const N: usize>(self, i: usize) -> [T; N] {
        unimplemented!()
    }
}
impl SharedView {
    pub(crate) fn len(self) -> u32 {
        self.len
    }
    #[track_caller]
    pub(crate) fn slice<T>(self, s: u32, l: u32) -> Self {
        unimplemented!()
    }
    #[track_caller]
    pub(crate) unsafe fn load<T: Element>(self, i: u32) -> T {
        unimplemented!()
    }
    #[track_caller]
    pub(crate) unsafe fn store<T: Element>(self, i: u32, v: T) {
        unimplemented!()
    }
    #[track_caller]
    pub(crate) unsafe fn load_vec<T: Element, const N: usize>(self, i: u32) -> [T; N] {
        unimplemented!()
    }
    #[track_caller]
    pub(crate) unsafe fn store_vec<T: Element, const N: usize>(self, i: u32, v: [T; N]) {
        unimplemented!()
    }
    #[track_caller]
    pub(crate) unsafe fn atomic_add<T: Element>(self, i: u32, v: T) -> T {
        unimplemented!()
    }
    #[track_caller]
    pub(crate) unsafe fn atomic_max<T: Element>(self, i: u32, v: T) -> T {
        unimplemented!()
    }
    #[track_caller]
    pub(crate) unsafe fn atomic_min<T: Element>(self, i: u32, v: T) -> T {
        unimplemented!()
    }
    #[track_caller]
    pub(crate) unsafe fn atomic_exchange<T: Element>(self, i: u32, v: T) -> T {
        unimplemented!()
    }
    #[track_caller]
    pub(crate) unsafe fn atomic_store<T: Element>(self, i: u32, v: T) -> T {
        unimplemented!()
    }
    #[track_caller]
    pub(crate) unsafe fn atomic_load<T: Element>(self, i: u32) -> T {
        unimplemented!()
    }
    #[track_caller]
    pub(crate) unsafe fn atomic_cas<T: Element>(self, i: u32, e: T, v: T) -> T {
        unimplemented!()
    }
    #[track_caller]
    pub(crate) fn dynamic<T>(o: u32, l: u32) -> Self {
        unimplemented!()
    }
    #[track_caller]
    pub(crate) fn cast<T, U>(self) -> Self {
        unimplemented!()
    }
    #[track_caller]
    pub(crate) fn addr<T>(self, i: u32) -> u32 {
        unimplemented!()
    }
}
pub(crate) use super::math::*;
