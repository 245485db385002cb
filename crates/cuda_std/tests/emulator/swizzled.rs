//! Columns of 32 bytes whose halves are exchanged by their address, wherever they start.

use crate::support::{assert_kind, download, pattern, run_clean, run_faulty, shape, upload};
use cuda_std::async_proxy;
use cuda_std::emulator::{Device, FaultKind};
use cuda_std::mma::pack_f16x2;
use cuda_std::prelude::*;
use cuda_std::shared::SharedAddr;
use cuda_std::wgmma::{self, MatrixDescriptor, MatrixLayout, unit};

const ROWS: usize = 64;
const COLUMNS: usize = 128;
const K: usize = 16;
const STEPS: usize = 3;
const THREADS: u32 = 128;

/// Columns from eight to the next eight: ten, as in a patch that has two more than are multiplied.
const PITCH: u32 = 10;
const PLACES: usize = 16 * PITCH as usize + 32;
/// Words of a half of a column.
const WORDS: u32 = K as u32 / 4;

shared_array! {
    static ROWS_OF_A: [u32; ROWS * K / 2];
    static PLACES_OF_B: [u32; PLACES * K / 2];
}

#[derive(Clone, Copy, PartialEq)]
#[repr(u32)]
enum Bug {
    None,
    /// B starts at the second half of a column.
    HalfAColumn,
    /// Eight columns are half a column further than a whole number of columns.
    HalfADistance,
}

/// The word from which a half lies that would lie from `word` on.
fn exchanged(word: u32) -> u32 {
    let from = SharedAddr(4 * word);
    wgmma::swizzled(from).0 / 4
}

/// `C = 3 * A * B^T` for a 64 x 16 A and a 128 x 16 B, of which column `c` is place `shift + c / 8 * PITCH + c % 8`.
#[kernel(max_threads = 128, min_blocks = 1)]
unsafe fn multiply(a: *const f32, b: *const f32, c: *mut f32, shift: u32, bug: Bug) {
    unsafe {
        let (a, b) = (Global::new(a, ROWS * K), Global::new(b, COLUMNS * K));
        let c = GlobalMut::new(c, ROWS * COLUMNS);
        let (rows, places, t) = (ROWS_OF_A.view(), PLACES_OF_B.view(), thread::thread_idx_x());
        let pack = |from: Global<f32>, at: usize| pack_f16x2(from.load(at), from.load(at + 1));
        let mut word = t;
        while word < rows.len() {
            let (row, k) = (
                word / 4 % ROWS as u32,
                word / 4 / ROWS as u32 * 8 + word % 4 * 2,
            );
            rows.store(word, pack(a, row as usize * K + k as usize));
            word += THREADS;
        }
        // A half's place is that of its address, whatever the array starts on.
        let start = places.addr(0).0 / 4;
        let mut word = t;
        while word < (COLUMNS * K / 2) as u32 {
            let (column, of_column) = (word / (2 * WORDS), word % (2 * WORDS));
            let place = shift + column / 8 * PITCH + column % 8;
            let half = place * 2 * WORDS + of_column / WORDS * WORDS;
            let at = exchanged(start + half) - start + of_column % WORDS;
            places.store(at, pack(b, 2 * word as usize));
            word += THREADS;
        }
        async_proxy::fence_shared();
        thread::sync_threads();
        let first = unit(places.addr(0)) + 2 * shift + u32::from(bug == Bug::HalfAColumn);
        let distance = 2 * PITCH + u32::from(bug == Bug::HalfADistance);
        let a = MatrixDescriptor::new(unit(rows.addr(0)), ROWS as u32);
        let b = MatrixDescriptor::laid_out(first, MatrixLayout::swizzled(distance));
        let sums = wgmma::InFlight::at_rest([0.0; COLUMNS / 2]);
        let sums = wgmma::add_shared_n128_f16_3(sums, &[a; STEPS], &[b; STEPS]).wait::<0>();
        let (warp, lane) = (t as usize / 32, t as usize % 32);
        for (i, &value) in sums.iter().enumerate() {
            let row = 16 * warp + lane / 4 + 8 * (i / 2 % 2);
            c.store(COLUMNS * row + 8 * (i / 4) + 2 * (lane % 4) + i % 2, value);
        }
    }
}

#[test]
fn swizzled_columns_start_at_any_column() {
    let device = Device::new();
    let (a, b) = (pattern(ROWS * K, 1), pattern(COLUMNS * K, 2));
    let (da, db) = (upload(&device, &a), upload(&device, &b));
    for shift in [0, 1, 3, 4, 7, 10, 31] {
        let c = device.alloc(4 * ROWS * COLUMNS).unwrap();
        let arguments = (
            da.ptr::<f32>().cast_const(),
            db.ptr::<f32>().cast_const(),
            c.ptr(),
            shift,
            Bug::None,
        );
        run_clean::<multiply>(&device, &shape(1, THREADS), arguments);
        let c = download::<f32>(&c);
        for row in 0..ROWS {
            for column in 0..COLUMNS {
                let product: f32 = (0..K).map(|k| a[row * K + k] * b[column * K + k]).sum();
                let expected = STEPS as f32 * product;
                assert_eq!(
                    c[row * COLUMNS + column],
                    expected,
                    "{shift}: {row} {column}"
                );
            }
        }
    }
}

#[test]
fn columns_that_no_multiple_of_their_bytes_starts_are_reported() {
    let device = Device::new();
    let (a, b) = (pattern(ROWS * K, 1), pattern(COLUMNS * K, 2));
    let (da, db) = (upload(&device, &a), upload(&device, &b));
    let c = device.alloc(4 * ROWS * COLUMNS).unwrap();
    for bug in [Bug::HalfAColumn, Bug::HalfADistance] {
        let arguments = (
            da.ptr::<f32>().cast_const(),
            db.ptr::<f32>().cast_const(),
            c.ptr(),
            0,
            bug,
        );
        let fault = run_faulty::<multiply>(&device, &shape(1, THREADS), arguments);
        assert_kind!(fault, FaultKind::Argument(_));
        assert!(
            fault.to_string().contains("no multiple of 32 bytes"),
            "{fault}"
        );
    }
}

#[test]
fn halves_are_exchanged_by_one_bit_of_their_address() {
    for address in (0..1024).step_by(16) {
        let is_exchanged = address & 128 != 0;
        let expected = if is_exchanged { address ^ 16 } else { address };
        assert_eq!(wgmma::swizzled(SharedAddr(address)), SharedAddr(expected));
    }
}
