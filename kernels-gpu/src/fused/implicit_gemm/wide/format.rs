//! How chains of wide products are added up.

use cuda_std::wgmma::{self, InFlight, MatrixDescriptor};
use op_spec::launch::implicit_gemm::CHAIN_STEPS;

use super::super::format::{Bf16, F16, Format, Parts, Rounded, Split};
use crate::parts::unroll::unroll;

/// Where the operands of a chain's steps are, their high parts; the low ones are `low` units further.
#[derive(Clone, Copy)]
pub(super) struct Operands {
    pub(super) first: [MatrixDescriptor; CHAIN_STEPS as usize],
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

    /// High and low parts in the order in which factors meet: those of the filters come twice before the low ones,
    /// those of the pixels come first and last.
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

/// A format whose chains a warpgroup adds to `SUMS` sums for each thread: 64 for 128 pixels, 128 for 256.
pub(super) trait WideFormat<const SUMS: usize>: Format {
    /// The sums, or what is under way to them.
    type Sums;
    /// Whether the chain before is under way after [`multiply`](Self::multiply), or this one.
    const STAYS: bool;
    /// Whether octets of pixels are multiplied in turn: the even ones, and the odd ones, which are of another strip where there are two.
    const IN_TURN: bool;

    /// Zeros, as constants: an array that a loop fills lies in memory.
    fn nothing() -> Self::Sums;

    /// Adds the products of a chain. Where octets are multiplied in turn, the odd ones are `second` units behind the even ones, else pixels from the 128th on
    /// behind the first ones.
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

/// Starts a chain of all octets of pixels at once, or of the even and the odd ones in turn.
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
    ($($Format:ident, $sums:literal, $in_turn:tt, $add:ident;)*) => {$(
        impl WideFormat<$sums> for $Format {
            type Sums = InFlight<$sums>;
            const STAYS: bool = true;
            const IN_TURN: bool = $in_turn;

            #[inline(always)]
            fn nothing() -> Self::Sums {
                InFlight::at_rest(const { [0.0; $sums] })
            }

            #[inline(always)]
            unsafe fn multiply(sums: Self::Sums, filters: Operands, pixels: Operands, second: u32) -> Self::Sums {
                let sums = start!($in_turn, $add, sums, filters, pixels, second);
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
    Rounded, 64, false, add_shared_n128_f16_3;
    Rounded, 128, false, add_shared_n256_f16_3;
    F16, 64, true, add_interleaved_n128_f16_3;
    F16, 128, true, add_interleaved_n256_f16_3;
    Bf16, 64, true, add_interleaved_n128_bf16_3;
    Bf16, 128, true, add_interleaved_n256_bf16_3;
}

impl<const SUMS: usize> WideFormat<SUMS> for Split {
    type Sums = [f32; SUMS];
    const STAYS: bool = false;
    const IN_TURN: bool = false;

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
                let chain = wgmma::start_shared_n128_f16_9(&filters, &pixels).wait::<0>();
                unroll!(4, |quarter| {
                    unroll!(16, |i| {
                        sums[64 * half + 16 * quarter + i] += chain[16 * quarter + i];
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

/// Chains of parts whose sums tensor cores add up before they are put aside: they truncate (`warps` says what comes of it).
const KEPT_CHAINS: u32 = 4;

/// Sums of parts: those that are under way, of how many chains they are, and those that were put aside.
pub(super) struct Kept<const SUMS: usize> {
    chains: InFlight<SUMS>,
    count: u32,
    aside: [f32; SUMS],
}

/// Adds the sums of finished chains to those that were put aside.
#[inline(always)]
fn put_aside<const SUMS: usize>(aside: &mut [f32; SUMS], chains: &[f32; SUMS]) {
    unroll!(8, |sixteenth| {
        if sixteenth < SUMS / 16 {
            unroll!(16, |i| {
                aside[16 * sixteenth + i] += chains[16 * sixteenth + i];
            });
        }
    });
}

macro_rules! is_put_aside {
    ($($Format:ident, $sums:literal, $add:ident;)*) => {$(
        impl WideFormat<$sums> for $Format {
            type Sums = Kept<$sums>;
            const STAYS: bool = true;
            const IN_TURN: bool = false;

            #[inline(always)]
            fn nothing() -> Self::Sums {
                Kept {
                    chains: InFlight::at_rest(const { [0.0; $sums] }),
                    count: 0,
                    aside: const { [0.0; $sums] },
                }
            }

            #[inline(always)]
            unsafe fn multiply(kept: Self::Sums, filters: Operands, pixels: Operands, _: u32) -> Self::Sums {
                let Kept { chains, count, mut aside } = kept;
                let chains = wgmma::$add(chains, &filters.first, &pixels.first);
                if count + 1 < KEPT_CHAINS {
                    chains.wait_for_older::<1>();
                    return Kept { chains, count: count + 1, aside };
                }
                put_aside(&mut aside, &chains.wait::<0>());
                let chains = InFlight::at_rest(const { [0.0; $sums] });
                Kept { chains, count: 0, aside }
            }

            #[inline(always)]
            unsafe fn settle(kept: &Self::Sums) {
                kept.chains.wait_for_older::<0>();
            }

            #[inline(always)]
            unsafe fn finish(kept: Self::Sums) -> [f32; $sums] {
                let Kept { chains, mut aside, .. } = kept;
                put_aside(&mut aside, &chains.wait::<0>());
                aside
            }
        }
    )*};
}

is_put_aside! {
    Parts, 64, add_shared_n128_bf16_3;
    Parts, 128, add_shared_n256_bf16_3;
}
