//! Results of warp operations.

use crate::support::{download, run_clean, shape};
use cuda_std::element::Element;
use cuda_std::emulator::Device;
use cuda_std::prelude::*;
use cuda_std::warp;

/// Runs a kernel that writes `n` values per lane of one warp.
fn one_warp<T: Element + Default, K: cuda_std::Kernel<Args = (*mut T,)>>(n: usize) -> Vec<T> {
    let device = Device::new();
    let y = device.alloc(32 * n * size_of::<T>()).unwrap();
    run_clean::<K>(&device, &shape(1, 32), (y.ptr(),));
    download(&y)
}

/// The four modes, value and predicate each, in sections of 8.
#[kernel]
unsafe fn shuffles(y: *mut u32) {
    unsafe {
        let (y, lane) = (GlobalMut::new(y, 256), warp::lane_id());
        let results = [
            warp::warp_shuffle_idx(!0, lane, 11, 8),
            warp::warp_shuffle_up(!0, lane, 3, 8),
            warp::warp_shuffle_down(!0, lane, 3, 8),
            warp::warp_shuffle_xor(!0, lane, 12, 8),
        ];
        for (i, (value, active)) in results.into_iter().enumerate() {
            y.store(8 * lane as usize + 2 * i, value);
            y.store(8 * lane as usize + 2 * i + 1, u32::from(active));
        }
    }
}

#[test]
fn shuffles_stay_in_their_section_and_say_so() {
    let y = one_warp::<u32, shuffles>(8);
    for lane in 0..32 {
        let (section, within) = (lane & !7, lane & 7);
        // From the PTX manual: bfly may read lower sections, but not higher ones.
        let flipped = if lane ^ 12 <= section + 7 {
            [lane ^ 12, 1]
        } else {
            [lane, 0]
        };
        let expected = [
            [section + 3, 1],
            if within >= 3 {
                [lane - 3, 1]
            } else {
                [lane, 0]
            },
            if within <= 4 {
                [lane + 3, 1]
            } else {
                [lane, 0]
            },
            flipped,
        ];
        assert_eq!(
            y[8 * lane as usize..][..8],
            *expected.as_flattened(),
            "lane {lane}"
        );
    }
}

/// Values of other widths.
#[kernel]
unsafe fn wide_shuffles(y: *mut f64) {
    unsafe {
        let (y, lane) = (GlobalMut::new(y, 96), warp::lane_id());
        let wide = warp::warp_shuffle_xor(!0, f64::from(lane) + 0.1, 1, 32).0;
        let narrow = warp::warp_shuffle_down(!0, f16::from_f32(lane as f32), 1, 32).0;
        let signed = warp::warp_shuffle_idx(!0, -(lane as i8), 5, 32).0;
        for (i, value) in [wide, f64::from(narrow.to_f32()), f64::from(signed)]
            .into_iter()
            .enumerate()
        {
            y.store(3 * lane as usize + i, value);
        }
    }
}

#[test]
fn shuffles_carry_values_of_one_to_eight_bytes() {
    let y = one_warp::<f64, wide_shuffles>(3);
    assert_eq!(y[3 * 6..][..3], [7.1, 7.0, -5.0]);
}

/// Votes, matches and reductions.
#[kernel]
unsafe fn collectives(y: *mut u32) {
    unsafe {
        let (y, lane) = (GlobalMut::new(y, 32 * 10), warp::lane_id());
        let mask = if lane < 20 { 0x000f_ffff } else { 0xfff0_0000 };
        let active = warp::activemask();
        let results = [
            warp::warp_vote_ballot(mask, lane % 2 == 0),
            u32::from(warp::warp_vote_all(mask, lane < 20)),
            u32::from(warp::warp_vote_any(mask, lane == 31)),
            warp::warp_match_any(mask, lane / 4),
            warp::warp_match_all(mask, u64::from(lane / 20) << 40).unwrap_or(0),
            warp::warp_match_all(mask, lane).unwrap_or(0),
            warp::warp_reduce_add(mask, lane),
            warp::warp_reduce_min(mask, lane as i32 - 25) as u32,
            warp::warp_reduce_max(mask, lane.wrapping_sub(25)),
            warp::warp_reduce_xor(mask, 1 << lane) & warp::warp_reduce_or(mask, !0) & active,
        ];
        for (i, value) in results.into_iter().enumerate() {
            y.store(10 * lane as usize + i, value);
        }
    }
}

#[test]
fn collectives_work_on_parts_of_a_warp() {
    let y = one_warp::<u32, collectives>(10);
    let low: [u32; 10] = [
        0x0005_5555,
        1,
        0,
        0xf0,
        0x000f_ffff,
        0,
        190,
        -25_i32 as u32,
        19_u32.wrapping_sub(25),
        0x000f_ffff,
    ];
    let high: [u32; 10] = [
        0x5550_0000,
        0,
        1,
        0x0f00_0000,
        0xfff0_0000,
        0,
        306,
        -5_i32 as u32,
        24_u32.wrapping_sub(25),
        0xfff0_0000,
    ];
    assert_eq!(y[60..70], low);
    assert_eq!(y[260..270], high);
}
