//! Data races between threads of a block and between blocks, and operations that order accesses.

use crate::support::{download, faults, run_clean, run_faulty, run_racy, shape, upload};
use cuda_std::emulator::{Device, FaultKind};
use cuda_std::prelude::*;
use cuda_std::{barrier, warp};

const THREADS: u32 = 128;

shared_array! {
    static LINE: [f32; 128];
    static BYTES: [u8; 128];
}

/// Sums a row by halving; `dropped` leaves out the barrier of one round.
#[kernel]
unsafe fn tree_sum(x: *const f32, y: *mut f32, dropped: u32) {
    unsafe {
        let (x, y, line) = (Global::new(x, 128), GlobalMut::new(y, 1), LINE.view());
        let t = thread::thread_idx_x();
        line.store(t, x.load(t as usize));
        let mut half = THREADS / 2;
        while half > 0 {
            if half != dropped {
                thread::sync_threads();
            }
            if t < half {
                line.store(t, line.load(t) + line.load(t + half));
            }
            half /= 2;
        }
        if t == 0 {
            y.store(0, line.load(0));
        }
    }
}

#[test]
fn a_tree_sum_is_clean_with_all_its_barriers_and_racy_without_any_one_of_them() {
    let device = Device::new();
    let (x, y) = (upload(&device, &[1.0_f32; 128]), device.alloc(4).unwrap());
    run_clean::<tree_sum>(&device, &shape(1, THREADS), (x.ptr(), y.ptr(), 0));
    assert_eq!(download::<f32>(&y), [128.0]);
    for dropped in [32, 16, 8, 4, 2, 1] {
        run_racy::<tree_sum>(&device, &shape(1, THREADS), (x.ptr(), y.ptr(), dropped));
    }
}

/// Passes values to the right round after round through one buffer; each round needs two barriers.
#[kernel]
unsafe fn rotate(y: *mut f32, drop_first: u32, drop_second: u32) {
    unsafe {
        let (y, line) = (GlobalMut::new(y, 128), LINE.view());
        let t = thread::thread_idx_x();
        let mut value = t as f32;
        for round in 0..4 {
            line.store(t, value);
            if round != drop_first {
                thread::sync_threads();
            }
            value = line.load((t + 1) % THREADS);
            if round != drop_second {
                thread::sync_threads();
            }
        }
        y.store(t as usize, value);
    }
}

#[test]
fn a_buffer_used_again_needs_a_barrier_before_it_is_read_and_before_it_is_overwritten() {
    const KEEP: u32 = 9;
    let device = Device::new();
    let y = device.alloc(512).unwrap();
    let launch = shape(2, THREADS);
    // Both blocks write `y`.
    faults! { unsafe { device.launch::<rotate>(&launch, (y.ptr(), KEEP, KEEP)) }.unwrap_err() => Race; }
    let launch = shape(1, THREADS);
    run_clean::<rotate>(&device, &launch, (y.ptr(), KEEP, KEEP));
    assert_eq!(download::<f32>(&y)[0], 4.0);
    for round in 0..3 {
        run_racy::<rotate>(&device, &launch, (y.ptr(), KEEP, round));
    }
    for round in 1..4 {
        run_racy::<rotate>(&device, &launch, (y.ptr(), round, KEEP));
    }
}

/// Many threads read a value, then its owner, which reads it last, overwrites it.
#[kernel]
unsafe fn broadcast_then_overwrite(scratch: *mut f32, dropped: bool) {
    unsafe {
        let (scratch, line) = (GlobalMut::new(scratch, 1), LINE.view());
        let t = thread::thread_idx_x();
        let owner = THREADS - 1;
        if t == owner {
            line.store(0, 1.0);
            scratch.store(0, 2.0);
        }
        thread::sync_threads();
        let sum = line.load(0) + scratch.load(0);
        if !dropped {
            thread::sync_threads();
        }
        if t == owner {
            line.store(0, sum);
            scratch.store(0, sum);
        }
    }
}

#[test]
fn a_write_after_reads_of_many_threads_needs_a_barrier_even_if_the_writer_read_last() {
    let device = Device::new();
    let scratch = device.alloc(4).unwrap();
    run_clean::<broadcast_then_overwrite>(&device, &shape(1, THREADS), (scratch.ptr(), false));
    run_racy::<broadcast_then_overwrite>(&device, &shape(1, THREADS), (scratch.ptr(), true));
}

/// Lanes exchange values within each warp.
#[kernel]
unsafe fn within_warps(y: *mut f32, dropped: bool, offset: u32) {
    unsafe {
        let (y, line) = (GlobalMut::new(y, 128), LINE.view());
        let t = thread::thread_idx_x();
        for round in 0..3 {
            line.store(t, (t + round) as f32);
            if !(dropped && round == 1) {
                warp::sync_warp(u32::MAX);
            }
            y.store(t as usize, line.load(t ^ offset));
            warp::sync_warp(u32::MAX);
        }
    }
}

/// Lanes of one half of a warp synchronise among themselves; `across` reads from the other half.
#[kernel]
unsafe fn half_warps(y: *mut f32, across: bool) {
    unsafe {
        let (y, line) = (GlobalMut::new(y, 32), LINE.view());
        let t = thread::thread_idx_x();
        let mask = if t < 16 { 0xffff } else { 0xffff_0000 };
        line.store(t, t as f32);
        warp::sync_warp(u32::MAX);
        line.store(t, 1.0 + t as f32);
        warp::sync_warp(mask);
        y.store(t as usize, line.load(if across { t ^ 16 } else { t ^ 8 }));
    }
}

/// A shuffle in place of the necessary `sync_warp`.
#[kernel]
unsafe fn shuffle_is_no_fence(y: *mut f32) {
    unsafe {
        let (y, line) = (GlobalMut::new(y, 32), LINE.view());
        let t = thread::thread_idx_x();
        line.store(t, 1.0);
        let _ = warp::warp_shuffle_xor(u32::MAX, t, 1, 32);
        y.store(t as usize, line.load(t ^ 1));
    }
}

#[test]
fn sync_warp_orders_the_lanes_of_its_mask_and_nothing_else_does() {
    let device = Device::new();
    let y = device.alloc(512).unwrap();
    let launch = shape(1, THREADS);
    run_clean::<within_warps>(&device, &launch, (y.ptr(), false, 1));
    run_racy::<within_warps>(&device, &launch, (y.ptr(), true, 1));
    // In some orders the neighbour has not written yet, and this is found first.
    let other_warp = run_faulty::<within_warps>(&device, &launch, (y.ptr(), false, 32));
    faults! { other_warp => Race | Uninitialized; }
    run_clean::<half_warps>(&device, &shape(1, 32), (y.ptr(), false));
    run_racy::<half_warps>(&device, &shape(1, 32), (y.ptr(), true));
    run_racy::<shuffle_is_no_fence>(&device, &shape(1, 32), (y.ptr(),));
}

/// One warp fills two buffers in turn, three warps read them: full and empty barriers for each
/// buffer.
#[kernel]
unsafe fn producer_consumer(y: *mut f32, skip_full: u32, skip_empty: u32) {
    const ROUNDS: u32 = 6;
    const FULL: u32 = 1;
    const EMPTY: u32 = 3;
    unsafe {
        let (y, line) = (GlobalMut::new(y, 96), LINE.view());
        let t = thread::thread_idx_x();
        if t < 32 {
            for round in 0..ROUNDS {
                let buffer = round % 2;
                if round >= 2 && round != skip_empty {
                    barrier::sync(EMPTY + buffer, THREADS);
                }
                line.store(32 * buffer + t, (round + t) as f32);
                barrier::arrive(FULL + buffer, THREADS);
            }
        } else {
            let mut sum = 0.0;
            for round in 0..ROUNDS {
                let buffer = round % 2;
                if round != skip_full {
                    barrier::sync(FULL + buffer, THREADS);
                }
                sum += line.load(32 * buffer + t % 32);
                if round + 2 < ROUNDS && round + 2 != skip_empty {
                    barrier::arrive(EMPTY + buffer, THREADS);
                }
            }
            y.store((t - 32) as usize, sum);
        }
    }
}

#[test]
fn named_barriers_order_producers_and_consumers() {
    const KEEP: u32 = 99;
    let device = Device::new();
    let y = device.alloc(384).unwrap();
    let launch = shape(1, THREADS);
    run_clean::<producer_consumer>(&device, &launch, (y.ptr(), KEEP, KEEP));
    assert_eq!(
        download::<f32>(&y)[2],
        (0..6).map(|round| (round + 2) as f32).sum()
    );
    // Without the empty barrier, the producer overwrites a buffer that is still being read, or arrives
    // again at a barrier that has not completed.
    for round in 2..6 {
        let arguments = (y.ptr(), KEEP, round);
        faults! { run_faulty::<producer_consumer>(&device, &launch, arguments) => Race | Barrier; }
    }
}

/// Neighbouring bytes by different threads; `shift` makes them collide.
#[kernel]
unsafe fn store_bytes(shift: u32) {
    unsafe { BYTES.view().store(thread::thread_idx_x() >> shift, 1) }
}

#[test]
fn races_are_found_to_the_byte() {
    let device = Device::new();
    run_clean::<store_bytes>(&device, &shape(1, THREADS), (0,));
    faults! { run_racy::<store_bytes>(&device, &shape(1, THREADS), (1,)) => Race(offset: 0); }
}

/// Every block writes one element; `stride` 0 makes it the same one.
#[kernel]
unsafe fn one_per_block(y: *mut u32, stride: usize) {
    unsafe {
        let b = thread::block_idx_x();
        GlobalMut::new(y, 8).store(b as usize * stride, b);
    }
}

#[test]
fn two_blocks_may_not_write_one_element() {
    let device = Device::new();
    let y = device.alloc(32).unwrap();
    run_clean::<one_per_block>(&device, &shape(8, 1), (y.ptr(), 1));
    let fault = run_racy::<one_per_block>(&device, &shape(8, 1), (y.ptr(), 0));
    let FaultKind::Race { earlier, .. } = fault.kind else {
        unreachable!()
    };
    assert_eq!(
        (earlier.thread.block, fault.thread.unwrap().block),
        ([0, 0, 0], [1, 0, 0])
    );
}

/// In place: each block reads a neighbour's element before it writes its own.
#[kernel]
unsafe fn stencil_in_place(x: *mut f32, reach: usize) {
    unsafe {
        let x = GlobalMut::new(x, 64);
        let i = thread::index_1d() as usize;
        let sum = x.load(i) + x.load((i + reach) % 64);
        x.store(i, sum);
    }
}

#[test]
fn an_in_place_update_may_not_read_what_others_write() {
    let device = Device::new();
    let x = upload(&device, &[1.0_f32; 64]);
    run_clean::<stencil_in_place>(&device, &shape(4, 16), (x.ptr(), 0));
    run_racy::<stencil_in_place>(&device, &shape(4, 16), (x.ptr(), 16));
    run_racy::<stencil_in_place>(&device, &shape(64, 1), (x.ptr(), 1));
    run_racy::<stencil_in_place>(&device, &shape(1, 64), (x.ptr(), 1));
}

/// All threads read all inputs, also through the constant cache; then each writes its own output.
#[kernel]
unsafe fn all_read_all(x: *const f32, y: *mut f32, poke: bool) {
    unsafe {
        let (x, y) = (Global::new(x, 64), GlobalMut::new(y, 256));
        let sum: f32 = (0..64).map(|i| x.load(i) + x.load_readonly(i)).sum();
        y.store(thread::index_1d() as usize, sum);
        if poke && thread::index_1d() == 255 {
            GlobalMut::new(x_mut(y), 64).store(63, 0.0);
        }
    }
}

/// Returns the address of the poke: the input that follows the output's view in the same allocation.
unsafe fn x_mut(y: GlobalMut<f32>) -> *mut f32 {
    let _ = y;
    POKED.load(std::sync::atomic::Ordering::Relaxed)
}

static POKED: std::sync::atomic::AtomicPtr<f32> =
    std::sync::atomic::AtomicPtr::new(std::ptr::null_mut());

#[test]
fn inputs_that_all_threads_read_are_no_race_until_somebody_writes_one() {
    let device = Device::new();
    let (x, y) = (upload(&device, &[1.0_f32; 64]), device.alloc(1024).unwrap());
    POKED.store(x.ptr(), std::sync::atomic::Ordering::Relaxed);
    run_clean::<all_read_all>(&device, &shape(2, 128), (x.ptr(), y.ptr(), false));
    // In a shuffled order some thread may read the poked element through the constant cache first, which is
    // also reported.
    let poked = run_faulty::<all_read_all>(&device, &shape(2, 128), (x.ptr(), y.ptr(), true));
    faults! { poked => Race; }
}
