//! Loops that are unrolled in the source.
//!
//! An array with a loop variable as index stays in registers only if the loop is unrolled before the
//! optimiser decides where the array lives, and Rust has no way to request that. These loops are unrolled in
//! the source: in `unroll!(4, |i| { .. })` the body stands four times, with the constants 0 to 3 for `i`. On
//! a host, where arrays are in memory in any case, the macro is an ordinary loop, which makes the emulator's
//! code a good deal smaller. A `break` in the body therefore names an outer loop.

macro_rules! unroll {
    (2, |$i:ident| $body:block) => { $crate::parts::unroll::repeat!(2, |$i| $body; 0 1) };
    (3, |$i:ident| $body:block) => { $crate::parts::unroll::repeat!(3, |$i| $body; 0 1 2) };
    (4, |$i:ident| $body:block) => { $crate::parts::unroll::repeat!(4, |$i| $body; 0 1 2 3) };
    (5, |$i:ident| $body:block) => { $crate::parts::unroll::repeat!(5, |$i| $body; 0 1 2 3 4) };
    (7, |$i:ident| $body:block) => { $crate::parts::unroll::repeat!(7, |$i| $body; 0 1 2 3 4 5 6) };
    (8, |$i:ident| $body:block) => { $crate::parts::unroll::repeat!(8, |$i| $body; 0 1 2 3 4 5 6 7) };
    (9, |$i:ident| $body:block) => { $crate::parts::unroll::repeat!(9, |$i| $body; 0 1 2 3 4 5 6 7 8) };
    (11, |$i:ident| $body:block) => {
        $crate::parts::unroll::repeat!(11, |$i| $body; 0 1 2 3 4 5 6 7 8 9 10)
    };
    (16, |$i:ident| $body:block) => {
        $crate::parts::unroll::repeat!(16, |$i| $body; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    (32, |$i:ident| $body:block) => {
        $crate::parts::unroll::repeat!(32, |$i| $body; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22
            23 24 25 26 27 28 29 30 31)
    };
}

#[cfg(target_arch = "nvptx64")]
macro_rules! repeat {
    ($count:literal, |$i:ident| $body:block; $($n:literal)*) => {
        $({
            let $i: usize = $n;
            $body
        })*
    };
}

#[cfg(not(target_arch = "nvptx64"))]
macro_rules! repeat {
    ($count:literal, |$i:ident| $body:block; $($n:literal)*) => {
        for $i in $crate::parts::unroll::up_to($count) $body
    };
}

/// The numbers below `count`. (Clippy would replace a loop over a literal range.)
#[cfg(not(target_arch = "nvptx64"))]
#[inline(always)]
pub(crate) const fn up_to(count: usize) -> core::ops::Range<usize> {
    0..count
}

pub(crate) use {repeat, unroll};
