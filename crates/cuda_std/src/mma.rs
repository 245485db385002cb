//! Matrix multiplication on tensor cores: `mma.sync` and `ldmatrix` (sm_80 and later), `stmatrix` (sm_90).
//!
//! All 32 lanes of a warp work together; each holds a *fragment*. With `quad = lane / 4` and `quad_lane
//! = lane % 4`, and row, column of the matrix:
//!
//! | fragment | register or half `i` of lane holds |
//! |---|---|
//! | accumulator, 16×8 f32 | `d[i]`: row `quad + 8 * (i / 2)`, column `2 * quad_lane + i % 2` |
//! | A of m16n8k8 tf32 | `a[i]`: row `quad + 8 * (i % 2)`, column `quad_lane + 4 * (i / 2)` |
//! | B of m16n8k8 tf32 | `b[i]`: row `quad_lane + 4 * i`, column `quad` |
//! | A of m16n8k16 f16, bf16 | half `h` of `a[i]`: row `quad + 8 * (i % 2)`, column `2 * quad_lane + h + 8 * (i / 2)` |
//! | B of m16n8k16 f16, bf16 | half `h` of `b[i]`: row `2 * quad_lane + h + 8 * i`, column `quad` |
//!
//! **Emulator**: lanes meet as for [`crate::warp`] operations with a full mask. Of a tf32 operand
//! the top 19 bits count, as on the device. Products are exact. Like Hopper's, the emulated cores add an
//! instruction's products and its accumulator at once, and *truncate*: each term is cut off two bits below
//! the last one of an f32 of the largest term's exponent, and the sum to an f32. A long chain of
//! instructions drifts towards zero, therefore, by half a unit in the last place of its sum for each
//! of them on average. Older generations cut off more.

use crate::backend;
use crate::shared::SharedAddr;

macro_rules! ldmatrix {
    ($($(#[$doc:meta])* $name:ident, $n:literal, $trans:literal;)*) => { device_functions! {$(
        $(#[$doc])*
        ///
        /// Lanes `8 * i .. 8 * i + 8` give the addresses of the eight rows of matrix `i`: 16 bytes
        /// each, 16-byte aligned. Lane `l` gets, for each matrix, the two halves (or the one 32-bit
        /// element) at row `l / 4`, bytes `4 * (l % 4) ..`; transposed: the halves at rows `2 * (l
        /// % 4)` and one more, column `l / 4`.
        ///
        /// Emulator: the 16 bytes count as read by the lane that gave their address, with all
        /// checks of shared memory.
        ///
        /// # Safety
        /// All lanes of the warp make this call, and each address used is that of 16 readable,
        /// aligned bytes.
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
    /// Lanes `8 * i .. 8 * i + 8` give the addresses of the eight rows of matrix `i`: 16 bytes each, 16-byte
    /// aligned. Lane `l` gives, for each matrix, the two halves of column `l / 4` in rows `2 * (l % 4)` and
    /// one more. So an accumulator fragment is stored as its transpose.
    ///
    /// Emulator: the 16 bytes count as written by the lane that gave their address, with all checks of shared
    /// memory.
    ///
    /// # Safety
    /// All lanes of the warp make this call, and the addresses are those of 16 writable, aligned bytes each,
    /// which do not overlap.
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
    /// `A * B + d` for a 16×8 A and an 8×8 B of tf32, f32 sums.
    /// `mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32`.
    m16n8k8_tf32;
    /// `A * B + d` for a 16×16 A and a 16×8 B of f16, f32 sums.
    /// `mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32`.
    m16n8k16_f16;
    /// `A * B + d` for a 16×16 A and a 16×8 B of bf16, f32 sums.
    /// `mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32`.
    m16n8k16_bf16;
}

plain_functions! {
    /// `value` rounded to tf32 (8 bits of exponent, 10 of mantissa), nearest, ties away from zero.
    /// `cvt.rna.tf32.f32`.
    #[must_use]
    fn to_tf32(value: f32) -> u32 = backend::to_tf32(value);

    /// Two values rounded to f16, `low` in the low half. `cvt.rn.f16x2.f32`.
    #[must_use]
    fn pack_f16x2(low: f32, high: f32) -> u32 = backend::pack_f16x2(low, high);

    /// Two values rounded to bf16, `low` in the low half. `cvt.rn.bf16x2.f32`.
    #[must_use]
    fn pack_bf16x2(low: f32, high: f32) -> u32 = backend::pack_bf16x2(low, high);
}
