//! How the warp-specialized mainloop accumulates MMA batches.

use cuda_std::wgmma::{self, InFlight, MatrixDescriptor};
use launch_config::implicit_gemm::MMA_BATCH_STEPS;

use super::super::format::{Bf16, Bf16x3, DenseF32, F16, F16x2, Format, ScaledF16};
use crate::parts::unroll::unroll;

/// Descriptors of the high parts of an MMA batch's operands. Low parts are `low` units further.
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

    /// Returns, for each step, the operands of its three products: high (`false`) or low (`true`) parts.
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

/// How a format accumulates MMA batches in `SUMS` accumulators of each thread: 64 for 128 pixels, 128 for
/// 256.
pub(super) trait WarpSpecializedFormat<const SUMS: usize>: Format {
    /// The accumulators, perhaps of MMAs in flight.
    type Sums;
    /// Whether [`add`](Self::add) leaves MMA batches in flight.
    const LEAVES_IN_FLIGHT: bool;
    /// Whether an MMA batch multiplies the even octets of pixels first, then the odd ones. With two strips,
    /// the odd octets are of the other strip.
    const INTERLEAVED: bool;

    /// Starts the first MMA batch of a sum. The arguments are those of [`add`](Self::add).
    ///
    /// # Safety
    /// As for [`add`](Self::add).
    unsafe fn start_sum(filters: Operands, pixels: Operands, second: u32) -> Self::Sums;

    /// Accumulates an MMA batch. `second` is the distance, in units of 16 bytes, of the odd octets from the
    /// even ones if [`INTERLEAVED`](Self::INTERLEAVED), else of the second 128 pixels from the first.
    ///
    /// # Safety
    /// All threads of a warpgroup make this call, and the operands are in shared memory.
    unsafe fn add(sums: Self::Sums, filters: Operands, pixels: Operands, second: u32)
    -> Self::Sums;

    /// Waits for all MMAs in flight but those of the latest MMA batch.
    ///
    /// # Safety
    /// All threads of a warpgroup make this call.
    unsafe fn settle_older(sums: &Self::Sums);

    /// Waits for all MMAs in flight.
    ///
    /// # Safety
    /// All threads of a warpgroup make this call.
    unsafe fn settle(sums: &Self::Sums);

    /// Waits for all MMAs in flight, and returns the accumulators.
    ///
    /// # Safety
    /// All threads of a warpgroup make this call.
    unsafe fn finish(sums: Self::Sums) -> [f32; SUMS];
}

/// Starts an MMA batch of all octets of pixels, or of the even and then the odd ones.
macro_rules! start {
    (false, $batch:ident, ($($sums:ident,)?), $filters:ident, $pixels:ident, $second:ident) => {{
        let _ = $second;
        wgmma::$batch($($sums,)? &$filters.first, &$pixels.first)
    }};
    (true, $batch:ident, ($($sums:ident,)?), $filters:ident, $pixels:ident, $second:ident) => {{
        let odd = $pixels.offset($second);
        wgmma::$batch($($sums,)? &$filters.first, &$pixels.first, &odd.first)
    }};
}

macro_rules! accumulates_in_flight {
    ($($Format:ident, $sums:literal, $interleaved:tt, $start:ident, $add:ident;)*) => {$(
        impl WarpSpecializedFormat<$sums> for $Format {
            type Sums = InFlight<$sums>;
            const LEAVES_IN_FLIGHT: bool = true;
            const INTERLEAVED: bool = $interleaved;

            #[inline(always)]
            unsafe fn start_sum(filters: Operands, pixels: Operands, second: u32) -> Self::Sums {
                start!($interleaved, $start, (), filters, pixels, second)
            }

            #[inline(always)]
            unsafe fn add(sums: Self::Sums, filters: Operands, pixels: Operands, second: u32) -> Self::Sums {
                start!($interleaved, $add, (sums,), filters, pixels, second)
            }

            #[inline(always)]
            unsafe fn settle_older(sums: &Self::Sums) {
                sums.wait_for_older::<1>();
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

accumulates_in_flight! {
    ScaledF16, 64, false, start_shared_n128_f16_3, add_shared_n128_f16_3;
    ScaledF16, 128, false, start_shared_n256_f16_3, add_shared_n256_f16_3;
    DenseF32, 64, false, start_shared_n128_f16_3, add_shared_n128_f16_3;
    DenseF32, 128, false, start_shared_n256_f16_3, add_shared_n256_f16_3;
    F16, 64, true, start_interleaved_n128_f16_3, add_interleaved_n128_f16_3;
    F16, 128, true, start_interleaved_n256_f16_3, add_interleaved_n256_f16_3;
    Bf16, 64, true, start_interleaved_n128_bf16_3, add_interleaved_n128_bf16_3;
    Bf16, 128, true, start_interleaved_n256_bf16_3, add_interleaved_n256_bf16_3;
}

impl<const SUMS: usize> WarpSpecializedFormat<SUMS> for F16x2 {
    type Sums = [f32; SUMS];
    const LEAVES_IN_FLIGHT: bool = false;
    const INTERLEAVED: bool = false;

    #[inline(always)]
    unsafe fn start_sum(filters: Operands, pixels: Operands, second: u32) -> Self::Sums {
        // A constant, because an array that a loop fills is in local memory.
        <Self as WarpSpecializedFormat<SUMS>>::add(const { [0.0; SUMS] }, filters, pixels, second)
    }

    #[inline(always)]
    unsafe fn add(
        mut sums: Self::Sums,
        filters: Operands,
        pixels: Operands,
        second: u32,
    ) -> Self::Sums {
        // High by high, high by low, low by high, as in all f16x2 kernels.
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
    unsafe fn settle_older(_: &Self::Sums) {}

    #[inline(always)]
    unsafe fn settle(_: &Self::Sums) {}

    #[inline(always)]
    unsafe fn finish(sums: Self::Sums) -> [f32; SUMS] {
        sums
    }
}

/// MMA batches of split values between two promotions. Tensor cores truncate sums; the head of `warps` bounds
/// the error.
const PROMOTION_MMA_BATCHES: u32 = 4;

/// Accumulators in flight, the number of MMA batches in them, and the promoted sums.
pub(super) struct PromotedSums<const SUMS: usize> {
    mma_batches: InFlight<SUMS>,
    count: u32,
    promoted: [f32; SUMS],
}

/// Adds the accumulators of complete MMA batches to the promoted sums.
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

macro_rules! accumulates_with_promotion {
    ($($Format:ident, $sums:literal, $add:ident;)*) => {$(
        impl WarpSpecializedFormat<$sums> for $Format {
            type Sums = PromotedSums<$sums>;
            const LEAVES_IN_FLIGHT: bool = true;
            const INTERLEAVED: bool = false;

            #[inline(always)]
            unsafe fn start_sum(filters: Operands, pixels: Operands, second: u32) -> Self::Sums {
                let zeros = PromotedSums {
                    mma_batches: InFlight::at_rest(const { [0.0; $sums] }),
                    count: 0,
                    promoted: const { [0.0; $sums] },
                };
                <Self as WarpSpecializedFormat<$sums>>::add(zeros, filters, pixels, second)
            }

            #[inline(always)]
            unsafe fn add(kept: Self::Sums, filters: Operands, pixels: Operands, _: u32) -> Self::Sums {
                let PromotedSums { mma_batches, count, mut promoted } = kept;
                let mma_batches = wgmma::$add(mma_batches, &filters.first, &pixels.first);
                if count + 1 < PROMOTION_MMA_BATCHES {
                    return PromotedSums { mma_batches, count: count + 1, promoted };
                }
                promote(&mut promoted, &mma_batches.wait::<0>());
                let mma_batches = InFlight::at_rest(const { [0.0; $sums] });
                PromotedSums { mma_batches, count: 0, promoted }
            }

            #[inline(always)]
            unsafe fn settle_older(kept: &Self::Sums) {
                kept.mma_batches.wait_for_older::<1>();
            }

            #[inline(always)]
            unsafe fn settle(kept: &Self::Sums) {
                kept.mma_batches.wait_for_older::<0>();
            }

            #[inline(always)]
            unsafe fn finish(kept: Self::Sums) -> [f32; $sums] {
                let PromotedSums { mma_batches, mut promoted, .. } = kept;
                promote(&mut promoted, &mma_batches.wait::<0>());
                promoted
            }
        }
    )*};
}

accumulates_with_promotion! {
    Bf16x3, 64, add_shared_n128_bf16_3;
    Bf16x3, 128, add_shared_n256_bf16_3;
}
