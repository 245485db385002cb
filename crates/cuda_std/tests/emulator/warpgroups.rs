//! Warpgroup multiplication.

use crate::support::{download, run_clean, run_faulty, shape, upload};
use cuda_std::emulator::{Device, Fault, FaultKind};
use cuda_std::prelude::*;
use cuda_std::{async_proxy, barrier, registers, wgmma};

const COLUMNS: usize = 16;
/// K of one tf32 instruction; the kernels take two.
const K: usize = 16;

shared_array! {
    static A: [u32; 64 * K];
    static B: [u32; COLUMNS * K];
}

/// Where word `k` of row `row` lies in a tile of `rows` rows: core matrices of 8 rows x 4 words,
/// one after the other along the rows, then along K.
fn place(row: u32, k: u32, rows: u32) -> u32 {
    (k / 4) * rows * 4 + row * 4 + k % 4
}

#[derive(Clone, Copy, PartialEq)]
#[repr(u32)]
enum Bug {
    None,
    NoProxyFence,
    NoFence,
    NoWait,
    NoBarrier,
    Disagree,
    OverwriteBeforeWait,
    HalfComes,
}

/// `C = A * B^T` for a 64 x 16 A and a 16 x 16 B of tf32, in two instructions.
#[kernel(max_threads = 128)]
unsafe fn multiply(a: *const f32, b: *const f32, c: *mut f32, bug: Bug) {
    unsafe {
        let (a, b) = (Global::new(a, 64 * K), Global::new(b, COLUMNS * K));
        let c = GlobalMut::new(c, 64 * COLUMNS);
        let (tile_a, tile_b, t) = (A.view(), B.view(), thread::thread_idx_x());
        registers::decrease::<104>();
        for i in 0..8 {
            let (row, k) = ((i * 128 + t) / K as u32, t % K as u32);
            tile_a.store(
                place(row, k, 64),
                a.load(row as usize * K + k as usize).to_bits(),
            );
        }
        for i in 0..2 {
            let (row, k) = ((i * 128 + t) / K as u32, t % K as u32);
            tile_b.store(
                place(row, k, COLUMNS as u32),
                b.load(row as usize * K + k as usize).to_bits(),
            );
        }
        if bug != Bug::NoProxyFence {
            async_proxy::fence_shared();
        }
        if bug != Bug::NoBarrier {
            thread::sync_threads();
        }
        if bug == Bug::HalfComes && t >= 64 {
            return;
        }
        let mut d = wgmma::Accumulator::<{ COLUMNS / 2 }>::zero();
        if bug != Bug::NoFence {
            d.fence();
        }
        let (half_a, half_b) = (64 * 16, COLUMNS as u32 * 16);
        let shift = if bug == Bug::Disagree && t == 70 {
            16
        } else {
            0
        };
        let da = wgmma::Descriptor::new(tile_a.addr(0).offset(shift), half_a, 128);
        let db = wgmma::Descriptor::new(tile_b.addr(0), half_b, 128);
        wgmma::tf32(&mut d, da, db, false);
        wgmma::tf32(&mut d, da.offset(2 * half_a), db.offset(2 * half_b), true);
        wgmma::commit_group();
        if bug == Bug::OverwriteBeforeWait && t == 5 {
            tile_a.store(7, 0);
        }
        if bug == Bug::NoWait {
            wgmma::wait_group::<1>()
        } else {
            wgmma::wait_group::<0>()
        }
        let (warp, lane) = (t / 32, t % 32);
        for (i, &value) in d.values().iter().enumerate() {
            let row = 16 * warp as usize + lane as usize / 4 + 8 * (i / 2 % 2);
            c.store(
                COLUMNS * row + 8 * (i / 4) + 2 * (lane as usize % 4) + i % 2,
                value,
            );
        }
    }
}

fn inputs() -> (Vec<f32>, Vec<f32>) {
    let pattern = |count: usize, seed: usize| {
        (0..count)
            .map(|i| ((i * 7 + seed + i / 5) % 13) as f32 - 6.0)
            .collect()
    };
    (pattern(64 * K, 1), pattern(COLUMNS * K, 2))
}

#[test]
fn a_warpgroup_multiplies_tiles_in_shared_memory() {
    let device = Device::new();
    let (a, b) = inputs();
    let (da, db, c) = (
        upload(&device, &a),
        upload(&device, &b),
        device.alloc(4 * 64 * COLUMNS).unwrap(),
    );
    run_clean::<multiply>(
        &device,
        &shape(1, 128),
        (da.ptr(), db.ptr(), c.ptr(), Bug::None),
    );
    let c = download::<f32>(&c);
    for row in 0..64 {
        for column in 0..COLUMNS {
            let expected: f32 = (0..K).map(|k| a[row * K + k] * b[column * K + k]).sum();
            assert_eq!(c[row * COLUMNS + column], expected, "{row} {column}");
        }
    }
}

#[test]
fn steps_left_out_around_wgmma_are_reported() {
    let device = Device::new();
    let (a, b) = inputs();
    let (a, b, c) = (
        upload(&device, &a),
        upload(&device, &b),
        device.alloc(4 * 64 * COLUMNS).unwrap(),
    );
    let fault = |bug| -> Fault {
        run_faulty::<multiply>(&device, &shape(1, 128), (a.ptr(), b.ptr(), c.ptr(), bug))
    };
    let kind = |bug| fault(bug).kind;
    assert!(
        matches!(kind(Bug::NoProxyFence), FaultKind::AsyncProxy { .. }),
        "{}",
        fault(Bug::NoProxyFence)
    );
    assert!(
        matches!(kind(Bug::NoFence), FaultKind::Warp { .. }),
        "{}",
        fault(Bug::NoFence)
    );
    assert!(
        matches!(kind(Bug::NoWait), FaultKind::Argument(_)),
        "{}",
        fault(Bug::NoWait)
    );
    assert!(matches!(
        kind(Bug::NoBarrier),
        FaultKind::Race { .. } | FaultKind::Uninitialized { .. }
    ));
    assert!(
        matches!(kind(Bug::Disagree), FaultKind::Warp { .. }),
        "{}",
        fault(Bug::Disagree)
    );
    assert!(
        matches!(kind(Bug::OverwriteBeforeWait), FaultKind::Race { .. }),
        "{}",
        fault(Bug::OverwriteBeforeWait)
    );
    assert!(
        matches!(kind(Bug::HalfComes), FaultKind::Deadlock { .. }),
        "{}",
        fault(Bug::HalfComes)
    );
}

/// f16: a producer warpgroup fills one buffer again and again, a consumer warpgroup multiplies it
/// by itself; K = 16 in one instruction.
#[kernel(max_threads = 256)]
unsafe fn ping_pong(c: *mut f32, early_release: bool) {
    const FULL: u32 = 1;
    const EMPTY: u32 = 2;
    const ROUNDS: u32 = 3;
    unsafe {
        let (c, t, tile) = (
            GlobalMut::new(c, 128 * 32),
            thread::thread_idx_x(),
            A.view().cast::<f16>(),
        );
        if t < 128 {
            for round in 0..ROUNDS {
                if round > 0 {
                    barrier::sync(EMPTY, 256);
                }
                for i in 0..8 {
                    tile.store(8 * t + i, <f16 as Storage>::from_f32((round + 1) as f32));
                }
                async_proxy::fence_shared();
                barrier::arrive(FULL, 256);
            }
        } else {
            let mut d = wgmma::Accumulator::<32>::zero();
            let tile = wgmma::Descriptor::new(tile.addr(0), 64 * 16, 128);
            for round in 0..ROUNDS {
                barrier::sync(FULL, 256);
                d.fence();
                wgmma::f16(&mut d, tile, tile, round > 0);
                wgmma::commit_group();
                if early_release && round + 1 < ROUNDS {
                    barrier::arrive(EMPTY, 256);
                }
                wgmma::wait_group::<0>();
                if !early_release && round + 1 < ROUNDS {
                    barrier::arrive(EMPTY, 256);
                }
            }
            for (i, &value) in d.values().iter().enumerate() {
                c.store((t as usize - 128) * 32 + i, value);
            }
        }
    }
}

#[test]
fn a_buffer_may_be_filled_again_after_the_wait_and_not_before() {
    let device = Device::new();
    let c = device.alloc(4 * 128 * 32).unwrap();
    run_clean::<ping_pong>(&device, &shape(1, 256), (c.ptr(), false));
    assert_eq!(
        download::<f32>(&c),
        vec![16.0 * (1.0 + 4.0 + 9.0); 128 * 32]
    );
    let fault = run_faulty::<ping_pong>(&device, &shape(1, 256), (c.ptr(), true));
    assert!(matches!(fault.kind, FaultKind::Race { .. }), "{fault}");
}
