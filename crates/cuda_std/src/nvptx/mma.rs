//! Tensor cores and their operands.

use core::arch::asm;

macro_rules! ldmatrix {
    ($($name:ident, $text:literal, [$($i:literal $r:ident),*], $address:literal;)*) => {$(
        #[inline(always)]
        pub(crate) unsafe fn $name(address: u32) -> [u32; [$($i),*].len()] {
            $(let $r: u32;)*
            // SAFETY: the caller gives the address of 16 readable bytes. Volatile: see the rules at the
            // head of `nvptx`.
            unsafe {
                asm!($text, $(out(reg32) $r,)* in(reg32) address, options(readonly, nostack, preserves_flags));
            }
            [$($r),*]
        }
    )*};
}

ldmatrix! {
    ldmatrix_x1, "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{{0}}}, [{1}];", [0 a], 1;
    ldmatrix_x2, "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {{{0},{1}}}, [{2}];", [0 a, 1 b], 2;
    ldmatrix_x4, "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{0},{1},{2},{3}}}, [{4}];",
        [0 a, 1 b, 2 c, 3 d], 4;
    ldmatrix_x1_trans, "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {{{0}}}, [{1}];", [0 a], 1;
    ldmatrix_x2_trans, "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {{{0},{1}}}, [{2}];", [0 a, 1 b], 2;
    ldmatrix_x4_trans, "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {{{0},{1},{2},{3}}}, [{4}];",
        [0 a, 1 b, 2 c, 3 d], 4;
}

#[inline(always)]
pub(crate) unsafe fn stmatrix_x4_trans(address: u32, [a, b, c, d]: [u32; 4]) {
    // SAFETY: the caller gives the address of 16 writable bytes.
    unsafe {
        asm!(
            "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [{0}], {{{1},{2},{3},{4}}};",
            in(reg32) address, in(reg32) a, in(reg32) b, in(reg32) c, in(reg32) d,
            options(nostack, preserves_flags)
        );
    }
}

macro_rules! multiply {
    ($($name:ident, $shape:literal;)*) => {$(
        #[inline(always)]
        pub(crate) unsafe fn $name(d: [f32; 4], a: [u32; 4], b: [u32; 2]) -> [f32; 4] {
            let [mut d0, mut d1, mut d2, mut d3] = d;
            // SAFETY: arithmetic on registers of a whole warp. The caller promises that all lanes are here.
            unsafe {
                asm!(
                    concat!(
                        "mma.sync.aligned.", $shape,
                        " {{{0},{1},{2},{3}}}, {{{4},{5},{6},{7}}}, {{{8},{9}}}, {{{0},{1},{2},{3}}};",
                    ),
                    inout(reg32) d0, inout(reg32) d1, inout(reg32) d2, inout(reg32) d3,
                    in(reg32) a[0], in(reg32) a[1], in(reg32) a[2], in(reg32) a[3],
                    in(reg32) b[0], in(reg32) b[1],
                    options(nomem, nostack, preserves_flags),
                );
            }
            [d0, d1, d2, d3]
        }
    )*};
}

multiply! {
    m16n8k8_tf32, "m16n8k8.row.col.f32.tf32.tf32.f32";
    m16n8k16_f16, "m16n8k16.row.col.f32.f16.f16.f32";
    m16n8k16_bf16, "m16n8k16.row.col.f32.bf16.bf16.f32";
}
