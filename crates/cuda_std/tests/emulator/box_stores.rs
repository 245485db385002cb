//! Stores of boxes of a tensor.

use crate::support::{download, faults, run_clean, run_faulty, shape, upload};
use cuda_std::async_proxy;
use cuda_std::emulator::Device;
use cuda_std::prelude::*;
use cuda_std::tensor_map::{
    AXES, Boxes, MapElement, MapMode, TensorMap, commit_stores, store_box, wait_stores_read,
};

/// Elements of a line, lines of a box, and words of the box.
const LINE: u32 = 64;
const LINES: u32 = 8;
const WORDS: u32 = LINE * LINES / 2;

shared_array! {
    static STORED: [u32; 2 * WORDS as usize];
}

/// The kernel's mistake.
#[derive(Clone, Copy, PartialEq)]
#[repr(u32)]
enum Bug {
    None,
    /// The box starts at a multiple of 16 bytes only.
    Source,
    /// No fence makes the box visible to the asynchronous proxy.
    Fence,
    /// The box is overwritten before the store has read it.
    Overwrite,
    /// Another thread overwrites the box, although only the first thread has waited.
    Race,
    /// The thread ends before the store has read the box.
    Wait,
    /// The store is not committed to a group.
    Commit,
}

/// Writes the words 1, 2, 3, .., line by line and swizzled, to the box at these coordinates, and then to
/// the box behind its last line.
#[kernel(instances(N: [1]), max_threads = 32, min_blocks = 1)]
unsafe fn store<const N: u32>(map: &TensorMap, at: [i32; AXES], is_swizzled: u32, bug: Bug) {
    unsafe {
        let (words, lane) = (STORED.view(), thread::thread_idx_x());
        let start = words.addr(0).0 / 4;
        let first = start.next_multiple_of(32) - start + if bug == Bug::Source { 4 } else { 0 };
        let mut of_box = 0;
        while of_box < 2 {
            let mut word = lane;
            while word < WORDS {
                let place = start + first + word;
                let exchanged = is_swizzled * ((place >> 5 & 7) << 2);
                words.store(first + (word ^ exchanged), 1 + of_box * WORDS + word);
                word += 32;
            }
            if bug != Bug::Fence {
                async_proxy::fence_shared();
            }
            thread::sync_threads();
            if lane == 0 {
                let [channel, line, c, d, e] = at;
                let at = [channel, line + (of_box * LINES) as i32, c, d, e];
                store_box(words.addr(first), map, at);
                if bug != Bug::Commit {
                    commit_stores();
                }
                if bug != Bug::Overwrite && (bug != Bug::Wait || of_box == 0) {
                    wait_stores_read::<0>();
                }
            }
            if bug != Bug::Race {
                thread::sync_threads();
            }
            of_box += 1;
        }
    }
}

fn boxes(extents: [u32; 2], is_swizzled: u32) -> Boxes {
    let line = (2 * u64::from(extents[0])).next_multiple_of(16) + 16;
    let all = line * u64::from(extents[1]);
    Boxes {
        element: MapElement::Bits16,
        extents: [extents[0], extents[1], 1, 1, 1],
        strides: [line, all, all, all],
        reaches: [LINE, LINES, 1, 1, 1],
        steps: [1; AXES],
        is_swizzled,
    }
}

#[test]
fn boxes_are_written_inside_of_the_tensor() {
    let device = Device::new();
    for is_swizzled in [0, 1] {
        for (extents, at) in [
            ([64, 16], [0, 0]),
            ([128, 20], [64, 3]),
            ([72, 13], [0, 0]),
            ([72, 13], [64, -2]),
            ([64, 16], [0, 16]),
        ] {
            let boxes = boxes(extents, is_swizzled);
            let pitch = boxes.strides[0] as usize / 4;
            let y = upload(&device, &vec![0u32; pitch * extents[1] as usize]);
            let map = MapMode::Tiled(boxes).emulated(y.ptr::<u8>());
            let coordinates = [at[0], at[1], 0, 0, 0];
            run_clean::<store<1>>(
                &device,
                &shape(1, 32),
                (map, coordinates, is_swizzled, Bug::None),
            );
            for (i, found) in download::<u32>(&y).into_iter().enumerate() {
                let (line, word) = ((i / pitch) as i32 - at[1], (i % pitch) as i32 - at[0] / 2);
                let of_box = LINE as i32 / 2;
                let is_stored = (0..2 * LINES as i32).contains(&line)
                    && (0..of_box).contains(&word)
                    && (i % pitch) < extents[0] as usize / 2;
                let expected = if is_stored {
                    1 + line * of_box + word
                } else {
                    0
                };
                assert_eq!(found, expected as u32, "{extents:?} {at:?}: word {i}");
            }
        }
    }
}

#[test]
fn what_a_store_does_wrong_is_reported() {
    let device = Device::new();
    let fault = |extents: [u32; 2], bug| {
        let boxes = boxes(extents, 0);
        let y = upload(&device, &vec![0u32; boxes.strides[1] as usize / 4]);
        let map = MapMode::Tiled(boxes).emulated(y.ptr::<u8>());
        run_faulty::<store<1>>(&device, &shape(1, 32), (map, [0; AXES], 0, bug))
    };
    faults! {
        fault([64, 16], Bug::Source) => Argument, "no multiple of 128";
        fault([64, 16], Bug::Fence) => AsyncProxy;
        fault([64, 16], Bug::Overwrite) => InFlight | Argument, "store";
        fault([64, 16], Bug::Race) => Race;
        fault([64, 16], Bug::Wait) => Argument, "did not wait until 1 store(s)";
        fault([64, 16], Bug::Commit) => Argument, "did not wait until 2 store(s)";
        fault([68, 16], Bug::None) => Argument, "whole chunks";
    }
}
