//! Chains of warpgroup multiplications.

use core::arch::asm;

/// The 16 accumulators of a thread: operands 0 to 15.
macro_rules! accumulators {
    () => {
        "{{{0},{1},{2},{3},{4},{5},{6},{7},{8},{9},{10},{11},{12},{13},{14},{15}}}"
    };
}

/// Fence, steps, commit, wait: one block, since between issue and wait the accumulators belong to the tensor
/// cores and the compiler must not touch them. A step names its index, the predicate that says whether it
/// adds (the first one does not), and its operands: four words of A, and the descriptor of B.
macro_rules! multiply {
    ($name:ident, $ty:literal, $n:literal,
     $(($step:literal $adds:literal $a0:literal $a1:literal $a2:literal $a3:literal $b:literal))*) => {
        #[inline(always)]
        pub(crate) unsafe fn $name(a: &[[u32; 4]; $n], b: &[u64; $n]) -> [f32; 16] {
            let mut d = [0.0_f32; 16];
            // SAFETY: a whole warpgroup is here and B is readable, by the caller's promise. Volatile and
            // with memory clobbered: it reads what others stored.
            unsafe {
                asm!(
                    "{{",
                    ".reg .pred first, more;",
                    "setp.ne.b32 first, 0, 0;",
                    "setp.ne.b32 more, 1, 0;",
                    "wgmma.fence.sync.aligned;",
                    $(concat!(
                        "wgmma.mma_async.sync.aligned.m64n32k16.f32.", $ty, ".", $ty, " ", accumulators!(),
                        ", {{{", $a0, "},{", $a1, "},{", $a2, "},{", $a3, "}}}, {", $b, "}, ", $adds, ", 1, 1, 0;",
                    ),)*
                    "wgmma.commit_group.sync.aligned;",
                    "wgmma.wait_group.sync.aligned 0;",
                    "}}",
                    out(reg32) d[0], out(reg32) d[1], out(reg32) d[2], out(reg32) d[3], out(reg32) d[4], out(reg32) d[5], out(reg32) d[6], out(reg32) d[7],
                    out(reg32) d[8], out(reg32) d[9], out(reg32) d[10], out(reg32) d[11], out(reg32) d[12], out(reg32) d[13], out(reg32) d[14], out(reg32) d[15],
                    $(
                        in(reg32) a[$step][0], in(reg32) a[$step][1], in(reg32) a[$step][2], in(reg32) a[$step][3],
                        in(reg64) b[$step],
                    )*
                    options(nostack),
                );
            }
            d
        }
    };
}

multiply! {
    m64n32_f16_7, "f16", 7,
        (0 "first" "16" "17" "18" "19" "20") (1 "more" "21" "22" "23" "24" "25") (2 "more" "26" "27" "28" "29" "30")
        (3 "more" "31" "32" "33" "34" "35") (4 "more" "36" "37" "38" "39" "40") (5 "more" "41" "42" "43" "44" "45")
        (6 "more" "46" "47" "48" "49" "50")
}
multiply! {
    m64n32_bf16_7, "bf16", 7,
        (0 "first" "16" "17" "18" "19" "20") (1 "more" "21" "22" "23" "24" "25") (2 "more" "26" "27" "28" "29" "30")
        (3 "more" "31" "32" "33" "34" "35") (4 "more" "36" "37" "38" "39" "40") (5 "more" "41" "42" "43" "44" "45")
        (6 "more" "46" "47" "48" "49" "50")
}

/// The same for 64 columns, without the wait. Operands 0 to 31 are the accumulators.
macro_rules! start {
    ($name:ident, $ty:literal, $n:literal,
     $(($step:literal $adds:literal $a0:literal $a1:literal $a2:literal $a3:literal $b:literal))*) => {
        #[inline(always)]
        pub(crate) unsafe fn $name(a: &[[u32; 4]; $n], b: &[u64; $n]) -> [f32; 32] {
            let mut d = [0.0_f32; 32];
            // SAFETY: a whole warpgroup is here and B is readable, by the caller's promise, who also leaves
            // the result alone until the wait. Volatile and with memory clobbered: it reads what others
            // stored.
            unsafe {
                asm!(
                    "{{",
                    ".reg .pred first, more;",
                    "setp.ne.b32 first, 0, 0;",
                    "setp.ne.b32 more, 1, 0;",
                    "wgmma.fence.sync.aligned;",
                    $(concat!(
                        "wgmma.mma_async.sync.aligned.m64n64k16.f32.", $ty, ".", $ty, " {{",
                        "{0},{1},{2},{3},{4},{5},{6},{7},{8},{9},{10},{11},{12},{13},{14},{15},",
                        "{16},{17},{18},{19},{20},{21},{22},{23},{24},{25},{26},{27},{28},{29},{30},{31}",
                        "}}, {{{", $a0, "},{", $a1, "},{", $a2, "},{", $a3, "}}}, {", $b, "}, ", $adds, ", 1, 1, 0;",
                    ),)*
                    "wgmma.commit_group.sync.aligned;",
                    "}}",
                    out(reg32) d[0], out(reg32) d[1], out(reg32) d[2], out(reg32) d[3], out(reg32) d[4], out(reg32) d[5], out(reg32) d[6], out(reg32) d[7],
                    out(reg32) d[8], out(reg32) d[9], out(reg32) d[10], out(reg32) d[11], out(reg32) d[12], out(reg32) d[13], out(reg32) d[14], out(reg32) d[15],
                    out(reg32) d[16], out(reg32) d[17], out(reg32) d[18], out(reg32) d[19], out(reg32) d[20], out(reg32) d[21], out(reg32) d[22], out(reg32) d[23],
                    out(reg32) d[24], out(reg32) d[25], out(reg32) d[26], out(reg32) d[27], out(reg32) d[28], out(reg32) d[29], out(reg32) d[30], out(reg32) d[31],
                    $(
                        in(reg32) a[$step][0], in(reg32) a[$step][1], in(reg32) a[$step][2], in(reg32) a[$step][3],
                        in(reg64) b[$step],
                    )*
                    options(nostack),
                );
            }
            d
        }
    };
}

start! {
    start_f16_5, "f16", 5,
        (0 "first" "32" "33" "34" "35" "36") (1 "more" "37" "38" "39" "40" "41") (2 "more" "42" "43" "44" "45" "46")
        (3 "more" "47" "48" "49" "50" "51") (4 "more" "52" "53" "54" "55" "56")
}
start! {
    start_bf16_5, "bf16", 5,
        (0 "first" "32" "33" "34" "35" "36") (1 "more" "37" "38" "39" "40" "41") (2 "more" "42" "43" "44" "45" "46")
        (3 "more" "47" "48" "49" "50" "51") (4 "more" "52" "53" "54" "55" "56")
}
start! {
    start_f16_9, "f16", 9,
        (0 "first" "32" "33" "34" "35" "36") (1 "more" "37" "38" "39" "40" "41") (2 "more" "42" "43" "44" "45" "46")
        (3 "more" "47" "48" "49" "50" "51") (4 "more" "52" "53" "54" "55" "56") (5 "more" "57" "58" "59" "60" "61")
        (6 "more" "62" "63" "64" "65" "66") (7 "more" "67" "68" "69" "70" "71") (8 "more" "72" "73" "74" "75" "76")
}
start! {
    start_f16_14, "f16", 14,
        (0 "first" "32" "33" "34" "35" "36") (1 "more" "37" "38" "39" "40" "41") (2 "more" "42" "43" "44" "45" "46")
        (3 "more" "47" "48" "49" "50" "51") (4 "more" "52" "53" "54" "55" "56") (5 "more" "57" "58" "59" "60" "61")
        (6 "more" "62" "63" "64" "65" "66") (7 "more" "67" "68" "69" "70" "71") (8 "more" "72" "73" "74" "75" "76")
        (9 "more" "77" "78" "79" "80" "81") (10 "more" "82" "83" "84" "85" "86") (11 "more" "87" "88" "89" "90" "91")
        (12 "more" "92" "93" "94" "95" "96") (13 "more" "97" "98" "99" "100" "101")
}

/// The same, added to sums that there are.
macro_rules! add {
    ($name:ident, $ty:literal, $n:literal, $(($step:literal $a0:literal $a1:literal $a2:literal $a3:literal $b:literal))*) => {
        #[inline(always)]
        pub(crate) unsafe fn $name(mut d: [f32; 32], a: &[[u32; 4]; $n], b: &[u64; $n]) -> [f32; 32] {
            // SAFETY: as above.
            unsafe {
                asm!(
                    "{{",
                    ".reg .pred more;",
                    "setp.ne.b32 more, 1, 0;",
                    "wgmma.fence.sync.aligned;",
                    $(concat!(
                        "wgmma.mma_async.sync.aligned.m64n64k16.f32.", $ty, ".", $ty, " {{",
                        "{0},{1},{2},{3},{4},{5},{6},{7},{8},{9},{10},{11},{12},{13},{14},{15},",
                        "{16},{17},{18},{19},{20},{21},{22},{23},{24},{25},{26},{27},{28},{29},{30},{31}",
                        "}}, {{{", $a0, "},{", $a1, "},{", $a2, "},{", $a3, "}}}, {", $b, "}, more, 1, 1, 0;",
                    ),)*
                    "wgmma.commit_group.sync.aligned;",
                    "}}",
                    inout(reg32) d[0], inout(reg32) d[1], inout(reg32) d[2], inout(reg32) d[3], inout(reg32) d[4], inout(reg32) d[5], inout(reg32) d[6], inout(reg32) d[7],
                    inout(reg32) d[8], inout(reg32) d[9], inout(reg32) d[10], inout(reg32) d[11], inout(reg32) d[12], inout(reg32) d[13], inout(reg32) d[14], inout(reg32) d[15],
                    inout(reg32) d[16], inout(reg32) d[17], inout(reg32) d[18], inout(reg32) d[19], inout(reg32) d[20], inout(reg32) d[21], inout(reg32) d[22], inout(reg32) d[23],
                    inout(reg32) d[24], inout(reg32) d[25], inout(reg32) d[26], inout(reg32) d[27], inout(reg32) d[28], inout(reg32) d[29], inout(reg32) d[30], inout(reg32) d[31],
                    $(
                        in(reg32) a[$step][0], in(reg32) a[$step][1], in(reg32) a[$step][2], in(reg32) a[$step][3],
                        in(reg64) b[$step],
                    )*
                    options(nostack),
                );
            }
            d
        }
    };
}

add! {
    add_f16_3, "f16", 3,
        (0 "32" "33" "34" "35" "36") (1 "37" "38" "39" "40" "41") (2 "42" "43" "44" "45" "46")
}
add! {
    add_bf16_3, "bf16", 3,
        (0 "32" "33" "34" "35" "36") (1 "37" "38" "39" "40" "41") (2 "42" "43" "44" "45" "46")
}

/// Which chain a wait is for, which only the emulator knows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChainNumber;

#[inline(always)]
pub(crate) const fn newest_chain() -> ChainNumber {
    ChainNumber
}

#[inline(always)]
pub(crate) const fn no_chain() -> ChainNumber {
    ChainNumber
}

/// Waits until at most `LEFT` chains are in flight. The results pass through the assembly, so the compiler
/// cannot move their uses before it.
#[inline(always)]
pub(crate) unsafe fn wait_chain_32<const LEFT: u32>(mut d: [f32; 32], _: ChainNumber) -> [f32; 32] {
    // SAFETY: waits.
    unsafe {
        asm!(
            concat!(
                "wgmma.wait_group.sync.aligned {left}; // ",
                "{0} {1} {2} {3} {4} {5} {6} {7} {8} {9} {10} {11} {12} {13} {14} {15} ",
                "{16} {17} {18} {19} {20} {21} {22} {23} {24} {25} {26} {27} {28} {29} {30} {31}",
            ),
                inout(reg32) d[0], inout(reg32) d[1], inout(reg32) d[2], inout(reg32) d[3], inout(reg32) d[4], inout(reg32) d[5], inout(reg32) d[6], inout(reg32) d[7],
                inout(reg32) d[8], inout(reg32) d[9], inout(reg32) d[10], inout(reg32) d[11], inout(reg32) d[12], inout(reg32) d[13], inout(reg32) d[14], inout(reg32) d[15],
                inout(reg32) d[16], inout(reg32) d[17], inout(reg32) d[18], inout(reg32) d[19], inout(reg32) d[20], inout(reg32) d[21], inout(reg32) d[22], inout(reg32) d[23],
                inout(reg32) d[24], inout(reg32) d[25], inout(reg32) d[26], inout(reg32) d[27], inout(reg32) d[28], inout(reg32) d[29], inout(reg32) d[30], inout(reg32) d[31],
            left = const LEFT,
            options(nostack),
        );
    }
    d
}
