//! Tensor-core instructions against plain products, and rounding of operands.

use crate::support::{download, faults, pattern, run_clean, run_faulty, shape, upload};
use cuda_std::emulator::Device;
use cuda_std::prelude::*;
use cuda_std::{math, mma, warp};

/// Computes `A` (16 x k, row-major) times `B` (k x 8, row-major).
fn product(a: &[f32], b: &[f32], k: usize) -> Vec<f32> {
    let mut c = Vec::new();
    for row in 0..16 {
        for column in 0..8 {
            c.push((0..k).map(|i| a[row * k + i] * b[i * 8 + column]).sum());
        }
    }
    c
}

shared_array! {
    static A: [u32; 128];
    static B: [u32; 64];
}

/// Writes an accumulator fragment to a 16 x 8 matrix.
unsafe fn write_accumulator(c: GlobalMut<f32>, lane: u32, d: [f32; 4]) {
    let (quad, quad_lane) = (lane / 4, lane % 4);
    for (i, &value) in d.iter().enumerate() {
        let (row, column) = (quad as usize + 8 * (i / 2), 2 * quad_lane as usize + i % 2);
        // SAFETY: row < 16 and column < 8, and the view has 128 elements.
        unsafe { c.store(8 * row + column, value) };
    }
}

/// tf32, with fragments loaded by hand according to the table in the documentation.
#[kernel]
unsafe fn multiply_tf32(a: *const f32, b: *const f32, c: *mut f32) {
    unsafe {
        let a = Global::new(a, 128);
        let b = Global::new(b, 64);
        let c = GlobalMut::new(c, 128);
        let lane = warp::lane_id();
        let (quad, quad_lane) = ((lane / 4) as usize, (lane % 4) as usize);
        let at =
            |i: usize| mma::to_tf32(a.load((quad + 8 * (i % 2)) * 8 + quad_lane + 4 * (i / 2)));
        let bt = |i: usize| mma::to_tf32(b.load((quad_lane + 4 * i) * 8 + quad));
        let d = mma::m16n8k8_tf32([1.0; 4], [at(0), at(1), at(2), at(3)], [bt(0), bt(1)]);
        write_accumulator(c, lane, d);
    }
}

#[test]
fn tf32_products_are_right() {
    let device = Device::new();
    let (a, b) = (pattern(128, 1), pattern(64, 2));
    let da = upload(&device, &a);
    let db = upload(&device, &b);
    let c = device.alloc(512).unwrap();
    run_clean::<multiply_tf32>(&device, &shape(1, 32), (da.ptr(), db.ptr(), c.ptr()));
    let expected: Vec<f32> = product(&a, &b, 8).iter().map(|x| x + 1.0).collect();
    assert_eq!(download::<f32>(&c), expected);
}

/// f16 or bf16 through shared memory: A by `ldmatrix`, and row-major B by the transposing `ldmatrix`.
#[kernel]
unsafe fn multiply_half(a: *const u32, b: *const u32, c: *mut f32, is_bf16: bool) {
    unsafe {
        let a = Global::new(a, 128);
        let b = Global::new(b, 64);
        let c = GlobalMut::new(c, 128);
        let (tile_a, tile_b, lane) = (A.view(), B.view(), warp::lane_id());
        for i in 0..4 {
            tile_a.store(32 * i + lane, a.load((32 * i + lane) as usize));
        }
        for i in 0..2 {
            tile_b.store(32 * i + lane, b.load((32 * i + lane) as usize));
        }
        warp::sync_warp(!0);
        // Matrices in the order of A's registers: rows 0..8 and 8..16 of columns 0..8, then of
        // columns 8..16. A row of A is 8 words.
        let (matrix, row) = (lane / 8, lane % 8);
        let fa = mma::ldmatrix_x4(tile_a.addr(8 * (row + 8 * (matrix % 2)) + 4 * (matrix / 2)));
        // A row of B is 4 words. The addresses of lanes 16 and up are not used.
        let fb = mma::ldmatrix_x2_trans(tile_b.addr(4 * (lane % 16)));
        let d = if is_bf16 {
            mma::m16n8k16_bf16([0.0; 4], fa, fb)
        } else {
            mma::m16n8k16_f16([0.0; 4], fa, fb)
        };
        write_accumulator(c, lane, d);
    }
}

#[test]
fn half_products_through_ldmatrix_are_right() {
    let device = Device::new();
    let (a, b) = (pattern(256, 3), pattern(128, 4));
    for is_bf16 in [false, true] {
        let pack = |values: &[f32]| -> Vec<u32> {
            let pack = if is_bf16 {
                mma::pack_bf16x2
            } else {
                mma::pack_f16x2
            };
            values
                .chunks(2)
                .map(|pair| pack(pair[0], pair[1]))
                .collect()
        };
        let (da, db) = (upload(&device, &pack(&a)), upload(&device, &pack(&b)));
        let c = device.alloc(512).unwrap();
        run_clean::<multiply_half>(
            &device,
            &shape(1, 32),
            (da.ptr(), db.ptr(), c.ptr(), is_bf16),
        );
        assert_eq!(download::<f32>(&c), product(&a, &b, 16));
    }
}

/// Distributes a matrix of 16-bit numbers with a one-matrix `ldmatrix`, plain and transposed.
#[kernel]
unsafe fn deal(y: *mut u32, misaligned: bool) {
    unsafe {
        let (y, tile, lane) = (GlobalMut::new(y, 64), A.view(), warp::lane_id());
        tile.store(lane, ((2 * lane + 1) << 16) | (2 * lane));
        warp::sync_warp(!0);
        let row = 4 * (lane % 8) + u32::from(misaligned);
        y.store(lane as usize, mma::ldmatrix_x1(tile.addr(row))[0]);
        y.store(
            32 + lane as usize,
            mma::ldmatrix_x1_trans(tile.addr(row))[0],
        );
    }
}

#[test]
fn ldmatrix_deals_rows_or_columns() {
    let device = Device::new();
    let y = device.alloc(256).unwrap();
    run_clean::<deal>(&device, &shape(1, 32), (y.ptr(), false));
    let y32 = download::<u32>(&y);
    for lane in 0..32 {
        assert_eq!(y32[lane as usize], ((2 * lane + 1) << 16) | (2 * lane));
        let (first_row, column) = (2 * (lane % 4), lane / 4);
        let at = |row| 8 * row + column;
        assert_eq!(
            y32[32 + lane as usize],
            at(first_row + 1) << 16 | at(first_row)
        );
    }
    faults! {
        run_faulty::<deal>(&device, &shape(1, 32), (y.ptr(), true)) => Misaligned(bytes: 16);
        run_faulty::<deal_too_soon>(&device, &shape(1, 32), ()) => Race | Uninitialized;
    }
}

/// Reads rows that other lanes wrote with `ldmatrix`, without the necessary `sync_warp`.
#[kernel]
unsafe fn deal_too_soon() {
    unsafe {
        let (tile, lane) = (A.view(), warp::lane_id());
        tile.store_vec(4 * lane, [lane; 4]);
        let _ = mma::ldmatrix_x4(tile.addr(4 * (lane ^ 1)));
    }
}

/// Stores four matrices of 16-bit numbers transposed, and copies them out.
#[kernel]
unsafe fn transpose(y: *mut u32, misaligned: bool, too_soon: bool) {
    unsafe {
        let (y, tile, lane) = (GlobalMut::new(y, 128), A.view(), warp::lane_id());
        // Column `l / 4` of the transpose has the words of row `l / 4`.
        let words = [0, 1, 2, 3].map(|matrix| {
            let first = 64 * matrix + 2 * lane;
            (first + 1) << 16 | first
        });
        let row = 4 * lane + u32::from(misaligned);
        mma::stmatrix_x4_trans(tile.addr(row.min(124)), words);
        if !too_soon {
            warp::sync_warp(!0);
        }
        let at = 4 * (lane ^ 1);
        y.store_vec(at as usize, tile.load_vec::<4>(at));
    }
}

#[test]
fn stmatrix_stores_columns_as_rows() {
    let device = Device::new();
    let y = device.alloc(512).unwrap();
    run_clean::<transpose>(&device, &shape(1, 32), (y.ptr(), false, false));
    for (index, word) in download::<u32>(&y).into_iter().enumerate() {
        // Two adjacent columns of a row of a matrix whose elements are numbered column by column.
        let (matrix, row, column) = (index / 32, index / 4 % 8, 2 * (index % 4));
        let at = |column: usize| (64 * matrix + 8 * column + row) as u32;
        assert_eq!(word, at(column + 1) << 16 | at(column), "word {index}");
    }
    faults! {
        run_faulty::<transpose>(&device, &shape(1, 32), (y.ptr(), true, false)) => Misaligned(bytes: 16);
        run_faulty::<transpose>(&device, &shape(1, 32), (y.ptr(), false, true)) => Race | Uninitialized;
    }
}

/// A tf32 operand with low bits that must be ignored.
#[kernel]
unsafe fn unrounded(y: *mut f32) {
    unsafe {
        let one = (1.0_f32 + f32::EPSILON).to_bits();
        let d = mma::m16n8k8_tf32([0.0; 4], [one, one, 0, 0], [1.0_f32.to_bits(), 0]);
        write_accumulator(GlobalMut::new(y, 128), warp::lane_id(), d);
    }
}

#[test]
fn tf32_operands_count_with_their_top_bits_only() {
    let device = Device::new();
    let y = device.alloc(512).unwrap();
    run_clean::<unrounded>(&device, &shape(1, 32), (y.ptr(),));
    assert_eq!(download::<f32>(&y), [4.0; 128]);
}

#[test]
fn conversions_round_as_the_instructions_do() {
    let ulp = f32::EPSILON * 8192.0;
    let rounded = |x| f32::from_bits(mma::to_tf32(x));
    assert_eq!(rounded(1.0 + 0.5 * ulp), 1.0 + ulp, "ties away from zero");
    assert_eq!(rounded(-1.0 - 0.5 * ulp), -1.0 - ulp);
    assert_eq!(rounded(1.0 + 0.49 * ulp), 1.0);
    assert_eq!(rounded(f32::INFINITY), f32::INFINITY);
    assert!(rounded(f32::NAN).is_nan());
    assert_eq!(mma::pack_f16x2(1.0, -2.0), 0xc000_3c00);
    assert_eq!(mma::pack_bf16x2(1.0, -2.0), 0xc000_3f80);
    assert_eq!(
        <f16 as Storage>::from_f32(1.0 + f32::powi(2.0, -11)).to_f32(),
        1.0,
        "ties to even"
    );
    assert_eq!(
        <bf16 as Storage>::from_f32(f32::MAX).to_f32(),
        f32::INFINITY
    );
    assert!(Storage::to_f32(<bf16 as Storage>::from_f32(f32::NAN)).is_nan());
}

#[test]
fn extrema_keep_or_drop_nan_as_they_say() {
    let nan = f32::NAN;
    assert!(math::max_nan(nan, 1.0).is_nan() && math::min_nan(1.0, nan).is_nan());
    assert_eq!((math::max(nan, 1.0), math::min(1.0, nan)), (1.0, 1.0));
    assert!(math::max(nan, nan).is_nan());
    assert!(math::max(-0.0, 0.0).is_sign_positive() && math::max(0.0, -0.0).is_sign_positive());
    assert!(
        math::min_nan(-0.0, 0.0).is_sign_negative() && math::min_nan(0.0, -0.0).is_sign_negative()
    );
}

#[test]
fn float_methods_agree_with_the_standard_library() {
    let negative = [-2.5_f32, -1.5, -0.5, -0.2];
    let others = [0.0, 0.49999997, 0.5, 1.5, 2.5, 8388609.0, f32::INFINITY];
    for x in negative.into_iter().chain(others) {
        assert_eq!(GpuFloat::round(x), x.round(), "{x}");
        assert_eq!(
            GpuFloat::fract(x).to_bits(),
            (x - x.trunc()).to_bits(),
            "{x}"
        );
        assert_eq!(GpuFloat::signum(x), x.signum());
        assert_eq!(GpuFloat::copysign(x, -1.0), x.copysign(-1.0));
        assert_eq!(GpuFloat::abs(f64::from(x)), f64::from(x).abs());
    }
    assert_eq!(GpuFloat::powi(2.0_f32, 10), 1024.0);
    assert_eq!(GpuFloat::powi(2.0_f64, -2), 0.25);
}
