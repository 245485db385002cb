//! Tensors beyond the host's memory, and launches of some of their blocks.

use crate::support::{faults, run_clean, run_faulty, shape};
use cuda_std::emulator::{Buffer, Device, FaultKind, Launch};
use cuda_std::prelude::*;

/// 20 GiB of f32.
const LEN: usize = 5 << 30;
const THREADS: u32 = 64;

/// Allocates a tensor whose elements are their own indices.
fn numbers(device: &Device) -> Buffer {
    let contents = |offset: usize, bytes: &mut [u8]| {
        bytes.copy_from_slice(&((offset / 4) as u32 ^ (offset >> 34) as u32).to_ne_bytes());
    };
    device.alloc_computed(4 * LEN, 4, contents).unwrap()
}

#[derive(Clone, Copy, PartialEq)]
#[repr(u32)]
enum Index {
    Wide,
    /// The product of block and block size is computed in 32 bits.
    Narrow,
    /// Only the source index is computed in 32 bits.
    NarrowSource,
}

/// A block copies its words.
#[kernel(max_threads = THREADS)]
unsafe fn copy(x: *const u32, y: *mut u32, how: Index) {
    unsafe {
        let (x, y) = (Global::new(x, LEN), GlobalMut::new(y, LEN));
        let (block, t) = (thread::block_idx_x(), thread::thread_idx_x());
        let wide = block as usize * THREADS as usize + t as usize;
        let narrow = block.wrapping_mul(THREADS).wrapping_add(t) as usize;
        let (from, to) = match how {
            Index::Wide => (wide, wide),
            Index::Narrow => (narrow, narrow),
            Index::NarrowSource => (narrow, wide),
        };
        y.store(to, x.load(from));
    }
}

/// Returns the first word of a block's part.
fn first_of(buffer: &Buffer, block: u32) -> Result<u32, FaultKind> {
    let mut bytes = [0; 4];
    let offset = 4 * block as usize * THREADS as usize;
    buffer
        .read(offset, &mut bytes)
        .map(|()| u32::from_ne_bytes(bytes))
        .map_err(|fault| fault.kind)
}

#[test]
fn a_few_blocks_of_a_tensor_beyond_memory_run() {
    let blocks = (LEN / THREADS as usize) as u32;
    let last = blocks - 1;
    let device = Device::with_memory(0);
    let x = numbers(&device);
    let launch = Launch {
        only: vec![[last, 0, 0], [0, 0, 0], [last, 0, 0]],
        ..shape(blocks, THREADS)
    };
    let outcome = |how| {
        let y = device.alloc_sparse(4 * LEN, 4).unwrap();
        let stats = run_clean::<copy>(&device, &launch, (x.ptr(), y.ptr(), how));
        assert_eq!(stats.blocks, 2);
        [first_of(&y, 0), first_of(&y, last)]
    };
    let [zero, right] = [first_of(&x, 0), first_of(&x, last)].map(Result::unwrap);
    assert_eq!(outcome(Index::Wide), [Ok(zero), Ok(right)]);
    let [first, lost] = outcome(Index::Narrow);
    assert_eq!(first, Ok(zero));
    assert!(matches!(lost, Err(FaultKind::Uninitialized { .. })));
    let [_, wrong] = outcome(Index::NarrowSource);
    assert!(wrong.is_ok_and(|wrong| wrong != right));
}

#[test]
fn sparse_memory_has_rules() {
    let device = Device::new();
    let x = numbers(&device);
    let outside = Launch {
        only: vec![[1, 0, 0]],
        ..shape(1, THREADS)
    };
    let y = device.alloc_sparse(4 * LEN, 4).unwrap();
    let little = device.alloc_sparse(64, 4).unwrap();
    let fault = |launch: &Launch, from: &Buffer, to: &Buffer| {
        run_faulty::<copy>(&device, launch, (from.ptr(), to.ptr(), Index::Wide))
    };
    let inside = shape(1, THREADS);
    faults! {
        x.fill(0).unwrap_err() => HostMemory;
        fault(&outside, &x, &x) => Launch;
        // Unwritten elements, accesses narrower than declared, and the ends of the tensor.
        fault(&inside, &y, &x) => Uninitialized;
        run_faulty::<narrow>(&device, &shape(1, 1), (y.ptr(),)) => HostMemory;
        fault(&inside, &x, &little) => OutsideAllocation;
        device.alloc_sparse(1 << 62, 4).unwrap_err() => OutOfMemory;
    }
    assert!(matches!(
        first_of(&y, 7),
        Err(FaultKind::Uninitialized { .. })
    ));
}

/// Stores a byte of a tensor of words.
#[kernel(max_threads = 1)]
unsafe fn narrow(y: *mut u8) {
    unsafe { GlobalMut::new(y, 4).store(1, 7) }
}
