//! Chains of warpgroup multiplications.

use core::arch::asm;

/// The 16 accumulators of a thread: operands 0 to 15.
macro_rules! accumulators {
    () => {
        "{{{0},{1},{2},{3},{4},{5},{6},{7},{8},{9},{10},{11},{12},{13},{14},{15}}}"
    };
}

/// Fence, steps, commit, wait: one block, since between issue and wait the accumulators belong to the tensor cores and the
/// compiler must not touch them. A step names its index, the predicate that says whether it adds (the first one
/// does not), and its operands: four words of A, and the descriptor of B.
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
            // SAFETY: a whole warpgroup is here and B is readable, by the caller's promise, who also leaves the
            // result alone until the wait. Volatile and with memory clobbered: it reads what others stored.
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

/// A in shared memory as well, 256 columns, added to sums that there are, and the wait. Operands 0 to 127 are the
/// accumulators. A step names its index and the descriptors of A and B.
macro_rules! add_shared {
    ($name:ident, $ty:literal, $n:literal, $(($step:literal $a:literal $b:literal))*) => {
        #[inline(always)]
        pub(crate) unsafe fn $name(d: &mut [f32; 128], a: &[u64; $n], b: &[u64; $n]) {
            // SAFETY: a whole warpgroup is here and A and B are readable, by the caller's promise. Volatile and with
            // memory clobbered: it reads what others stored.
            unsafe {
                asm!(
                    "{{",
                    ".reg .pred more;",
                    "setp.ne.b32 more, 1, 0;",
                    "wgmma.fence.sync.aligned;",
                    $(concat!(
                        "wgmma.mma_async.sync.aligned.m64n256k16.f32.", $ty, ".", $ty, " {{",
                        "{0},{1},{2},{3},{4},{5},{6},{7},{8},{9},{10},{11},{12},{13},{14},{15},",
                        "{16},{17},{18},{19},{20},{21},{22},{23},{24},{25},{26},{27},{28},{29},{30},{31},",
                        "{32},{33},{34},{35},{36},{37},{38},{39},{40},{41},{42},{43},{44},{45},{46},{47},",
                        "{48},{49},{50},{51},{52},{53},{54},{55},{56},{57},{58},{59},{60},{61},{62},{63},",
                        "{64},{65},{66},{67},{68},{69},{70},{71},{72},{73},{74},{75},{76},{77},{78},{79},",
                        "{80},{81},{82},{83},{84},{85},{86},{87},{88},{89},{90},{91},{92},{93},{94},{95},",
                        "{96},{97},{98},{99},{100},{101},{102},{103},{104},{105},{106},{107},{108},{109},{110},{111},",
                        "{112},{113},{114},{115},{116},{117},{118},{119},{120},{121},{122},{123},{124},{125},{126},{127}",
                        "}}, {", $a, "}, {", $b, "}, more, 1, 1, 0, 0;",
                    ),)*
                    "wgmma.commit_group.sync.aligned;",
                    "wgmma.wait_group.sync.aligned 0;",
                    "}}",
                    inout(reg32) d[0], inout(reg32) d[1], inout(reg32) d[2], inout(reg32) d[3], inout(reg32) d[4], inout(reg32) d[5], inout(reg32) d[6], inout(reg32) d[7],
                    inout(reg32) d[8], inout(reg32) d[9], inout(reg32) d[10], inout(reg32) d[11], inout(reg32) d[12], inout(reg32) d[13], inout(reg32) d[14], inout(reg32) d[15],
                    inout(reg32) d[16], inout(reg32) d[17], inout(reg32) d[18], inout(reg32) d[19], inout(reg32) d[20], inout(reg32) d[21], inout(reg32) d[22], inout(reg32) d[23],
                    inout(reg32) d[24], inout(reg32) d[25], inout(reg32) d[26], inout(reg32) d[27], inout(reg32) d[28], inout(reg32) d[29], inout(reg32) d[30], inout(reg32) d[31],
                    inout(reg32) d[32], inout(reg32) d[33], inout(reg32) d[34], inout(reg32) d[35], inout(reg32) d[36], inout(reg32) d[37], inout(reg32) d[38], inout(reg32) d[39],
                    inout(reg32) d[40], inout(reg32) d[41], inout(reg32) d[42], inout(reg32) d[43], inout(reg32) d[44], inout(reg32) d[45], inout(reg32) d[46], inout(reg32) d[47],
                    inout(reg32) d[48], inout(reg32) d[49], inout(reg32) d[50], inout(reg32) d[51], inout(reg32) d[52], inout(reg32) d[53], inout(reg32) d[54], inout(reg32) d[55],
                    inout(reg32) d[56], inout(reg32) d[57], inout(reg32) d[58], inout(reg32) d[59], inout(reg32) d[60], inout(reg32) d[61], inout(reg32) d[62], inout(reg32) d[63],
                    inout(reg32) d[64], inout(reg32) d[65], inout(reg32) d[66], inout(reg32) d[67], inout(reg32) d[68], inout(reg32) d[69], inout(reg32) d[70], inout(reg32) d[71],
                    inout(reg32) d[72], inout(reg32) d[73], inout(reg32) d[74], inout(reg32) d[75], inout(reg32) d[76], inout(reg32) d[77], inout(reg32) d[78], inout(reg32) d[79],
                    inout(reg32) d[80], inout(reg32) d[81], inout(reg32) d[82], inout(reg32) d[83], inout(reg32) d[84], inout(reg32) d[85], inout(reg32) d[86], inout(reg32) d[87],
                    inout(reg32) d[88], inout(reg32) d[89], inout(reg32) d[90], inout(reg32) d[91], inout(reg32) d[92], inout(reg32) d[93], inout(reg32) d[94], inout(reg32) d[95],
                    inout(reg32) d[96], inout(reg32) d[97], inout(reg32) d[98], inout(reg32) d[99], inout(reg32) d[100], inout(reg32) d[101], inout(reg32) d[102], inout(reg32) d[103],
                    inout(reg32) d[104], inout(reg32) d[105], inout(reg32) d[106], inout(reg32) d[107], inout(reg32) d[108], inout(reg32) d[109], inout(reg32) d[110], inout(reg32) d[111],
                    inout(reg32) d[112], inout(reg32) d[113], inout(reg32) d[114], inout(reg32) d[115], inout(reg32) d[116], inout(reg32) d[117], inout(reg32) d[118], inout(reg32) d[119],
                    inout(reg32) d[120], inout(reg32) d[121], inout(reg32) d[122], inout(reg32) d[123], inout(reg32) d[124], inout(reg32) d[125], inout(reg32) d[126], inout(reg32) d[127],
                    $(in(reg64) a[$step], in(reg64) b[$step],)*
                    options(nostack),
                );
            }
        }
    };
}

add_shared! {
    add_shared_f16_8, "f16", 8,
        (0 "128" "129") (1 "130" "131") (2 "132" "133") (3 "134" "135") (4 "136" "137") (5 "138" "139") (6 "140" "141") (7 "142" "143")
}

/// Waits until at most `LEFT` chains are under way. The results pass through, so that nothing that
/// needs them can move before it.
#[inline(always)]
pub(crate) unsafe fn wait_chain<const LEFT: u32>(mut d: [f32; 32]) -> [f32; 32] {
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
