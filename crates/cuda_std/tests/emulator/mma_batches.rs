//! MMA batches of warpgroup multiplications with A in registers.

use crate::support::{Product, faults, run_clean, run_faulty, shape, upload};
use cuda_std::element::Element;
use cuda_std::emulator::{Device, Launch};
use cuda_std::mma::pack_f16x2;
use cuda_std::prelude::*;
use cuda_std::{Kernel, async_proxy, barrier, wgmma};

const ROWS: usize = 64;
const COLUMNS: usize = 64;
const STEPS: usize = 5;
const K: usize = 16 * STEPS;
/// Words of a step's B, and of one half of K.
const STEP_WORDS: u32 = 512;
const HALF_WORDS: u32 = 256;

shared_array! {
    static TILES: [u32; STEPS * STEP_WORDS as usize];
}

/// The mistake in a kernel with a batch.
#[derive(Clone, Copy, PartialEq)]
#[repr(u32)]
pub(crate) enum Bug {
    None,
    NoProxyFence,
    NoBarrier,
    Disagree,
    Outside,
    HalfComes,
    /// A thread overwrites the operands although it has not waited for all readers.
    Overwrites,
    /// The operands are overwritten after a barrier at which the readers arrive before they wait for the
    /// batch.
    TellsEarly,
    /// The operands are made visible to the tensor cores only after the barrier that signals them.
    FencesLate,
    /// The wait leaves its own batch in flight.
    WeakWait,
    /// No warp waits for the batch, or one warp does not.
    NeverWaits,
    OneWarpNeverWaits,
    /// One warp does not wait for the first of two batches.
    OneWarpWaitsOnce,
}

/// Returns the word of a column with the two values `k, k + 1`.
fn word_of(column: u32, k: u32) -> u32 {
    let (step, half, pair) = (k / 16, k / 8 % 2, k % 8 / 2);
    step * STEP_WORDS + half * HALF_WORDS + column * 4 + pair
}

/// `C = A * B` for a 64 x 80 A and an 80 x 64 B, by the first warpgroup. The second one writes B, column by
/// column, and overwrites it when the first signals that it has read B.
#[kernel(max_threads = 256)]
unsafe fn multiply(a: *const u32, b: *const u32, c: *mut f32, bug: Bug) {
    const FULL: u32 = 1;
    const READ: u32 = 2;
    unsafe {
        let a = Global::new(a, ROWS * K / 2);
        let b = Global::new(b, COLUMNS * K / 2);
        let (tiles, t) = (TILES.view(), thread::thread_idx_x());
        if t >= 128 {
            let (column, part) = ((t - 128) % COLUMNS as u32, (t - 128) / COLUMNS as u32);
            let pairs = K as u32 / 4;
            for pair in part * pairs..(part + 1) * pairs {
                let value = b.load((column * K as u32 / 2 + pair) as usize);
                tiles.store(word_of(column, 2 * pair), value);
            }
            if bug != Bug::NoProxyFence && bug != Bug::FencesLate {
                async_proxy::fence_shared();
            }
            if bug != Bug::NoBarrier {
                barrier::arrive(FULL, 256);
            }
            if bug == Bug::FencesLate {
                async_proxy::fence_shared();
            }
            barrier::sync(READ, if bug == Bug::Overwrites { 160 } else { 256 });
            tiles.store(word_of(column, part * K as u32 / 2), 0);
            return;
        }
        if bug == Bug::HalfComes && t >= 64 {
            return;
        }
        let (warp, quad, quad_lane) = (t / 32, t % 32 / 4, t % 4);
        let mut operands = [[0; 4]; STEPS];
        for (step, operand) in operands.iter_mut().enumerate() {
            for (i, word) in operand.iter_mut().enumerate() {
                let row = 16 * warp as usize + quad as usize + 8 * (i % 2);
                let k = 16 * step + 2 * quad_lane as usize + 8 * (i / 2);
                *word = a.load((row * K + k) / 2);
            }
        }
        if bug != Bug::NoBarrier {
            barrier::sync(FULL, 256);
        }
        let start = wgmma::unit(tiles.addr(0));
        let start = match bug {
            Bug::Disagree if t == 77 => start + 8,
            Bug::Outside => start + 8,
            _ => start,
        };
        let (step, half) = (STEP_WORDS / 4, HALF_WORDS / 4);
        let columns = [0, 1, 2, 3, 4].map(|i| wgmma::MatrixDescriptor::new(start + i * step, half));
        let batch = wgmma::start_f16_5(&operands, &columns);
        if bug == Bug::TellsEarly {
            barrier::arrive(READ, 256);
        }
        let d = match bug {
            Bug::WeakWait => batch.wait::<1>(),
            Bug::NeverWaits => [0.0; 32],
            Bug::OneWarpNeverWaits if warp == 1 => [0.0; 32],
            Bug::OneWarpWaitsOnce if warp == 1 => {
                let second = wgmma::start_f16_5(&operands, &columns);
                second.wait::<0>()
            }
            Bug::OneWarpWaitsOnce => {
                let _ = batch.wait::<0>();
                let second = wgmma::start_f16_5(&operands, &columns);
                second.wait::<0>()
            }
            _ => batch.wait::<0>(),
        };
        match bug {
            Bug::TellsEarly => {}
            // The columns are overwritten after a barrier at which only this warp of the readers has
            // arrived.
            Bug::Overwrites if warp == 1 => barrier::arrive(READ, 160),
            Bug::Overwrites => {}
            _ => barrier::arrive(READ, 256),
        }
        let c = GlobalMut::new(c, ROWS * COLUMNS);
        for (i, &value) in d.iter().enumerate() {
            let row = 16 * warp as usize + quad as usize + 8 * (i / 2 % 2);
            c.store(
                row * COLUMNS + 8 * (i / 4) + 2 * quad_lane as usize + i % 2,
                value,
            );
        }
    }
}

/// Packs pairs of values as words of f16.
fn words(values: &[f32]) -> Vec<u32> {
    let pairs = values.chunks_exact(2);
    pairs.map(|pair| pack_f16x2(pair[0], pair[1])).collect()
}

#[test]
fn a_batch_multiplies_registers_by_shared_memory() {
    let device = Device::new();
    let product = Product::new(ROWS, COLUMNS, K);
    let [a, b] = [&product.a, &product.b].map(|of| upload(&device, &words(of)));
    let c = device.alloc(4 * ROWS * COLUMNS).unwrap();
    run_clean::<multiply>(
        &device,
        &shape(1, 256),
        (a.ptr(), b.ptr(), c.ptr(), Bug::None),
    );
    product.assert_eq("registers", &c, 1.0, 0.0);
}

/// Checks that every mistake of a kernel that multiplies `a` by `b` is reported with the right fault.
pub(crate) fn bugs_are_reported<T: Element, K>(launch: &Launch, a: &[T], b: &[T], products: usize)
where
    K: Kernel<Args = (*const T, *const T, *mut f32, Bug)>,
{
    let device = Device::new();
    let (a, b) = (upload(&device, a), upload(&device, b));
    let c = device.alloc(4 * products).unwrap();
    let fault = |bug| run_faulty::<K>(&device, launch, (a.ptr(), b.ptr(), c.ptr(), bug));
    faults! {
        fault(Bug::NoProxyFence) => AsyncProxy;
        fault(Bug::NoBarrier) => Race | Uninitialized;
        fault(Bug::Disagree) => Warp;
        fault(Bug::Outside) => Argument;
        fault(Bug::HalfComes) => Deadlock;
        fault(Bug::Overwrites) => Race;
    }
}

#[test]
fn mistakes_around_batches_are_reported() {
    let Product { a, b, .. } = Product::new(ROWS, COLUMNS, K);
    let (a, b) = (words(&a), words(&b));
    bugs_are_reported::<u32, multiply>(&shape(1, 256), &a, &b, ROWS * COLUMNS);
    let device = Device::new();
    let (a, b) = (upload(&device, &a), upload(&device, &b));
    let c = device.alloc(4 * ROWS * COLUMNS).unwrap();
    let launch = shape(1, 256);
    let fault = |bug| run_faulty::<multiply>(&device, &launch, (a.ptr(), b.ptr(), c.ptr(), bug));
    faults! {
        fault(Bug::TellsEarly) => Race | InFlight;
        fault(Bug::FencesLate) => AsyncProxy;
        fault(Bug::WeakWait) => "does not wait for it";
        fault(Bug::NeverWaits) => "did not wait for 1 MMA batch(es)";
        fault(Bug::OneWarpNeverWaits) => "did not wait for 1 MMA batch(es)";
        fault(Bug::OneWarpWaitsOnce) => "threads of one warpgroup disagree";
    }
}
