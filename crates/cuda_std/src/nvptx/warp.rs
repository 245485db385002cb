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

#[inline(always)]
pub(crate) fn lane_id() -> u32 {
    // SAFETY: reads a register.
    unsafe { laneid() }
}

#[inline(always)]
pub(crate) fn activemask() -> u32 {
    let mask: u32;
    // SAFETY: reads the state of the warp. Not `pure`: it differs from place to place.
    unsafe {
        asm!("activemask.b32 {0};", out(reg32) mask, options(nomem, nostack, preserves_flags))
    }
    mask
}

#[inline(always)]
pub(crate) unsafe fn sync_warp(mask: u32) {
    // SAFETY: the lanes of `mask` are here, by the caller's promise.
    unsafe { bar_warp_sync(mask) }
}

/// `shfl.sync`. Whether the source was inside the section follows from the arguments, so the
/// instruction's predicate is not needed, and the computation vanishes where nobody asks.
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

#[inline(always)]
pub(crate) unsafe fn vote_all(mask: u32, predicate: bool) -> bool {
    // SAFETY: the lanes of `mask` are here, by the caller's promise.
    unsafe { vote_all_sync(mask, predicate) }
}

#[inline(always)]
pub(crate) unsafe fn vote_any(mask: u32, predicate: bool) -> bool {
    // SAFETY: the lanes of `mask` are here, by the caller's promise.
    unsafe { vote_any_sync(mask, predicate) }
}

#[inline(always)]
pub(crate) unsafe fn vote_ballot(mask: u32, predicate: bool) -> u32 {
    // SAFETY: the lanes of `mask` are here, by the caller's promise.
    unsafe { vote_ballot_sync(mask, predicate) }
}

#[inline(always)]
pub(crate) unsafe fn match_any_32(mask: u32, value: u32) -> u32 {
    // SAFETY: the lanes of `mask` are here, by the caller's promise.
    unsafe { match_any_sync_32(mask, value) }
}

#[inline(always)]
pub(crate) unsafe fn match_any_64(mask: u32, value: u64) -> u32 {
    // SAFETY: the lanes of `mask` are here, by the caller's promise.
    unsafe { match_any_sync_64(mask, value) }
}

/// All values agree exactly if everyone's set of agreeing lanes is the whole mask. The intrinsic
/// for `match.all` returns a pair, which foreign functions cannot in Rust.
#[inline(always)]
pub(crate) unsafe fn match_all_32(mask: u32, value: u32) -> bool {
    let all: u32;
    // SAFETY: the lanes of `mask` are here, by the caller's promise.
    unsafe {
        asm!(
            "{{ .reg .pred p; match.all.sync.b32 {0}|p, {1}, {2}; }}",
            out(reg32) all, in(reg32) value, in(reg32) mask,
            options(nomem, nostack, preserves_flags),
        );
    }
    all == mask
}

/// See [`match_all_32`].
#[inline(always)]
pub(crate) unsafe fn match_all_64(mask: u32, value: u64) -> bool {
    let all: u32;
    // SAFETY: the lanes of `mask` are here, by the caller's promise.
    unsafe {
        asm!(
            "{{ .reg .pred p; match.all.sync.b64 {0}|p, {1}, {2}; }}",
            out(reg32) all, in(reg64) value, in(reg32) mask,
            options(nomem, nostack, preserves_flags),
        );
    }
    all == mask
}

#[inline(always)]
pub(crate) unsafe fn reduce(mask: u32, value: u32, op: WarpReductionOp, signed: bool) -> u32 {
    // SAFETY: the lanes of `mask` are here, by the caller's promise.
    unsafe {
        match (op, signed) {
            (WarpReductionOp::Add, _) => redux_add(value, mask),
            (WarpReductionOp::Min, false) => redux_umin(value, mask),
            (WarpReductionOp::Max, false) => redux_umax(value, mask),
            (WarpReductionOp::Min, true) => redux_min(value, mask),
            (WarpReductionOp::Max, true) => redux_max(value, mask),
            (WarpReductionOp::And, _) => redux_and(value, mask),
            (WarpReductionOp::Or, _) => redux_or(value, mask),
            (WarpReductionOp::Xor, _) => redux_xor(value, mask),
        }
    }
}
