//! Copies of boxes of a tensor.

use crate::support::{faults, run_clean, run_faulty, shape};
use cuda_std::async_proxy;
use cuda_std::emulator::{Buffer, Device};
use cuda_std::mbarrier::Barrier;
use cuda_std::prelude::*;
use cuda_std::tensor_map::{AXES, Boxes, MapElement, MapMode, TensorMap, copy_box};

/// Words of the destination, which is larger than any box.
const WORDS: usize = 1024;

shared_array! {
    static BOX_TARGET: [u32; WORDS + 32];
    static BOX_BARRIER: [u64; 1];
}

/// The kernel's mistake.
#[derive(Clone, Copy, PartialEq)]
#[repr(u32)]
enum Bug {
    None,
    /// The destination starts at a multiple of 16 bytes only.
    Target,
    /// The box is read before the copy has completed.
    Wait,
    /// Fewer bytes are announced.
    Bytes,
}

/// Copies a box to shared memory, then its words to `y` in memory order, and its start address to `y`'s
/// last word.
#[kernel(instances(N: [1]), max_threads = 32, min_blocks = 1)]
unsafe fn bring<const N: u32>(map: &TensorMap, y: *mut u32, at: [i32; AXES], words: u32, bug: Bug) {
    unsafe {
        let (target, barriers) = (BOX_TARGET.view(), BOX_BARRIER.view());
        let y = GlobalMut::new(y, WORDS);
        let barrier = Barrier::at(barriers, 0);
        let first = target.addr(0).0.next_multiple_of(128) - target.addr(0).0;
        let first = first / 4 + if bug == Bug::Target { 4 } else { 0 };
        if thread::thread_idx_x() == 0 {
            barrier.init(1);
            async_proxy::fence_shared();
            let bytes = 4 * words - if bug == Bug::Bytes { 16 } else { 0 };
            barrier.arrive_expect(bytes);
            copy_box(target.addr(first), map, at, barrier);
            if bug != Bug::Wait {
                barrier.wait(0);
            }
            let mut word = 0;
            while word < words {
                y.store(word as usize, target.load(first + word));
                word += 1;
            }
            y.store(WORDS - 1, target.addr(first).0);
        }
    }
}

/// A tensor with eight channels more than a line, 5 columns, 3 slices, 4 rows and 2 samples, with gaps
/// between them. Only the first sample has memory.
struct Tensor {
    values: Vec<u16>,
    boxes: Boxes,
}

impl Tensor {
    fn new(line: u32, is_swizzled: u32) -> Self {
        let extents = [line + 8, 5, 3, 4, 2];
        let column = 2 * u64::from(line + 16);
        let slice = 5 * column + 16;
        let row = 3 * slice;
        let sample = 4 * row + 32;
        let boxes = Boxes {
            element: MapElement::Bits16,
            extents,
            strides: [column, slice, row, sample],
            reaches: [line, 5, 2, 3, 1],
            steps: [1, 2, 1, 2, 1],
            is_swizzled,
        };
        let values = (0..sample as usize / 2).map(|i| 1 + i as u16).collect();
        Self { values, boxes }
    }

    fn upload(&self, device: &Device) -> Buffer {
        let buffer = device.alloc(2 * self.values.len()).unwrap();
        let bytes: Vec<u8> = (self.values.iter().flat_map(|x| x.to_ne_bytes())).collect();
        buffer.write(0, &bytes).unwrap();
        buffer
    }

    /// Returns the element at these indices, or 0 outside of the tensor.
    fn at(&self, indices: [i64; AXES]) -> u16 {
        let Boxes {
            extents, strides, ..
        } = self.boxes;
        let inside = |(&index, extent): (&i64, u32)| (0..i64::from(extent)).contains(&index);
        if !indices.iter().zip(extents).all(inside) {
            return 0;
        }
        let bytes = indices[1..].iter().zip(strides);
        let bytes: u64 = bytes.map(|(&index, stride)| index as u64 * stride).sum();
        self.values[bytes as usize / 2 + indices[0] as usize]
    }
}

#[test]
fn boxes_are_dense_and_zero_outside_of_the_tensor() {
    let device = Device::new();
    for (line, is_swizzled) in [8, 16, 32, 64]
        .into_iter()
        .flat_map(|line| [(line, 0), (line, 1)])
    {
        let mut tensor = Tensor::new(line, is_swizzled);
        // The second sample follows the first.
        let sample = tensor.values.len();
        tensor.values.extend((0..sample).map(|i| 7 + 3 * i as u16));
        let x = tensor.upload(&device);
        let counts = tensor.boxes.counts();
        assert_eq!(counts, [line, 3, 2, 2, 1]);
        for at in [
            [0; 5],
            [0, -1, -1, -1, 0],
            [8, 2, 1, 3, 1],
            [0, 4, 2, 2, 2],
            [-8, 0, 0, 0, 1],
        ] {
            let y = device.alloc(4 * WORDS).unwrap();
            let map = MapMode::Tiled(tensor.boxes).emulated(x.ptr::<u8>());
            let words = counts.iter().product::<u32>() / 2;
            let arguments = (map, y.ptr::<u32>(), at, words, Bug::None);
            run_clean::<bring<1>>(&device, &shape(1, 32), arguments);
            let mut bytes = vec![0; 4 * words as usize];
            y.read(0, &mut bytes).unwrap();
            let mut start = [0; 4];
            y.read(4 * (WORDS - 1), &mut start).unwrap();
            let start = u32::from_ne_bytes(start);
            let pieces = line / 8;
            for piece in 0..words / 4 {
                let address = start + 16 * piece;
                let exchanged = (is_swizzled * (address >> 3)) & ((pieces - 1) * 16);
                let from = (address ^ exchanged) - start;
                let of_line = i64::from(from / 16 % pieces * 8);
                let mut rest = from / 16 / pieces;
                let mut indices = at.map(i64::from);
                for axis in 1..AXES {
                    indices[axis] += i64::from(rest % counts[axis] * tensor.boxes.steps[axis]);
                    rest /= counts[axis];
                }
                for element in 0..8 {
                    let mut indices = indices;
                    indices[0] += of_line + element;
                    let byte = (16 * piece) as usize + 2 * element as usize;
                    let found = u16::from_ne_bytes([bytes[byte], bytes[byte + 1]]);
                    assert_eq!(
                        found,
                        tensor.at(indices),
                        "{line} {at:?}: {piece} {element}"
                    );
                }
            }
        }
    }
}

#[test]
fn what_a_copy_does_wrong_is_reported() {
    let device = Device::new();
    let tensor = Tensor::new(16, 1);
    let x = tensor.upload(&device);
    let words = tensor.boxes.counts().iter().product::<u32>() / 2;
    let y = device.alloc(4 * WORDS).unwrap();
    let fault = |map: TensorMap, at: [i32; AXES], bug: Bug| {
        let arguments = (map, y.ptr::<u32>(), at, words, bug);
        run_faulty::<bring<1>>(&device, &shape(1, 32), arguments)
    };
    let map = MapMode::Tiled(tensor.boxes).emulated(x.ptr::<u8>());
    faults! {
        fault(map, [0; 5], Bug::Target) => Argument, "no multiple of 128";
        fault(map, [0; 5], Bug::Wait) => InFlight;
        // The second sample has no memory.
        fault(map, [0, 0, 0, 0, 1], Bug::None) => OutsideAllocation;
        fault(TensorMap::NONE, [0; 5], Bug::None) => "extent 0 is 0";
    }
    // Unannounced bytes keep the phase from completing, or arrive in the next phase.
    fault(map, [0; 5], Bug::Bytes);
}

#[test]
fn tensor_maps_keep_the_limits_of_the_driver() {
    let device = Device::new();
    let tensor = Tensor::new(8, 0);
    let x = tensor.upload(&device);
    let y = device.alloc(4 * WORDS).unwrap();
    let arguments = |change: &dyn Fn(&mut Boxes), offset: usize| {
        let mut boxes = tensor.boxes;
        change(&mut boxes);
        let words = boxes.counts().iter().product::<u32>() / 2;
        let map = MapMode::Tiled(boxes).emulated(x.ptr::<u8>().wrapping_add(offset));
        (map, y.ptr::<u32>(), [0; AXES], words, Bug::None)
    };
    let at_the_limits = |boxes: &mut Boxes| {
        boxes.extents[4] = 1;
        boxes.strides[3] = (1 << 40) - 16;
        (boxes.reaches, boxes.steps) = ([8, 256, 1, 1, 1], [1, 8, 1, 1, 1]);
    };
    run_clean::<bring<1>>(&device, &shape(1, 32), arguments(&at_the_limits, 0));
    let fault = |change: &dyn Fn(&mut Boxes), offset: usize| {
        run_faulty::<bring<1>>(&device, &shape(1, 32), arguments(change, offset))
    };
    faults! {
        fault(&|boxes| boxes.reaches[1] = 257, 0) => Argument, "box's extent 1 is 257, limit 1..=256";
        fault(&|boxes| boxes.reaches[3] = 0, 0) => Argument, "box's extent 3 is 0";
        fault(&|boxes| boxes.steps[2] = 9, 0) => Argument, "box's step 2 is 9, limit 1..=8";
        fault(&|boxes| boxes.steps[0] = 2, 0) => Argument, "box's step 0 is 2, limit 1..=1";
        fault(&|boxes| boxes.extents[4] = 0, 0) => Argument, "tensor's extent 4 is 0";
        fault(&|boxes| boxes.strides[0] += 8, 0) => Argument, "no multiple of 16";
        fault(&|boxes| boxes.strides[3] = 1 << 40, 0) => Argument, "tensor's stride 4 is 1099511627776";
        fault(&|boxes| boxes.reaches[0] = 12, 0) => Argument, "the bytes of a line";
        fault(&|boxes| (boxes.reaches[0], boxes.is_swizzled) = (24, 1), 0) => Argument, "a line of 48 bytes";
        fault(&|boxes| (boxes.reaches[0], boxes.is_swizzled) = (128, 1), 0) => Argument, "a line of 256 bytes";
        fault(&|_| (), 8) => Argument, "address";
    }
}
