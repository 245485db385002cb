//! How the warp-specialized mainloop accumulates MMA batches.

use cuda_std::wgmma::{self, InFlight, MatrixDescriptor};
use launch_config::implicit_gemm::MMA_BATCH_STEPS;

use super::super::format::{Bf16, Bf16x3, F16, F16x2, Format, ScaledF16};
use crate::parts::unroll::unroll;

/// Where the operands of an MMA batch's steps are, their high parts; the low ones are `low` units further.
#[derive(Clone, Copy)]
pub(super) struct Operands {
    pub(super) first: [MatrixDescriptor; MMA_BATCH_STEPS as usize],
    pub(super) low: u32,
}

impl Operands {
    #[inline(always)]
    fn offset(self, units: u32) -> Self {
        Self {
            first: self.first.map(|matrix| matrix.offset(units)),
            ..self
        }
    }

    /// High and low parts in the order in which factors meet: those of the filters come twice before the low
    /// ones, those of the pixels come first and last.
    #[inline(always)]
    fn split(self, order: [bool; 3]) -> [MatrixDescriptor; 9] {
        let part = |step: usize, i: usize| match order[i] {
            true => self.first[step].offset(self.low),
            false => self.first[step],
        };
        [
            part(0, 0),
            part(0, 1),
            part(0, 2),
            part(1, 0),
            part(1, 1),
            part(1, 2),
            part(2, 0),
            part(2, 1),
            part(2, 2),
        ]
    }
}

/// A format whose MMA batches a warpgroup adds to `SUMS` sums for each thread: 64 for 128 pixels, 128 for
/// 256.
pub(super) trait WarpSpecializedFormat<const SUMS: usize>: Format {
    /// The sums, or what is under way to them.
    type Sums;
    /// Whether the MMA batch before is under way after [`multiply`](Self::multiply), or this one.
    const STAYS: bool;
    /// Whether octets of pixels are multiplied in turn: the even ones, and the odd ones, which are of another
    /// strip where there are two.
    const INTERLEAVED: bool;

    /// Zeros, as constants: an array that a loop fills lies in memory.
    fn nothing() -> Self::Sums;

    /// Adds the products of an MMA batch. Where octets are multiplied in turn, the odd ones are `second`
    /// units behind the even ones, else pixels from the 128th on behind the first ones.
    ///
    /// # Safety
    /// All threads of a warpgroup call it, and the operands are there.
    unsafe fn multiply(
        sums: Self::Sums,
        filters: Operands,
        pixels: Operands,
        second: u32,
    ) -> Self::Sums;

    /// Waits for all that is under way to the sums.
    ///
    /// # Safety
    /// All threads of a warpgroup call it.
    unsafe fn settle(sums: &Self::Sums);

    /// The sums, when they are there.
    ///
    /// # Safety
    /// All threads of a warpgroup call it.
    unsafe fn finish(sums: Self::Sums) -> [f32; SUMS];
}

/// Starts an MMA batch of all octets of pixels at once, or of the even and the odd ones in turn.
macro_rules! start {
    (false, $add:ident, $sums:ident, $filters:ident, $pixels:ident, $second:ident) => {{
        let _ = $second;
        wgmma::$add($sums, &$filters.first, &$pixels.first)
    }};
    (true, $add:ident, $sums:ident, $filters:ident, $pixels:ident, $second:ident) => {{
        let odd = $pixels.offset($second);
        wgmma::$add($sums, &$filters.first, &$pixels.first, &odd.first)
    }};
}

macro_rules! stays_under_way {
    ($($Format:ident, $sums:literal, $interleaved:tt, $add:ident;)*) => {$(
        impl WarpSpecializedFormat<$sums> for $Format {
            type Sums = InFlight<$sums>;
            const STAYS: bool = true;
            const INTERLEAVED: bool = $interleaved;

            #[inline(always)]
            fn nothing() -> Self::Sums {
                InFlight::at_rest(const { [0.0; $sums] })
            }

            #[inline(always)]
            unsafe fn multiply(sums: Self::Sums, filters: Operands, pixels: Operands, second: u32) -> Self::Sums {
                let sums = start!($interleaved, $add, sums, filters, pixels, second);
                sums.wait_for_older::<1>();
                sums
            }

            #[inline(always)]
            unsafe fn settle(sums: &Self::Sums) {
                sums.wait_for_older::<0>();
            }

            #[inline(always)]
            unsafe fn finish(sums: Self::Sums) -> [f32; $sums] {
                sums.wait::<0>()
            }
        }
    )*};
}

stays_under_way! {
    ScaledF16, 64, false, add_shared_n128_f16_3;
    ScaledF16, 128, false, add_shared_n256_f16_3;
    F16, 64, true, add_interleaved_n128_f16_3;
    F16, 128, true, add_interleaved_n256_f16_3;
    Bf16, 64, true, add_interleaved_n128_bf16_3;
    Bf16, 128, true, add_interleaved_n256_bf16_3;
}

impl<const SUMS: usize> WarpSpecializedFormat<SUMS> for F16x2 {
    type Sums = [f32; SUMS];
    const STAYS: bool = false;
    const INTERLEAVED: bool = false;

    #[inline(always)]
    fn nothing() -> Self::Sums {
        const { [0.0; SUMS] }
    }

    #[inline(always)]
    unsafe fn multiply(
        mut sums: Self::Sums,
        filters: Operands,
        pixels: Operands,
        second: u32,
    ) -> Self::Sums {
        // High and high, high and low, low and high, as everywhere.
        let filters = filters.split([false, false, true]);
        unroll!(2, |half| {
            if half < SUMS / 64 {
                let pixels = pixels.offset(half as u32 * second);
                let pixels = pixels.split([false, true, false]);
                let mma_batch = wgmma::start_shared_n128_f16_9(&filters, &pixels).wait::<0>();
                unroll!(4, |quarter| {
                    unroll!(16, |i| {
                        sums[64 * half + 16 * quarter + i] += mma_batch[16 * quarter + i];
                    });
                });
            }
        });
        sums
    }

    #[inline(always)]
    unsafe fn settle(_: &Self::Sums) {}

    #[inline(always)]
    unsafe fn finish(sums: Self::Sums) -> [f32; SUMS] {
        sums
    }
}

/// MMA batches of split values whose sums tensor cores add up before they are promoted: they truncate
/// (`warps` says what comes of it).
const KEPT_MMA_BATCHES: u32 = 4;

/// Sums of parts: those that are under way, of how many MMA batches they are, and those that were promoted.
pub(super) struct Kept<const SUMS: usize> {
    mma_batches: InFlight<SUMS>,
    count: u32,
    promoted: [f32; SUMS],
}

/// Adds the sums of finished MMA batches to those that were promoted.
#[inline(always)]
fn promote<const SUMS: usize>(promoted: &mut [f32; SUMS], mma_batches: &[f32; SUMS]) {
    unroll!(8, |sixteenth| {
        if sixteenth < SUMS / 16 {
            unroll!(16, |i| {
                promoted[16 * sixteenth + i] += mma_batches[16 * sixteenth + i];
            });
        }
    });
}

macro_rules! is_promoted {
    ($($Format:ident, $sums:literal, $add:ident;)*) => {$(
        impl WarpSpecializedFormat<$sums> for $Format {
            type Sums = Kept<$sums>;
            const STAYS: bool = true;
            const INTERLEAVED: bool = false;

            #[inline(always)]
            fn nothing() -> Self::Sums {
                Kept {
                    mma_batches: InFlight::at_rest(const { [0.0; $sums] }),
                    count: 0,
                    promoted: const { [0.0; $sums] },
                }
            }

            #[inline(always)]
            unsafe fn multiply(kept: Self::Sums, filters: Operands, pixels: Operands, _: u32) -> Self::Sums {
                let Kept { mma_batches, count, mut promoted } = kept;
                let mma_batches = wgmma::$add(mma_batches, &filters.first, &pixels.first);
                if count + 1 < KEPT_MMA_BATCHES {
                    mma_batches.wait_for_older::<1>();
                    return Kept { mma_batches, count: count + 1, promoted };
                }
                promote(&mut promoted, &mma_batches.wait::<0>());
                let mma_batches = InFlight::at_rest(const { [0.0; $sums] });
                Kept { mma_batches, count: 0, promoted }
            }

            #[inline(always)]
            unsafe fn settle(kept: &Self::Sums) {
                kept.mma_batches.wait_for_older::<0>();
            }

            #[inline(always)]
            unsafe fn finish(kept: Self::Sums) -> [f32; $sums] {
                let Kept { mma_batches, mut promoted, .. } = kept;
                promote(&mut promoted, &mma_batches.wait::<0>());
                promoted
            }
        }
    )*};
}

is_promoted! {
    Bf16x3, 64, add_shared_n128_bf16_3;
    Bf16x3, 128, add_shared_n256_bf16_3;
}
