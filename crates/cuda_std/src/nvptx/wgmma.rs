//! MMA batches: groups of `wgmma` instructions.

use core::arch::asm;

/// The accumulators of a thread as an instruction lists them, from operand 0 on: all of them, or those of
/// alternating groups of eight columns.
macro_rules! accumulators {
    (all 16) => {
        "{0},{1},{2},{3},{4},{5},{6},{7},{8},{9},{10},{11},{12},{13},{14},{15}"
    };
    (all 32) => {
        concat!(accumulators!(all 16), ",{16},{17},{18},{19},{20},{21},{22},{23},{24},{25},{26},{27},{28},{29},{30},{31}")
    };
    (all 64) => {
        concat!(
            accumulators!(all 32),
            ",{32},{33},{34},{35},{36},{37},{38},{39},{40},{41},{42},{43},{44},{45},{46},{47}",
            ",{48},{49},{50},{51},{52},{53},{54},{55},{56},{57},{58},{59},{60},{61},{62},{63}",
        )
    };
    (all 128) => {
        concat!(
            accumulators!(all 64),
            ",{64},{65},{66},{67},{68},{69},{70},{71},{72},{73},{74},{75},{76},{77},{78},{79}",
            ",{80},{81},{82},{83},{84},{85},{86},{87},{88},{89},{90},{91},{92},{93},{94},{95}",
            ",{96},{97},{98},{99},{100},{101},{102},{103},{104},{105},{106},{107},{108},{109},{110},{111}",
            ",{112},{113},{114},{115},{116},{117},{118},{119},{120},{121},{122},{123},{124},{125},{126},{127}",
        )
    };
    (even 64) => {
        concat!(
            "{0},{1},{2},{3},{8},{9},{10},{11},{16},{17},{18},{19},{24},{25},{26},{27},",
            "{32},{33},{34},{35},{40},{41},{42},{43},{48},{49},{50},{51},{56},{57},{58},{59}",
        )
    };
    (odd 64) => {
        concat!(
            "{4},{5},{6},{7},{12},{13},{14},{15},{20},{21},{22},{23},{28},{29},{30},{31},",
            "{36},{37},{38},{39},{44},{45},{46},{47},{52},{53},{54},{55},{60},{61},{62},{63}",
        )
    };
    (even 128) => {
        concat!(
            "{0},{1},{2},{3},{8},{9},{10},{11},{16},{17},{18},{19},{24},{25},{26},{27},",
            "{32},{33},{34},{35},{40},{41},{42},{43},{48},{49},{50},{51},{56},{57},{58},{59},",
            "{64},{65},{66},{67},{72},{73},{74},{75},{80},{81},{82},{83},{88},{89},{90},{91},",
            "{96},{97},{98},{99},{104},{105},{106},{107},{112},{113},{114},{115},{120},{121},{122},{123}",
        )
    };
    (odd 128) => {
        concat!(
            "{4},{5},{6},{7},{12},{13},{14},{15},{20},{21},{22},{23},{28},{29},{30},{31},",
            "{36},{37},{38},{39},{44},{45},{46},{47},{52},{53},{54},{55},{60},{61},{62},{63},",
            "{68},{69},{70},{71},{76},{77},{78},{79},{84},{85},{86},{87},{92},{93},{94},{95},",
            "{100},{101},{102},{103},{108},{109},{110},{111},{116},{117},{118},{119},{124},{125},{126},{127}",
        )
    };
}

/// Calls a macro with the given arguments, and with the indices of that many accumulators.
macro_rules! with_indices {
    (16, $macro:ident $arguments:tt) => {
        $macro! { $arguments 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 }
    };
    (32, $macro:ident $arguments:tt) => {
        $macro! { $arguments 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 }
    };
    (64, $macro:ident $arguments:tt) => {
        $macro! { $arguments
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
            32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
        }
    };
    (128, $macro:ident $arguments:tt) => {
        $macro! { $arguments
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
            32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
            64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95
            96 97 98 99 100 101 102 103 104 105 106 107 108 109 110 111 112 113 114 115 116 117 118 119 120 121 122 123 124 125 126 127
        }
    };
}

/// The text of an MMA step. A is in four registers, or is given by a descriptor like B.
macro_rules! step {
    ($ty:tt, $shape:literal, $which:ident $sums:tt, $w:ident $x:ident $y:ident $z:ident, $b:ident, $adds:literal) => {
        concat!(
            "wgmma.mma_async.sync.aligned.", $shape, ".f32.", $ty, ".", $ty, " {{", accumulators!($which $sums), "}}, {{{",
            stringify!($w), "},{", stringify!($x), "},{", stringify!($y), "},{", stringify!($z), "}}}, {",
            stringify!($b), "}, ", $adds, ", 1, 1, 0;",
        )
    };
    ($ty:tt, $shape:literal, $which:ident $sums:tt, $a:ident, $b:ident, $adds:literal) => {
        concat!(
            "wgmma.mma_async.sync.aligned.", $shape, ".f32.", $ty, ".", $ty, " {{", accumulators!($which $sums),
            "}}, {", stringify!($a), "}, {", stringify!($b), "}, ", $adds, ", 1, 1", step!(@transposed $ty), ";",
        )
    };
    // Operands of tf32 are never transposed.
    (@transposed "tf32") => { "" };
    (@transposed $ty:tt) => { ", 0, 0" };
}

/// Fence, steps, commit, and the wait if `$wait` is given. They form one assembly block, because between
/// issue and wait the accumulators belong to the tensor cores and the compiler must not touch them. A step
/// has an index, operands of A and an operand of B. The first step's predicate tells whether it adds to the
/// accumulator.
macro_rules! batch {
    ((registers out $name:ident, $sums:tt $n:tt, $rest:tt) $($i:literal)*) => {
        #[inline(always)]
        pub(crate) unsafe fn $name(a: &[[u32; 4]; $n], b: &[u64; $n]) -> [f32; $sums] {
            let mut d = [0.0_f32; $sums];
            batch!(@asm d a b out $sums $rest $($i)*);
            d
        }
    };
    ((registers inout $name:ident, $sums:tt $n:tt, $rest:tt) $($i:literal)*) => {
        #[inline(always)]
        pub(crate) unsafe fn $name(mut d: [f32; $sums], a: &[[u32; 4]; $n], b: &[u64; $n]) -> [f32; $sums] {
            batch!(@asm d a b inout $sums $rest $($i)*);
            d
        }
    };
    ((shared $how:tt $name:ident, $sums:tt $n:tt, $rest:tt) $($i:literal)*) => {
        #[inline(always)]
        pub(crate) unsafe fn $name(d: &mut [f32; $sums], a: &[u64; $n], b: &[u64; $n]) {
            batch!(@asm d a b $how $sums $rest $($i)*);
        }
    };
    (
        @asm $d:ident $of_a:ident $of_b:ident $how:tt $sums:tt
        (
            $ty:tt, $shape:literal, $predicates:literal $first:literal, $wait:literal;
            ($step:literal $([$w:ident $x:ident $y:ident $z:ident])? $($a:ident)?, $b:ident)
            $(($more_step:literal
                $([$more_w:ident $more_x:ident $more_y:ident $more_z:ident])? $($more_a:ident)?, $more_b:ident))*
        )
        $($i:literal)*
    ) => {
        // SAFETY: the caller promises that the whole warpgroup is here, that A and B are readable, and that
        // nobody accesses the result before the wait. Volatile and with memory clobbered, because the block
        // reads the stores of other threads.
        unsafe {
            asm!(
                "{{",
                $predicates,
                "setp.ne.b32 more, 1, 0;",
                "wgmma.fence.sync.aligned;",
                step!($ty, $shape, all $sums, $($w $x $y $z)? $($a)?, $b, $first),
                $(step!($ty, $shape, all $sums, $($more_w $more_x $more_y $more_z)? $($more_a)?, $more_b, "more"),)*
                concat!("wgmma.commit_group.sync.aligned;", $wait),
                "}}",
                $($how(reg32) $d[$i],)*
                $($w = in(reg32) $of_a[$step][0], $x = in(reg32) $of_a[$step][1], $y = in(reg32) $of_a[$step][2],
                    $z = in(reg32) $of_a[$step][3],)?
                $($a = in(reg64) $of_a[$step],)?
                $b = in(reg64) $of_b[$step],
                $(
                    $($more_w = in(reg32) $of_a[$more_step][0], $more_x = in(reg32) $of_a[$more_step][1],
                        $more_y = in(reg32) $of_a[$more_step][2], $more_z = in(reg32) $of_a[$more_step][3],)?
                    $($more_a = in(reg64) $of_a[$more_step],)?
                    $more_b = in(reg64) $of_b[$more_step],
                )*
                options(nostack),
            );
        }
    };
}

/// The steps of an MMA batch: their number, and A in registers or in shared memory.
macro_rules! with_steps {
    (registers 3, $how:tt $name:ident $sums:tt, ($($arguments:tt)*)) => {
        with_indices! { $sums, batch (registers $how $name, $sums 3, ($($arguments)*;
            (0 [w0 x0 y0 z0], b0) (1 [w1 x1 y1 z1], b1) (2 [w2 x2 y2 z2], b2))) }
    };
    (registers 5, $how:tt $name:ident $sums:tt, ($($arguments:tt)*)) => {
        with_indices! { $sums, batch (registers $how $name, $sums 5, ($($arguments)*;
            (0 [w0 x0 y0 z0], b0) (1 [w1 x1 y1 z1], b1) (2 [w2 x2 y2 z2], b2) (3 [w3 x3 y3 z3], b3)
            (4 [w4 x4 y4 z4], b4))) }
    };
    (registers 7, $how:tt $name:ident $sums:tt, ($($arguments:tt)*)) => {
        with_indices! { $sums, batch (registers $how $name, $sums 7, ($($arguments)*;
            (0 [w0 x0 y0 z0], b0) (1 [w1 x1 y1 z1], b1) (2 [w2 x2 y2 z2], b2) (3 [w3 x3 y3 z3], b3)
            (4 [w4 x4 y4 z4], b4) (5 [w5 x5 y5 z5], b5) (6 [w6 x6 y6 z6], b6))) }
    };
    (registers 9, $how:tt $name:ident $sums:tt, ($($arguments:tt)*)) => {
        with_indices! { $sums, batch (registers $how $name, $sums 9, ($($arguments)*;
            (0 [w0 x0 y0 z0], b0) (1 [w1 x1 y1 z1], b1) (2 [w2 x2 y2 z2], b2) (3 [w3 x3 y3 z3], b3)
            (4 [w4 x4 y4 z4], b4) (5 [w5 x5 y5 z5], b5) (6 [w6 x6 y6 z6], b6) (7 [w7 x7 y7 z7], b7)
            (8 [w8 x8 y8 z8], b8))) }
    };
    (registers 14, $how:tt $name:ident $sums:tt, ($($arguments:tt)*)) => {
        with_indices! { $sums, batch (registers $how $name, $sums 14, ($($arguments)*;
            (0 [w0 x0 y0 z0], b0) (1 [w1 x1 y1 z1], b1) (2 [w2 x2 y2 z2], b2) (3 [w3 x3 y3 z3], b3)
            (4 [w4 x4 y4 z4], b4) (5 [w5 x5 y5 z5], b5) (6 [w6 x6 y6 z6], b6) (7 [w7 x7 y7 z7], b7)
            (8 [w8 x8 y8 z8], b8) (9 [w9 x9 y9 z9], b9) (10 [w10 x10 y10 z10], b10) (11 [w11 x11 y11 z11], b11)
            (12 [w12 x12 y12 z12], b12) (13 [w13 x13 y13 z13], b13))) }
    };
    (shared 3, $how:tt $name:ident $sums:tt, ($($arguments:tt)*)) => {
        with_indices! { $sums, batch (shared $how $name, $sums 3, ($($arguments)*;
            (0 a0, b0) (1 a1, b1) (2 a2, b2))) }
    };
    (shared 4, $how:tt $name:ident $sums:tt, ($($arguments:tt)*)) => {
        with_indices! { $sums, batch (shared $how $name, $sums 4, ($($arguments)*;
            (0 a0, b0) (1 a1, b1) (2 a2, b2) (3 a3, b3))) }
    };
    (shared 8, $how:tt $name:ident $sums:tt, ($($arguments:tt)*)) => {
        with_indices! { $sums, batch (shared $how $name, $sums 8, ($($arguments)*;
            (0 a0, b0) (1 a1, b1) (2 a2, b2) (3 a3, b3) (4 a4, b4) (5 a5, b5) (6 a6, b6) (7 a7, b7))) }
    };
    (shared 9, $how:tt $name:ident $sums:tt, ($($arguments:tt)*)) => {
        with_indices! { $sums, batch (shared $how $name, $sums 9, ($($arguments)*;
            (0 a0, b0) (1 a1, b1) (2 a2, b2) (3 a3, b3) (4 a4, b4) (5 a5, b5) (6 a6, b6) (7 a7, b7)
            (8 a8, b8))) }
    };
}

/// MMA batches that start from zero or add to the accumulator.
macro_rules! batches {
    ($($how:ident $name:ident, $ty:tt, $shape:literal, $sums:tt, $a:ident $n:tt, $wait:literal;)*) => {$(
        batches! { @$how $a $n, $sums, $name, $ty, $shape, $wait }
    )*};
    (@start $a:ident $n:tt, $sums:tt, $name:ident, $ty:tt, $shape:literal, $wait:literal) => {
        with_steps! { $a $n, out $name $sums,
            ($ty, $shape, ".reg .pred first, more;\nsetp.ne.b32 first, 0, 0;" "first", $wait) }
    };
    (@add $a:ident $n:tt, $sums:tt, $name:ident, $ty:tt, $shape:literal, $wait:literal) => {
        with_steps! { $a $n, inout $name $sums, ($ty, $shape, ".reg .pred more;" "more", $wait) }
    };
}

batches! {
    start m64n32_f16_7, "f16", "m64n32k16", 16, registers 7, "\nwgmma.wait_group.sync.aligned 0;";
    start m64n32_bf16_7, "bf16", "m64n32k16", 16, registers 7, "\nwgmma.wait_group.sync.aligned 0;";
    start start_f16_5, "f16", "m64n64k16", 32, registers 5, "";
    start start_bf16_5, "bf16", "m64n64k16", 32, registers 5, "";
    start start_f16_9, "f16", "m64n64k16", 32, registers 9, "";
    start start_f16_14, "f16", "m64n64k16", 32, registers 14, "";
    add add_f16_3, "f16", "m64n64k16", 32, registers 3, "";
    add add_bf16_3, "bf16", "m64n64k16", 32, registers 3, "";
    start start_shared_n128_f16_9, "f16", "m64n128k16", 64, shared 9, "";
    start start_shared_n128_f16_3, "f16", "m64n128k16", 64, shared 3, "";
    start start_shared_n256_f16_3, "f16", "m64n256k16", 128, shared 3, "";
    add add_shared_n64_f16_4, "f16", "m64n64k16", 32, shared 4, "";
    add add_shared_n64_bf16_4, "bf16", "m64n64k16", 32, shared 4, "";
    add add_shared_n64_tf32_4, "tf32", "m64n64k8", 32, shared 4, "";
    add add_shared_n128_f16_4, "f16", "m64n128k16", 64, shared 4, "";
    add add_shared_n128_bf16_4, "bf16", "m64n128k16", 64, shared 4, "";
    add add_shared_n128_tf32_4, "tf32", "m64n128k8", 64, shared 4, "";
    add add_shared_n128_f16_3, "f16", "m64n128k16", 64, shared 3, "";
    add add_shared_n128_bf16_3, "bf16", "m64n128k16", 64, shared 3, "";
    add add_shared_n256_f16_3, "f16", "m64n256k16", 128, shared 3, "";
    add add_shared_n256_bf16_3, "bf16", "m64n256k16", 128, shared 3, "";
    add add_shared_f16_8, "f16", "m64n256k16", 128, shared 8, "\nwgmma.wait_group.sync.aligned 0;";
}

/// MMA batches of three steps that start from zero or add to the accumulator. Each step has two
/// instructions, for alternating groups of eight columns.
macro_rules! interleaved {
    (($how:ident $adds:literal $name:ident, $ty:tt, $shape:literal, $sums:tt) $($i:literal)*) => {
        #[inline(always)]
        pub(crate) unsafe fn $name(d: &mut [f32; $sums], a: &[u64; 3], [even, odd]: [&[u64; 3]; 2]) {
            // SAFETY: as for other batches.
            unsafe {
                asm!(
                    "{{",
                    ".reg .pred first, more;",
                    concat!("setp.ne.b32 first, ", $adds, ", 0;"),
                    "setp.ne.b32 more, 1, 0;",
                    "wgmma.fence.sync.aligned;",
                    step!($ty, $shape, even $sums, a0, b0, "first"),
                    step!($ty, $shape, odd $sums, a0, c0, "first"),
                    step!($ty, $shape, even $sums, a1, b1, "more"),
                    step!($ty, $shape, odd $sums, a1, c1, "more"),
                    step!($ty, $shape, even $sums, a2, b2, "more"),
                    step!($ty, $shape, odd $sums, a2, c2, "more"),
                    "wgmma.commit_group.sync.aligned;",
                    "}}",
                    $($how(reg32) d[$i],)*
                    a0 = in(reg64) a[0], b0 = in(reg64) even[0], c0 = in(reg64) odd[0],
                    a1 = in(reg64) a[1], b1 = in(reg64) even[1], c1 = in(reg64) odd[1],
                    a2 = in(reg64) a[2], b2 = in(reg64) even[2], c2 = in(reg64) odd[2],
                    options(nostack),
                );
            }
        }
    };
}

with_indices! { 64, interleaved (out "0" start_interleaved_n128_f16_3, "f16", "m64n64k16", 64) }
with_indices! { 64, interleaved (out "0" start_interleaved_n128_bf16_3, "bf16", "m64n64k16", 64) }
with_indices! { 128, interleaved (out "0" start_interleaved_n256_f16_3, "f16", "m64n128k16", 128) }
with_indices! { 128, interleaved (out "0" start_interleaved_n256_bf16_3, "bf16", "m64n128k16", 128) }
with_indices! { 64, interleaved (inout "1" add_interleaved_n128_f16_3, "f16", "m64n64k16", 64) }
with_indices! { 64, interleaved (inout "1" add_interleaved_n128_bf16_3, "bf16", "m64n64k16", 64) }
with_indices! { 128, interleaved (inout "1" add_interleaved_n256_f16_3, "f16", "m64n128k16", 128) }
with_indices! { 128, interleaved (inout "1" add_interleaved_n256_bf16_3, "bf16", "m64n128k16", 128) }

/// The identity of an MMA batch. Only the emulator needs it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchNumber;

#[inline(always)]
pub(crate) const fn newest_batch() -> BatchNumber {
    BatchNumber
}

#[inline(always)]
pub(crate) const fn no_batch() -> BatchNumber {
    BatchNumber
}

/// Waits until at most `LEFT` batches are in flight. The results pass through the assembly, so the compiler
/// cannot move their uses before it.
macro_rules! wait {
    (($name:ident, $sums:tt, $listed:expr) $($i:literal)*) => {
        #[inline(always)]
        pub(crate) unsafe fn $name<const LEFT: u32>(mut d: [f32; $sums], _: BatchNumber) -> [f32; $sums] {
            // SAFETY: waits.
            unsafe {
                asm!(
                    concat!("wgmma.wait_group.sync.aligned {left}; // ", $listed),
                    $(inout(reg32) d[$i],)*
                    left = const LEFT,
                    options(nostack),
                );
            }
            d
        }
    };
}

with_indices! { 32, wait (wait_batch_32, 32, concat!(
    "{0} {1} {2} {3} {4} {5} {6} {7} {8} {9} {10} {11} {12} {13} {14} {15} ",
    "{16} {17} {18} {19} {20} {21} {22} {23} {24} {25} {26} {27} {28} {29} {30} {31}",
)) }
with_indices! { 64, wait (wait_batch_64, 64, accumulators!(all 64)) }
with_indices! { 128, wait (wait_batch_128, 128, accumulators!(all 128)) }

/// Waits until at most `LEFT` batches are in flight.
#[inline(always)]
pub(crate) unsafe fn wait_older_batches<const LEFT: u32>() {
    // SAFETY: waits. Memory is clobbered, because the operands of older batches may be overwritten from here
    // on.
    unsafe {
        asm!("wgmma.wait_group.sync.aligned {left};", left = const LEFT, options(nostack));
    }
}
