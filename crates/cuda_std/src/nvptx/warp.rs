//! Warp operations.

use core::arch::asm;

use crate::common::{WarpReductionOp, WarpShuffleMode};

unsafe extern "C" {
    #[link_name = "llvm.nvvm.read.ptx.sreg.laneid"]
    fn laneid() -> u32;
    #[link_name = "llvm.nvvm.bar.warp.sync"]
    fn bar_warp_sync(mask: u32);
    #[link_name = "llvm.nvvm.shfl.sync.idx.i32"]
    fn shfl_idx(mask: u32, value: u32, lane: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.up.i32"]
    fn shfl_up(mask: u32, value: u32, delta: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.down.i32"]
    fn shfl_down(mask: u32, value: u32, delta: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.bfly.i32"]
    fn shfl_xor(mask: u32, value: u32, lane_mask: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.vote.all.sync"]
    fn vote_all_sync(mask: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.vote.any.sync"]
    fn vote_any_sync(mask: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.vote.ballot.sync"]
    fn vote_ballot_sync(mask: u32, predicate: bool) -> u32;
    #[link_name = "llvm.nvvm.match.any.sync.i32"]
    fn match_any_sync_32(mask: u32, value: u32) -> u32;
    #[link_name = "llvm.nvvm.match.any.sync.i64"]
    fn match_any_sync_64(mask: u32, value: u64) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.add"]
    fn redux_add(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.umin"]
    fn redux_umin(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.umax"]
    fn redux_umax(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.min"]
    fn redux_min(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.max"]
    fn redux_max(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.and"]
    fn redux_and(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.or"]
    fn redux_or(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.xor"]
    fn redux_xor(value: u32, mask: u32) -> u32;
}

instructions! {
    /// Not `pure`, because the result depends on the place in the program.
    [nomem] fn activemask() -> mask: u32 = "activemask.b32 {0};";
    [nomem] unsafe fn match_all_sync_32(reg32 value: u32, reg32 mask: u32) -> all: u32 =
        "{{ .reg .pred p; match.all.sync.b32 {0}|p, {1}, {2}; }}";
    [nomem] unsafe fn match_all_sync_64(reg64 value: u64, reg32 mask: u32) -> all: u32 =
        "{{ .reg .pred p; match.all.sync.b64 {0}|p, {1}, {2}; }}";
}

/// `shfl.sync`. The arguments determine whether the source is inside the section. The instruction's
/// predicate is thus not needed, and the computation is removed if its result is unused.
#[inline(always)]
pub(crate) unsafe fn shuffle(
    mode: WarpShuffleMode,
    mask: u32,
    value: u32,
    b: u32,
    width: u32,
) -> (u32, bool) {
    let lane = lane_id();
    let section = (32 - width) << 8;
    let first = lane & !(width - 1);
    let last = first | (width - 1);
    // SAFETY: the lanes of `mask` are here, by the caller's promise.
    unsafe {
        match mode {
            WarpShuffleMode::Idx => (shfl_idx(mask, value, b, section | 0x1f), true),
            WarpShuffleMode::Up => (shfl_up(mask, value, b, section), b <= lane - first),
            WarpShuffleMode::Down => (shfl_down(mask, value, b, section | 0x1f), b <= last - lane),
            WarpShuffleMode::Xor => (shfl_xor(mask, value, b, section | 0x1f), lane ^ b <= last),
        }
    }
}

backend_functions! {
    // SAFETY: reads a register.
    fn lane_id() -> u32 = unsafe { laneid() };
    unsafe fn sync_warp(mask: u32) = bar_warp_sync(mask);
    unsafe fn vote_all(mask: u32, predicate: bool) -> bool = vote_all_sync(mask, predicate);
    unsafe fn vote_any(mask: u32, predicate: bool) -> bool = vote_any_sync(mask, predicate);
    unsafe fn vote_ballot(mask: u32, predicate: bool) -> u32 = vote_ballot_sync(mask, predicate);
    unsafe fn match_any_32(mask: u32, value: u32) -> u32 = match_any_sync_32(mask, value);
    unsafe fn match_any_64(mask: u32, value: u64) -> u32 = match_any_sync_64(mask, value);

    /// All values are equal if and only if every lane's set of matching lanes is the whole mask. The
    /// intrinsic for `match.all` returns a pair, which foreign functions in Rust cannot.
    unsafe fn match_all_32(mask: u32, value: u32) -> bool = match_all_sync_32(value, mask) == mask;

    /// See [`match_all_32`].
    unsafe fn match_all_64(mask: u32, value: u64) -> bool = match_all_sync_64(value, mask) == mask;

    unsafe fn reduce(mask: u32, value: u32, op: WarpReductionOp, signed: bool) -> u32 = match (op, signed) {
        (WarpReductionOp::Add, _) => redux_add(value, mask),
        (WarpReductionOp::Min, false) => redux_umin(value, mask),
        (WarpReductionOp::Max, false) => redux_umax(value, mask),
        (WarpReductionOp::Min, true) => redux_min(value, mask),
        (WarpReductionOp::Max, true) => redux_max(value, mask),
        (WarpReductionOp::And, _) => redux_and(value, mask),
        (WarpReductionOp::Or, _) => redux_or(value, mask),
        (WarpReductionOp::Xor, _) => redux_xor(value, mask),
    };
}
