//! Swizzled columns in spans of 32, 64 and 128 bytes, at any address, and columns whose groups of eight
//! alternate between two matrices.

use crate::support::{Product, faults, run_clean, run_faulty, shape, upload};
use cuda_std::async_proxy;
use cuda_std::emulator::Device;
use cuda_std::mma::pack_f16x2;
use cuda_std::prelude::*;
use cuda_std::wgmma::{self, MatrixDescriptor, MatrixLayout, unit};

const ROWS: usize = 64;
const COLUMNS: usize = 128;
const K: usize = 16;
const STEPS: usize = 3;
const THREADS: u32 = 128;

/// Columns from one group of eight to the next: ten, as in a halo tile with two more columns than are
/// multiplied.
const PITCH: u32 = 10;
/// Spans, of up to 128 bytes.
const PLACES: usize = 16 * PITCH as usize + 32;
/// Words of a half of a column.
const WORDS: u32 = K as u32 / 4;

shared_array! {
    static ROWS_OF_A: [u32; ROWS * K / 2];
    static PLACES_OF_B: [u32; PLACES * 2 * K];
}

#[derive(Clone, Copy, PartialEq)]
#[repr(u32)]
enum Bug {
    None,
    /// B starts at the second half of a column.
    HalfAColumn,
    /// Groups of eight columns are half a column off a whole number of columns apart.
    HalfADistance,
}

/// Returns the first word of a chunk in a swizzled span of `1 << shift` chunks. `word` is its first word
/// without swizzle. Bits 7 and up of the address are XORed into bits 4 and up.
fn exchanged(word: u32, shift: u32) -> u32 {
    let chunks = (1 << shift) - 1;
    word ^ ((word >> 5 & chunks) << 2)
}

/// The layout of B's columns.
#[derive(Clone, Copy)]
#[repr(C)]
struct Lies {
    /// The binary logarithm of the chunks of a span.
    shift: u32,
    first: u32,
    second_half: u32,
    /// Whether odd groups of eight columns belong to a second matrix, behind the groups of the first.
    in_turn: u32,
}

impl Lies {
    fn place(&self, column: u32) -> u32 {
        let octet = column / 8;
        let octet = if self.in_turn == 0 {
            octet
        } else {
            octet / 2 + octet % 2 * 8
        };
        self.first + octet * PITCH + column % 8
    }
}

/// `C = 3 * A * B^T` for a 64 x 16 A and a 128 x 16 B. `lies` gives the layout of the columns.
#[kernel(max_threads = 128, min_blocks = 1)]
unsafe fn multiply(a: *const f32, b: *const f32, c: *mut f32, lies: Lies, bug: Bug) {
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
        // The swizzle depends on a chunk's absolute address, independent of the array's alignment.
        let start = places.addr(0).0 / 4;
        let mut word = t;
        while word < (COLUMNS * K / 2) as u32 {
            let (column, of_column) = (word / (2 * WORDS), word % (2 * WORDS));
            let chunk = (lies.place(column) << lies.shift) + 2 * lies.second_half;
            let chunk = chunk * WORDS + of_column / WORDS * WORDS;
            let at = exchanged(start + chunk, lies.shift) - start + of_column % WORDS;
            places.store(at, pack(b, 2 * word as usize));
            word += THREADS;
        }
        async_proxy::fence_shared();
        thread::sync_threads();
        let first = unit(places.addr(0)) + (lies.first << lies.shift) + 2 * lies.second_half;
        let first = first + u32::from(bug == Bug::HalfAColumn);
        let distance = (PITCH << lies.shift) + u32::from(bug == Bug::HalfADistance);
        let a = [MatrixDescriptor::new(unit(rows.addr(0)), ROWS as u32); STEPS];
        let layout = MatrixLayout::swizzled(lies.shift, distance);
        let b = [MatrixDescriptor::laid_out(first, layout); STEPS];
        let sums = wgmma::InFlight::at_rest([0.0; COLUMNS / 2]);
        let sums = if lies.in_turn == 0 {
            wgmma::add_shared_n128_f16_3(sums, &a, &b)
        } else {
            let odd = b.map(|even| even.offset((8 * PITCH) << lies.shift));
            wgmma::add_interleaved_n128_f16_3(sums, &a, &b, &odd)
        };
        let sums = sums.wait::<0>();
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
    let product = Product::new(ROWS, COLUMNS, K);
    let [a, b] = [&product.a, &product.b].map(|of| upload(&device, of));
    let c = device.alloc(4 * ROWS * COLUMNS).unwrap();
    let arguments = |[shift, first, second_half, in_turn]: [u32; 4], bug| {
        let lies = Lies {
            shift,
            first,
            second_half,
            in_turn,
        };
        (
            a.ptr::<f32>().cast_const(),
            b.ptr::<f32>().cast_const(),
            c.ptr(),
            lies,
            bug,
        )
    };
    for first in [0, 1, 3, 4, 7, 10, 31] {
        for (shift, second_half) in [(1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 3)] {
            for lies in [0, 1].map(|in_turn| [shift, first, second_half, in_turn]) {
                run_clean::<multiply>(&device, &shape(1, THREADS), arguments(lies, Bug::None));
                product.assert_eq(&format!("{lies:?}"), &c, STEPS as f32, 0.0);
                c.fill(0xff).unwrap();
            }
        }
    }
    for bug in [Bug::HalfAColumn, Bug::HalfADistance] {
        let arguments = arguments([1, 0, 0, 0], bug);
        faults! {
            run_faulty::<multiply>(&device, &shape(1, THREADS), arguments)
                => Argument, "no multiple of 32 bytes";
        }
    }
}
