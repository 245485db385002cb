//! Chains of warpgroup multiplications with A in shared memory, too.

use core::arch::asm;

use super::wgmma::ChainNumber;

/// The accumulators of a thread as an instruction lists them: operands 0 to 63, or to 127.
macro_rules! accumulators {
    (64) => {
        concat!(
            "{0},{1},{2},{3},{4},{5},{6},{7},{8},{9},{10},{11},{12},{13},{14},{15},",
            "{16},{17},{18},{19},{20},{21},{22},{23},{24},{25},{26},{27},{28},{29},{30},{31},",
            "{32},{33},{34},{35},{36},{37},{38},{39},{40},{41},{42},{43},{44},{45},{46},{47},",
            "{48},{49},{50},{51},{52},{53},{54},{55},{56},{57},{58},{59},{60},{61},{62},{63}",
        )
    };
    (128) => {
        concat!(
            accumulators!(64),
            ",{64},{65},{66},{67},{68},{69},{70},{71},{72},{73},{74},{75},{76},{77},{78},{79},",
            "{80},{81},{82},{83},{84},{85},{86},{87},{88},{89},{90},{91},{92},{93},{94},{95},",
            "{96},{97},{98},{99},{100},{101},{102},{103},{104},{105},{106},{107},{108},{109},{110},{111},",
            "{112},{113},{114},{115},{116},{117},{118},{119},{120},{121},{122},{123},{124},{125},{126},{127}",
        )
    };
}

/// Those of every second octet of columns, the first one among them, or not.
macro_rules! half_of_the_accumulators {
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

/// Calls a macro with what it is given, and with the indices of so many accumulators.
macro_rules! with_indices {
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
            96 97 98 99 100 101 102 103 104 105 106 107 108 109 110 111 112 113 114 115 116 117 118 119 120 121 122 123
            124 125 126 127
        }
    };
}

/// Fence, steps, commit. A step names its index and the operands that hold its descriptors of A and B; the
/// first one also the predicate that says whether it adds.
macro_rules! chain {
    (
        ($name:ident, $ty:literal, $shape:literal, $sums:tt, $how:tt, $predicates:literal, $first:literal, $wait:literal,
            $n:literal: ($step:literal $a:ident $b:ident) $(($more_step:literal $more_a:ident $more_b:ident))*)
        $($i:literal)*
    ) => {
        #[inline(always)]
        pub(crate) unsafe fn $name(d: &mut [f32; $sums], a: &[u64; $n], b: &[u64; $n]) {
            // SAFETY: a whole warpgroup is here and A and B are readable, by the caller's promise, who also
            // leaves the result alone until the wait. Volatile and with memory clobbered: it reads what
            // others stored.
            unsafe {
                asm!(
                    "{{",
                    $predicates,
                    "setp.ne.b32 more, 1, 0;",
                    "wgmma.fence.sync.aligned;",
                    concat!(
                        "wgmma.mma_async.sync.aligned.", $shape, ".f32.", $ty, ".", $ty, " {{", accumulators!($sums),
                        "}}, {", stringify!($a), "}, {", stringify!($b), "}, ", $first, ", 1, 1, 0, 0;",
                    ),
                    $(concat!(
                        "wgmma.mma_async.sync.aligned.", $shape, ".f32.", $ty, ".", $ty, " {{", accumulators!($sums),
                        "}}, {", stringify!($more_a), "}, {", stringify!($more_b), "}, more, 1, 1, 0, 0;",
                    ),)*
                    concat!("wgmma.commit_group.sync.aligned;", $wait),
                    "}}",
                    $($how(reg32) d[$i],)*
                    $a = in(reg64) a[$step], $b = in(reg64) b[$step],
                    $($more_a = in(reg64) a[$more_step], $more_b = in(reg64) b[$more_step],)*
                    options(nostack),
                );
            }
        }
    };
}

/// The descriptors of so many steps.
macro_rules! with_steps {
    (3, $sums:tt, ($($arguments:tt)*)) => {
        with_indices! { $sums, chain ($($arguments)*, 3: (0 a0 b0) (1 a1 b1) (2 a2 b2)) }
    };
    (8, $sums:tt, ($($arguments:tt)*)) => {
        with_indices! { $sums, chain ($($arguments)*, 8:
            (0 a0 b0) (1 a1 b1) (2 a2 b2) (3 a3 b3) (4 a4 b4) (5 a5 b5) (6 a6 b6) (7 a7 b7)) }
    };
    (9, $sums:tt, ($($arguments:tt)*)) => {
        with_indices! { $sums, chain ($($arguments)*, 9:
            (0 a0 b0) (1 a1 b1) (2 a2 b2) (3 a3 b3) (4 a4 b4) (5 a5 b5) (6 a6 b6) (7 a7 b7) (8 a8 b8)) }
    };
}

with_steps! { 9, 64, (start_shared_n128_f16_9, "f16", "m64n128k16", 64, out,
".reg .pred first, more;\nsetp.ne.b32 first, 0, 0;", "first", "") }

/// Chains that add to the sums.
macro_rules! add {
    ($($name:ident, $ty:literal, $shape:literal, $sums:tt, $n:tt;)*) => {$(
        with_steps! { $n, $sums, ($name, $ty, $shape, $sums, inout, ".reg .pred more;", "more", "") }
    )*};
}

add! {
    add_shared_n128_f16_3, "f16", "m64n128k16", 64, 3;
    add_shared_n128_bf16_3, "bf16", "m64n128k16", 64, 3;
    add_shared_n256_f16_3, "f16", "m64n256k16", 128, 3;
    add_shared_n256_bf16_3, "bf16", "m64n256k16", 128, 3;
}

/// Chains of three steps that add to the sums, each step in two instructions for the octets of columns in
/// turn.
macro_rules! interleaved {
    (($name:ident, $ty:literal, $shape:literal, $sums:tt) $($i:literal)*) => {
        #[inline(always)]
        pub(crate) unsafe fn $name(d: &mut [f32; $sums], a: &[u64; 3], [even, odd]: [&[u64; 3]; 2]) {
            // SAFETY: as above.
            unsafe {
                asm!(
                    "{{",
                    ".reg .pred more;",
                    "setp.ne.b32 more, 1, 0;",
                    "wgmma.fence.sync.aligned;",
                    interleaved!(step $ty, $shape, $sums, "{a0}", "{b0}", "{c0}"),
                    interleaved!(step $ty, $shape, $sums, "{a1}", "{b1}", "{c1}"),
                    interleaved!(step $ty, $shape, $sums, "{a2}", "{b2}", "{c2}"),
                    "wgmma.commit_group.sync.aligned;",
                    "}}",
                    $(inout(reg32) d[$i],)*
                    a0 = in(reg64) a[0], b0 = in(reg64) even[0], c0 = in(reg64) odd[0],
                    a1 = in(reg64) a[1], b1 = in(reg64) even[1], c1 = in(reg64) odd[1],
                    a2 = in(reg64) a[2], b2 = in(reg64) even[2], c2 = in(reg64) odd[2],
                    options(nostack),
                );
            }
        }
    };
    (step $ty:literal, $shape:literal, $sums:tt, $a:literal, $even:literal, $odd:literal) => {
        concat!(
            "wgmma.mma_async.sync.aligned.", $shape, ".f32.", $ty, ".", $ty, " {{", half_of_the_accumulators!(even $sums),
            "}}, ", $a, ", ", $even, ", more, 1, 1, 0, 0;\n",
            "wgmma.mma_async.sync.aligned.", $shape, ".f32.", $ty, ".", $ty, " {{", half_of_the_accumulators!(odd $sums),
            "}}, ", $a, ", ", $odd, ", more, 1, 1, 0, 0;",
        )
    };
}

with_indices! { 64, interleaved (add_interleaved_n128_f16_3, "f16", "m64n64k16", 64) }
with_indices! { 64, interleaved (add_interleaved_n128_bf16_3, "bf16", "m64n64k16", 64) }
with_indices! { 128, interleaved (add_interleaved_n256_f16_3, "f16", "m64n128k16", 128) }
with_indices! { 128, interleaved (add_interleaved_n256_bf16_3, "bf16", "m64n128k16", 128) }

with_steps! { 8, 128, (add_shared_f16_8, "f16", "m64n256k16", 128, inout, ".reg .pred more;", "more",
"\nwgmma.wait_group.sync.aligned 0;") }

/// Waits until at most `LEFT` chains are in flight. The results pass through the assembly, so the compiler
/// cannot move their uses before it.
macro_rules! wait {
    (($name:ident, $sums:tt) $($i:literal)*) => {
        #[inline(always)]
        pub(crate) unsafe fn $name<const LEFT: u32>(mut d: [f32; $sums], _: ChainNumber) -> [f32; $sums] {
            // SAFETY: waits.
            unsafe {
                asm!(
                    concat!("wgmma.wait_group.sync.aligned {left}; // ", accumulators!($sums)),
                    $(inout(reg32) d[$i],)*
                    left = const LEFT,
                    options(nostack),
                );
            }
            d
        }
    };
}

with_indices! { 64, wait (wait_chain_64, 64) }
with_indices! { 128, wait (wait_chain_128, 128) }

/// Waits until at most `LEFT` chains are in flight.
#[inline(always)]
pub(crate) unsafe fn wait_older_chains<const LEFT: u32>() {
    // SAFETY: waits. With memory clobbered: what older chains read may be written from here on.
    unsafe {
        asm!("wgmma.wait_group.sync.aligned {left};", left = const LEFT, options(nostack));
    }
}
