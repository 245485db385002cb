//! Warpgroup multiplication, the asynchronous proxy, and register counts.

use core::arch::asm;

/// Nothing: the emulator keeps its checks here.
#[derive(Debug, Clone)]
pub(crate) struct AccumulatorState;

impl AccumulatorState {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self
    }

    #[inline(always)]
    pub(crate) fn touch<T: Tile>(&self, values: &mut T) {
        values.pin();
    }

    #[inline(always)]
    pub(crate) fn hand_over<T: Tile>(&self, values: &mut T) {
        values.pin();
        // SAFETY: orders register accesses.
        unsafe {
            asm!(
                "wgmma.fence.sync.aligned;",
                options(nostack, preserves_flags)
            )
        }
    }
}

/// Accumulator registers of one thread.
pub trait Tile {
    #[doc(hidden)]
    unsafe fn tf32(&mut self, a: u64, b: u64, accumulate: u32);
    #[doc(hidden)]
    unsafe fn f16(&mut self, a: u64, b: u64, accumulate: u32);
    #[doc(hidden)]
    unsafe fn bf16(&mut self, a: u64, b: u64, accumulate: u32);
    /// Passes the registers through an empty piece of assembly, which arithmetic on them cannot
    /// move across.
    #[doc(hidden)]
    fn pin(&mut self);
}

macro_rules! multiplication {
    ($name:ident, $n:literal, $shape:literal, $tail:literal, $($i:literal)*) => {
        #[inline(always)]
        unsafe fn $name(&mut self, a: u64, b: u64, accumulate: u32) {
            // SAFETY: a whole warpgroup is here and the descriptors are readable, by the caller's
            // promise.
            unsafe {
                asm!(
                    concat!(
                        "{{ .reg .pred p; setp.ne.b32 p, {accumulate}, 0; wgmma.mma_async.sync.aligned.m64n", $n, $shape, " {{",
                        multiplication!(@list $($i)*),
                        "}}, {a}, {b}, p, ", $tail, "; }}",
                    ),
                    $(inout(reg32) self[$i],)*
                    a = in(reg64) a, b = in(reg64) b, accumulate = in(reg32) accumulate,
                    options(nostack, preserves_flags),
                );
            }
        }
    };
    (@list $first:literal $($i:literal)*) => {
        concat!("{", $first, "}", $(",{", $i, "}"),*)
    };
}

macro_rules! tiles {
    ($($n:literal: $($i:literal)*;)*) => {$(
        impl Tile for [f32; $n / 2] {
            multiplication!(tf32, $n, "k8.f32.tf32.tf32", "1, 1", $($i)*);
            multiplication!(f16, $n, "k16.f32.f16.f16", "1, 1, 0, 0", $($i)*);
            multiplication!(bf16, $n, "k16.f32.bf16.bf16", "1, 1, 0, 0", $($i)*);

            #[inline(always)]
            fn pin(&mut self) {
                // SAFETY: a comment, no instruction.
                unsafe {
                    asm!(concat!("/* ", multiplication!(@list $($i)*), " */"), $(inout(reg32) self[$i],)* options(nostack, preserves_flags));
                }
            }
        }
    )*};
}

tiles! {
    8: 0 1 2 3;
    16: 0 1 2 3 4 5 6 7;
    24: 0 1 2 3 4 5 6 7 8 9 10 11;
    32: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15;
    40: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19;
    48: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23;
    56: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27;
    64: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31;
    96: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
        32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47;
    128: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
        32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63;
    256: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
         32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
         64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95
         96 97 98 99 100 101 102 103 104 105 106 107 108 109 110 111 112 113 114 115 116 117 118 119 120 121 122 123 124 125 126 127;
}

macro_rules! multiply {
    ($($name:ident)*) => {$(
        #[inline(always)]
        pub(crate) unsafe fn $name<const R: usize>(d: &mut [f32; R], _: &mut AccumulatorState, a: u64, b: u64, accumulate: bool)
        where
            [f32; R]: Tile,
        {
            // SAFETY: the caller's promise.
            unsafe { d.$name(a, b, u32::from(accumulate)) }
        }
    )*};
}

multiply!(tf32 f16 bf16);

#[inline(always)]
pub(crate) fn wgmma_commit_group() {
    // SAFETY: closes a group.
    unsafe {
        asm!(
            "wgmma.commit_group.sync.aligned;",
            options(nostack, preserves_flags)
        )
    }
}

#[inline(always)]
pub(crate) fn wgmma_wait_group<const N: u32>() {
    // SAFETY: waits.
    unsafe {
        asm!("wgmma.wait_group.sync.aligned {n};", n = const N, options(nostack, preserves_flags))
    }
}

#[inline(always)]
pub(crate) fn fence_async_proxy() {
    // SAFETY: orders memory accesses.
    unsafe {
        asm!(
            "fence.proxy.async.shared::cta;",
            options(nostack, preserves_flags)
        )
    }
}

#[inline(always)]
pub(crate) fn increase_registers<const N: u32>() {
    // SAFETY: the assembler allots registers accordingly.
    unsafe {
        asm!("setmaxnreg.inc.sync.aligned.u32 {n};", n = const N, options(nostack, preserves_flags))
    }
}

#[inline(always)]
pub(crate) fn decrease_registers<const N: u32>() {
    // SAFETY: the assembler allots registers accordingly.
    unsafe {
        asm!("setmaxnreg.dec.sync.aligned.u32 {n};", n = const N, options(nostack, preserves_flags))
    }
}
