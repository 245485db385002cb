//! Matrix multiplication on tensor cores: `mma.sync` and `ldmatrix` (sm_80 and later), `stmatrix` (sm_90).
//!
//! All 32 lanes of a warp cooperate, and each lane holds a part of a matrix, its *fragment*. With
//! `quad = lane / 4` and `quad_lane = lane % 4`, a fragment has these rows and columns of the matrix:
//!
//! | fragment | element in register `i` of a lane: row, column |
//! |---|---|
//! | accumulator, 16×8 f32 | `d[i]`: `quad + 8 * (i / 2)`, `2 * quad_lane + i % 2` |
//! | A of m16n8k8 tf32 | `a[i]`: `quad + 8 * (i % 2)`, `quad_lane + 4 * (i / 2)` |
//! | B of m16n8k8 tf32 | `b[i]`: `quad_lane + 4 * i`, `quad` |
//! | A of m16n8k16 f16, bf16 | half `h` of `a[i]`: `quad + 8 * (i % 2)`, `2 * quad_lane + h + 8 * (i / 2)` |
//! | B of m16n8k16 f16, bf16 | half `h` of `b[i]`: `2 * quad_lane + h + 8 * i`, `quad` |
//!
//! **Emulator**: lanes meet as for [`crate::warp`] operations with a full mask. Only the top 19 bits of a
//! tf32 operand count, as on the device. Products are exact. Like Hopper's tensor cores, the emulator adds
//! the products of an instruction and its accumulator at once, and *truncates*. Each term is truncated to
//! two bits below the last bit of an f32 with the largest term's exponent. The sum is truncated to an f32.
//! A long chain of instructions therefore drifts towards zero, by half a unit in the last place of its sum
//! for each instruction on average. Older generations truncate more bits.

use crate::backend;
use crate::shared::SharedAddr;

macro_rules! ldmatrix {
    ($($(#[$doc:meta])* $name:ident, $n:literal, $trans:literal;)*) => { device_functions! {$(
        $(#[$doc])*
        ///
        /// Lanes `8 * i .. 8 * i + 8` give the addresses of the eight rows of matrix `i`: 16 bytes each,
        /// 16-byte aligned. Lane `l` gets, for each matrix, the two halves (or the one 32-bit element) at
        /// row `l / 4`, bytes `4 * (l % 4) ..`. If transposed, it gets the halves at rows `2 * (l % 4)` and
        /// `2 * (l % 4) + 1`, column `l / 4`.
        ///
        /// Emulator: the 16 bytes count as read by the lane that gave their address, with all
        /// checks of shared memory.
        ///
        /// # Safety
        /// All lanes of the warp make this call, and each used address points to 16 readable bytes and is
        /// 16-byte aligned.
        #[must_use]
        unsafe fn $name(address: SharedAddr) -> [u32; $n] = backend::$name(address.0);
    )*}};
}

ldmatrix! {
    /// One 8×8 matrix of 16-bit elements. `ldmatrix.sync.aligned.m8n8.x1.shared.b16`.
    ldmatrix_x1, 1, false;
    /// Two 8×8 matrices of 16-bit elements. `ldmatrix.sync.aligned.m8n8.x2.shared.b16`.
    ldmatrix_x2, 2, false;
    /// Four 8×8 matrices of 16-bit elements. `ldmatrix.sync.aligned.m8n8.x4.shared.b16`.
    ldmatrix_x4, 4, false;
    /// One matrix, transposed. `ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16`.
    ldmatrix_x1_trans, 1, true;
    /// Two matrices, transposed. `ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16`.
    ldmatrix_x2_trans, 2, true;
    /// Four matrices, transposed. `ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16`.
    ldmatrix_x4_trans, 4, true;
}

device_functions! {
    /// Stores four 8×8 matrices of 16-bit elements, transposed.
    /// `stmatrix.sync.aligned.m8n8.x4.trans.shared.b16`, sm_90.
    ///
    /// Lanes `8 * i .. 8 * i + 8` give the addresses of the eight rows of matrix `i`: 16 bytes each,
    /// 16-byte aligned. Lane `l` gives, for each matrix, the two halves of column `l / 4` in rows
    /// `2 * (l % 4)` and `2 * (l % 4) + 1`. An accumulator fragment is thus stored transposed.
    ///
    /// Emulator: the 16 bytes count as written by the lane that gave their address, with all checks of shared
    /// memory.
    ///
    /// # Safety
    /// All lanes of the warp make this call. Each address points to 16 writable bytes and is 16-byte
    /// aligned. The rows do not overlap.
    unsafe fn stmatrix_x4_trans(address: SharedAddr, words: [u32; 4]) = backend::stmatrix_x4_trans(address.0, words);
}

macro_rules! multiply {
    ($($(#[$doc:meta])* $name:ident;)*) => { device_functions! {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// All lanes of the warp make this call.
        #[must_use]
        unsafe fn $name(d: [f32; 4], a: [u32; 4], b: [u32; 2]) -> [f32; 4] = backend::$name(d, a, b);
    )*}};
}

multiply! {
    /// Returns `A * B + d` for a 16×8 A and an 8×8 B of tf32, with f32 accumulation.
    /// `mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32`.
    m16n8k8_tf32;
    /// Returns `A * B + d` for a 16×16 A and a 16×8 B of f16, with f32 accumulation.
    /// `mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32`.
    m16n8k16_f16;
    /// Returns `A * B + d` for a 16×16 A and a 16×8 B of bf16, with f32 accumulation.
    /// `mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32`.
    m16n8k16_bf16;
}

plain_functions! {
    /// Rounds `value` to tf32 (8 bits of exponent, 10 of mantissa), to nearest, ties away from zero.
    /// `cvt.rna.tf32.f32`.
    #[must_use]
    fn to_tf32(value: f32) -> u32 = backend::to_tf32(value);

    /// Rounds two values to f16 and packs them, `low` in the low half. `cvt.rn.f16x2.f32`.
    #[must_use]
    fn pack_f16x2(low: f32, high: f32) -> u32 = backend::pack_f16x2(low, high);

    /// Rounds two values to bf16 and packs them, `low` in the low half. `cvt.rn.bf16x2.f32`.
    #[must_use]
    fn pack_bf16x2(low: f32, high: f32) -> u32 = backend::pack_bf16x2(low, high);
}
