//! MMA batches of warpgroup multiplications with A in shared memory, and register counts.

use crate::mma_batches::{Bug, bugs_are_reported};
use crate::support::{Product, run_clean, shape, upload};
use cuda_std::emulator::Device;
use cuda_std::mma::pack_f16x2;
use cuda_std::prelude::*;
use cuda_std::wgmma::{self, MatrixDescriptor, unit};
use cuda_std::{async_proxy, registers};

const ROWS: usize = 64;
const COLUMNS: usize = 256;
const STEPS: usize = 8;
/// K of a step; all steps take the same tiles.
const K: usize = 16;
const THREADS: u32 = 128;

shared_array! {
    static A: [u32; ROWS * K / 2];
    static B: [u32; COLUMNS * K / 2];
}

/// Writes a tile: core matrices of 8 lines x 4 words, consecutive along the lines, then along K.
///
/// # Safety
/// `from` has `K` values for each of the tile's lines.
unsafe fn fill(tile: Shared<u32>, from: Global<f32>) {
    let lines = tile.len() / (K as u32 / 2);
    let mut word = thread::thread_idx_x();
    while word < tile.len() {
        let (line, k) = (word / 4 % lines, word / 4 / lines * 8 + word % 4 * 2);
        let at = line as usize * K + k as usize;
        // SAFETY: line < lines and k + 1 < K, so at + 1 is below the length of `from`.
        unsafe { tile.store(word, pack_f16x2(from.load(at), from.load(at + 1))) };
        word += THREADS;
    }
}

/// `C = 8 * A * B^T + 1` for a 64 x 16 A and a 256 x 16 B.
#[kernel(max_threads = 128, min_blocks = 1)]
unsafe fn multiply(a: *const f32, b: *const f32, c: *mut f32, bug: Bug) {
    unsafe {
        let c = GlobalMut::new(c, ROWS * COLUMNS);
        let (rows, columns, t) = (A.view(), B.view(), thread::thread_idx_x());
        registers::decrease::<104>();
        fill(rows, Global::new(a, ROWS * K));
        fill(columns, Global::new(b, COLUMNS * K));
        if bug != Bug::NoProxyFence {
            async_proxy::fence_shared();
        }
        if bug != Bug::NoBarrier {
            thread::sync_threads();
        }
        if bug == Bug::HalfComes && t >= 64 {
            return;
        }
        let shift = match bug {
            Bug::Disagree if t == 70 => 1,
            Bug::Outside => 1024,
            _ => 0,
        };
        let a = MatrixDescriptor::new(unit(rows.addr(0)) + shift, ROWS as u32);
        let b = MatrixDescriptor::new(unit(columns.addr(0)), COLUMNS as u32);
        let mut d = [1.0; COLUMNS / 2];
        wgmma::add_shared_f16_8(&mut d, &[a; STEPS], &[b; STEPS]);
        if bug == Bug::Overwrites && t == 5 {
            // A row that another warp reads.
            rows.store(17 * 4, 0);
        }
        let (warp, lane) = (t as usize / 32, t as usize % 32);
        for (i, &value) in d.iter().enumerate() {
            let row = 16 * warp + lane / 4 + 8 * (i / 2 % 2);
            c.store(COLUMNS * row + 8 * (i / 4) + 2 * (lane % 4) + i % 2, value);
        }
    }
}

#[test]
fn a_batch_multiplies_tiles_in_shared_memory() {
    let device = Device::new();
    let product = Product::new(ROWS, COLUMNS, K);
    let [a, b] = [&product.a, &product.b].map(|of| upload(&device, of));
    let c = device.alloc(4 * ROWS * COLUMNS).unwrap();
    run_clean::<multiply>(
        &device,
        &shape(1, THREADS),
        (a.ptr(), b.ptr(), c.ptr(), Bug::None),
    );
    product.assert_eq("tiles", &c, STEPS as f32, 1.0);
    bugs_are_reported::<f32, multiply>(&shape(1, THREADS), &product.a, &product.b, ROWS * COLUMNS);
}
