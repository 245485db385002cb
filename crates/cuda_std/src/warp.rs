//! Operations among the 32 threads (lanes) of a warp.
//!
//! Names and signatures are Rust-CUDA's. Each operation takes a `mask` of the participating lanes. The
//! calling lane must be in its own mask. All lanes of the mask must call the same operation with the same
//! mask. They wait for each other.
//!
//! **Emulator**, for all operations: lanes meet as described. It reports a lane outside its own mask, a
//! lane of the mask that has exited or waits elsewhere for good, and lanes that disagree about the
//! operation. [`sync_warp`] orders memory accesses among its lanes; shuffles, votes, matches and reductions
//! do not, as in PTX.

use crate::backend;
use half::{bf16, f16};

pub use crate::common::{WarpReductionOp, WarpShuffleMode};

/// The mask of all lanes of a warp.
pub const ALL_LANES: u32 = u32::MAX;

plain_functions! {
    /// Returns the thread's lane in its warp, 0 to 31. `%laneid`.
    ///
    /// Emulator: the thread's index in the block, dimensions flattened with x the fastest, modulo 32.
    #[must_use]
    fn lane_id() -> u32 = backend::lane_id();

    /// Returns the mask of lanes that execute this call together. `activemask.b32`.
    ///
    /// Emulator: the lanes that have not exited. On hardware the mask may be any subset of them that
    /// contains the caller. It does not prove that these lanes reach a later operation.
    #[must_use]
    fn activemask() -> u32 = backend::activemask();
}

device_functions! {
    /// Waits for the lanes in `mask`, and orders their memory accesses. `bar.warp.sync`.
    ///
    /// # Safety
    /// The calling lane is in `mask`, and no lane in `mask` has exited.
    unsafe fn sync_warp(mask: u32) = backend::sync_warp(mask);
}

/// A value that warp shuffles can carry.
pub trait WarpShuffleValue: Sized {
    /// Shuffles `value`.
    ///
    /// # Safety
    /// As for [`warp_shuffle_idx`]; `mode` is a constant.
    unsafe fn shuffle(
        mode: WarpShuffleMode,
        mask: u32,
        value: Self,
        b: u32,
        width: u32,
    ) -> (Self, bool);
}

macro_rules! shuffle_values {
    ($($(#[$hidden:meta])? $ty:ty: $value:ident => $to:expr, $word:ident => $from:expr;)*) => {$(
        $(#[$hidden])?
        impl WarpShuffleValue for $ty {
            #[track_caller]
            #[inline(always)]
            unsafe fn shuffle(mode: WarpShuffleMode, mask: u32, $value: Self, b: u32, width: u32) -> (Self, bool) {
                // SAFETY: the caller's promise is the backend's.
                let ($word, active) = unsafe { backend::shuffle(mode, mask, $to, b, width) };
                ($from, active)
            }
        }
    )*};
}

shuffle_values! {
    u32: v => v, w => w;
    i32: v => v as u32, w => w as i32;
    f32: v => v.to_bits(), w => f32::from_bits(w);
    u16: v => u32::from(v), w => w as u16;
    i16: v => v as u32, w => w as i16;
    u8: v => u32::from(v), w => w as u8;
    i8: v => v as u32, w => w as i8;
    bool: v => u32::from(v), w => w != 0;
    // Hidden, because users of convfuse see the pages of f16 and bf16, which list their traits.
    #[doc(hidden)] f16: v => u32::from(v.to_bits()), w => f16::from_bits(w as u16);
    #[doc(hidden)] bf16: v => u32::from(v.to_bits()), w => bf16::from_bits(w as u16);
}

macro_rules! wide_shuffle_values {
    ($($ty:ty: $value:ident => $to:expr, $word:ident => $from:expr;)*) => {$(
        impl WarpShuffleValue for $ty {
            #[track_caller]
            #[inline(always)]
            unsafe fn shuffle(mode: WarpShuffleMode, mask: u32, $value: Self, b: u32, width: u32) -> (Self, bool) {
                let bits: u64 = $to;
                // SAFETY: the caller's promise is the backend's, for each half.
                let (low, active) = unsafe { backend::shuffle(mode, mask, bits as u32, b, width) };
                // SAFETY: as above.
                let (high, _) = unsafe { backend::shuffle(mode, mask, (bits >> 32) as u32, b, width) };
                let $word = u64::from(high) << 32 | u64::from(low);
                ($from, active)
            }
        }
    )*};
}

wide_shuffle_values! {
    u64: v => v, w => w;
    i64: v => v as u64, w => w as i64;
    f64: v => v.to_bits(), w => f64::from_bits(w);
}

macro_rules! shuffles {
    ($($(#[$doc:meta])* $name:ident($b:ident) = $mode:ident;)*) => { device_functions! {$(
        $(#[$doc])*
        ///
        /// Returns the source lane's value and `true`. If the source lies outside the section of `width`
        /// lanes (a power of two up to 32), returns the caller's own value and `false`. Values of 8 bytes
        /// take two instructions.
        ///
        /// # Safety
        /// The calling lane and the source lane are in `mask`, all lanes in `mask` make this call,
        /// and `width` is a power of two up to 32.
        unsafe fn $name[T: WarpShuffleValue](mask: u32, value: T, $b: u32, width: u32) -> (T, bool) =
            T::shuffle(WarpShuffleMode::$mode, mask, value, $b, width);
    )*}};
}

shuffles! {
    /// Reads the value of lane `idx` (modulo `width`) of the caller's section. `shfl.sync.idx.b32`.
    warp_shuffle_idx(idx) = Idx;
    /// Reads the value of the lane `delta` below the caller. `shfl.sync.up.b32`.
    warp_shuffle_up(delta) = Up;
    /// Reads the value of the lane `delta` above the caller. `shfl.sync.down.b32`.
    warp_shuffle_down(delta) = Down;
    /// Reads the value of the lane whose number is the caller's XOR `lane_mask`. `shfl.sync.bfly.b32`. A
    /// source in a lower section can be read, one in a higher section cannot.
    warp_shuffle_xor(lane_mask) = Xor;
}

device_functions! {
    /// Returns whether `predicate` holds in all lanes of `mask`. `vote.sync.all.pred`.
    ///
    /// # Safety
    /// The calling lane is in `mask`, and all lanes in `mask` make this call.
    unsafe fn warp_vote_all(mask: u32, predicate: bool) -> bool = backend::vote_all(mask, predicate);

    /// Returns whether `predicate` holds in some lane of `mask`. `vote.sync.any.pred`.
    ///
    /// # Safety
    /// The calling lane is in `mask`, and all lanes in `mask` make this call.
    unsafe fn warp_vote_any(mask: u32, predicate: bool) -> bool = backend::vote_any(mask, predicate);

    /// Returns the lanes of `mask` in which `predicate` holds. `vote.sync.ballot.b32`.
    ///
    /// # Safety
    /// The calling lane is in `mask`, and all lanes in `mask` make this call.
    unsafe fn warp_vote_ballot(mask: u32, predicate: bool) -> u32 = backend::vote_ballot(mask, predicate);
}

/// A value that warp matches can compare: 4 or 8 bytes, compared bit by bit.
pub trait WarpMatchValue: Sized {
    /// Performs [`warp_match_any`].
    ///
    /// # Safety
    /// As for [`warp_match_any`].
    unsafe fn match_any(mask: u32, value: Self) -> u32;
    /// Performs [`warp_match_all`].
    ///
    /// # Safety
    /// As for [`warp_match_all`].
    unsafe fn match_all(mask: u32, value: Self) -> Option<u32>;
}

macro_rules! match_values {
    ($($ty:ty: $any:ident $all:ident $value:ident => $bits:expr;)*) => {$(
        impl WarpMatchValue for $ty {
            #[track_caller]
            #[inline(always)]
            unsafe fn match_any(mask: u32, $value: Self) -> u32 {
                // SAFETY: the caller's promise is the backend's.
                unsafe { backend::$any(mask, $bits) }
            }

            #[track_caller]
            #[inline(always)]
            unsafe fn match_all(mask: u32, $value: Self) -> Option<u32> {
                // SAFETY: the caller's promise is the backend's.
                unsafe { backend::$all(mask, $bits) }.then_some(mask)
            }
        }
    )*};
}

match_values! {
    u32: match_any_32 match_all_32 v => v;
    i32: match_any_32 match_all_32 v => v as u32;
    f32: match_any_32 match_all_32 v => v.to_bits();
    u64: match_any_64 match_all_64 v => v;
    i64: match_any_64 match_all_64 v => v as u64;
    f64: match_any_64 match_all_64 v => v.to_bits();
}

device_functions! {
    /// Returns the lanes of `mask` whose `value` has the same bits as the caller's. `match.any.sync`.
    ///
    /// # Safety
    /// The calling lane is in `mask`, and all lanes in `mask` make this call.
    unsafe fn warp_match_any[T: WarpMatchValue](mask: u32, value: T) -> u32 = T::match_any(mask, value);

    /// Returns `Some(mask)` if `value` has the same bits in all lanes of `mask`. `match.all.sync`.
    ///
    /// # Safety
    /// The calling lane is in `mask`, and all lanes in `mask` make this call.
    unsafe fn warp_match_all[T: WarpMatchValue](mask: u32, value: T) -> Option<u32> =
        T::match_all(mask, value);
}

/// An integer that warps can reduce.
pub trait WarpReduceValue: Sized {
    /// Performs [`warp_reduce`].
    ///
    /// # Safety
    /// As for [`warp_reduce`].
    unsafe fn reduce(mask: u32, value: Self, op: WarpReductionOp) -> Self;
}

impl WarpReduceValue for u32 {
    #[track_caller]
    #[inline(always)]
    unsafe fn reduce(mask: u32, value: Self, op: WarpReductionOp) -> Self {
        // SAFETY: the caller's promise is the backend's.
        unsafe { backend::reduce(mask, value, op, false) }
    }
}

impl WarpReduceValue for i32 {
    #[track_caller]
    #[inline(always)]
    unsafe fn reduce(mask: u32, value: Self, op: WarpReductionOp) -> Self {
        // SAFETY: the caller's promise is the backend's.
        unsafe { backend::reduce(mask, value as u32, op, true) as i32 }
    }
}

device_functions! {
    /// Reduces the values of the lanes in `mask` with `op`; sums wrap. `redux.sync` (sm_80 and later).
    ///
    /// # Safety
    /// The calling lane is in `mask`, and all lanes in `mask` make this call with the same `op`.
    unsafe fn warp_reduce[T: WarpReduceValue](mask: u32, value: T, op: WarpReductionOp) -> T =
        T::reduce(mask, value, op);
}

macro_rules! reductions {
    ($($name:ident $op:ident $what:literal;)*) => { device_functions! {$(
        #[doc = concat!("The ", $what, " over the lanes of `mask`; see [`warp_reduce`].")]
        ///
        /// # Safety
        /// As for [`warp_reduce`].
        unsafe fn $name[T: WarpReduceValue](mask: u32, value: T) -> T =
            T::reduce(mask, value, WarpReductionOp::$op);
    )*}};
}

reductions! {
    warp_reduce_add Add "wrapping sum";
    warp_reduce_min Min "minimum";
    warp_reduce_max Max "maximum";
    warp_reduce_and And "bitwise and";
    warp_reduce_or Or "bitwise or";
    warp_reduce_xor Xor "bitwise exclusive or";
}
