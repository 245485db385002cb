//! Copies of windows' pixels with tensor maps in im2col mode.

use crate::support::{faults, run_clean, run_faulty, shape};
use cuda_std::async_proxy;
use cuda_std::emulator::{Buffer, Device};
use cuda_std::mbarrier::Barrier;
use cuda_std::prelude::*;
use cuda_std::tensor_map::{
    AXES, Boxes, Im2col, MapElement, MapMode, SPATIAL_AXES, TensorMap, copy_box, copy_im2col,
};

/// Words of the destination, which is larger than any copy.
const WORDS: usize = 1024;

shared_array! {
    static IM2COL_TARGET: [u32; WORDS + 32];
    static IM2COL_BARRIER: [u64; 1];
}

/// Copies one pixel of each of several windows, or a box, to shared memory, and then the words to `y`.
#[kernel(instances(N: [1]), max_threads = 32, min_blocks = 1)]
unsafe fn gather<const N: u32>(
    map: &TensorMap,
    y: *mut u32,
    at: [i32; AXES],
    offsets: [u16; SPATIAL_AXES],
    words: u32,
    is_box: bool,
) {
    unsafe {
        let (target, barriers) = (IM2COL_TARGET.view(), IM2COL_BARRIER.view());
        let y = GlobalMut::new(y, WORDS);
        let barrier = Barrier::at(barriers, 0);
        let first = target.addr(0).0.next_multiple_of(128) - target.addr(0).0;
        if thread::thread_idx_x() == 0 {
            barrier.init(1);
            async_proxy::fence_shared();
            barrier.arrive_expect(4 * words);
            if is_box {
                copy_box(target.addr(first / 4), map, at, barrier);
            } else {
                copy_im2col(target.addr(first / 4), map, at, offsets, barrier);
            }
            barrier.wait(0);
            let mut word = 0;
            while word < words {
                y.store(word as usize, target.load(first / 4 + word));
                word += 1;
            }
        }
    }
}

/// 16 channels, 7 columns, 5 rows, 3 slices and 2 samples, dense.
const EXTENTS: [u32; AXES] = [16, 7, 5, 3, 2];

/// Windows of 3 x 2 x 1 pixels with padding, and steps of 2, 1 and 2.
fn windows() -> Im2col {
    let [c, w, h, d, _] = EXTENTS.map(u64::from);
    Im2col {
        element: MapElement::Bits16,
        extents: EXTENTS,
        strides: [2 * c, 2 * c * w, 2 * c * w * h, 2 * c * w * h * d],
        lower_corner: [-1, -1, 0],
        upper_corner: [-1, 0, 0],
        steps: [2, 1, 2],
        channels_per_pixel: 16,
        pixels_per_column: 40,
        is_swizzled: 0,
    }
}

fn upload(device: &Device) -> Buffer {
    let count = EXTENTS.iter().product::<u32>();
    let bytes: Vec<u8> = (0..count)
        .flat_map(|i| (1 + i as u16).to_ne_bytes())
        .collect();
    let buffer = device.alloc(bytes.len()).unwrap();
    buffer.write(0, &bytes).unwrap();
    buffer
}

/// Returns the value at these indices, or 0 outside of the tensor.
fn value(indices: [i64; AXES]) -> u16 {
    let inside = indices.iter().zip(EXTENTS);
    if !inside
        .clone()
        .all(|(&index, extent)| (0..i64::from(extent)).contains(&index))
    {
        return 0;
    }
    let number = inside.rev().fold(0, |number, (index, extent)| {
        number * i64::from(extent) + index
    });
    1 + number as u16
}

#[test]
fn windows_follow_one_another_along_all_axes() {
    let device = Device::new();
    let x = upload(&device);
    let windows = windows();
    // All windows in order.
    let mut all = Vec::new();
    for n in 0..i64::from(EXTENTS[4]) {
        for d in [0, 2] {
            for h in -1..5 {
                all.extend([-1, 1, 3, 5].map(|w| [w, h, d, n]));
            }
        }
    }
    for (start, offsets, first_channel) in [
        (0, [0, 0, 0], 0),
        (3, [2, 1, 0], 0),
        (17, [1, 0, 1], 8),
        // The last windows, and none behind them.
        (all.len() - 5, [0, 1, 0], -8),
    ] {
        let y = device.alloc(4 * WORDS).unwrap();
        let map = MapMode::Im2col(windows).emulated(x.ptr::<u8>());
        let [w, h, d, n] = all[start].map(|index: i64| index as i32);
        let words = windows.pixels_per_column * windows.channels_per_pixel / 2;
        let at = [first_channel, w, h, d, n];
        let arguments = (map, y.ptr::<u32>(), at, offsets, words, false);
        run_clean::<gather<1>>(&device, &shape(1, 32), arguments);
        let mut bytes = vec![0; 4 * words as usize];
        y.read(0, &mut bytes).unwrap();
        for (element, found) in bytes.chunks_exact(2).enumerate() {
            let (line, channel) = (element / 16, element as i64 % 16);
            let wanted = all.get(start + line).map_or(0, |&[w, h, d, n]| {
                let [of_w, of_h, of_d] = offsets.map(i64::from);
                let channel = i64::from(first_channel) + channel;
                value([channel, w + of_w, h + of_h, d + of_d, n])
            });
            let found = u16::from_ne_bytes([found[0], found[1]]);
            assert_eq!(found, wanted, "from {start}, {offsets:?}: {line} {channel}");
        }
    }
}

#[test]
fn limits_of_the_driver_are_kept() {
    let device = Device::new();
    let x = upload(&device);
    let y = device.alloc(4 * WORDS).unwrap();
    let at_start = [0, -1, -1, 0, 0];
    let fault = |change: &dyn Fn(&mut Im2col), at: [i32; AXES], offsets: [u16; SPATIAL_AXES]| {
        let mut windows = windows();
        change(&mut windows);
        let map = MapMode::Im2col(windows).emulated(x.ptr::<u8>());
        let arguments = (map, y.ptr::<u32>(), at, offsets, 320, false);
        run_faulty::<gather<1>>(&device, &shape(1, 32), arguments)
    };
    let other = |is_box: bool, mode: MapMode| {
        let map = mode.emulated(x.ptr::<u8>());
        let arguments = (
            map,
            y.ptr::<u32>(),
            [0; AXES],
            [0; SPATIAL_AXES],
            320,
            is_box,
        );
        run_faulty::<gather<1>>(&device, &shape(1, 32), arguments)
    };
    let boxes = Boxes {
        element: MapElement::Bits16,
        extents: EXTENTS,
        strides: windows().strides,
        reaches: [16, 4, 5, 2, 1],
        steps: [1; AXES],
        is_swizzled: 0,
    };
    faults! {
        fault(&|_| (), at_start, [32, 0, 0]) => Argument, "limit 31";
        fault(&|_| (), [0, 0, -1, 0, 0], [0; 3]) => Argument, "no window begins";
        fault(&|_| (), [0, 7, -1, 0, 0], [0; 3]) => Argument, "no window begins";
        fault(&|of| of.lower_corner[1] = -17, at_start, [0; 3]) => Argument, "corners 1 are [-17, 0]";
        fault(&|of| of.upper_corner[0] = 16, at_start, [0; 3]) => Argument, "corners 0 are [-1, 16]";
        fault(&|of| of.steps[2] = 9, at_start, [0; 3]) => Argument, "step 2 is 9, limit 1..=8";
        fault(&|of| of.pixels_per_column = 1025, at_start, [0; 3]) => Argument, "1025, limit 1..=1024";
        fault(&|of| of.strides[1] += 8, at_start, [0; 3]) => Argument, "no multiple of 16";
        other(true, MapMode::Im2col(windows())) => Argument, "another mode";
        other(false, MapMode::Tiled(boxes)) => Argument, "another mode";
    }
}
