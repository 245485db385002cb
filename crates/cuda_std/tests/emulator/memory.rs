//! Bounds, alignment, initialisation.

use crate::support::{download, faults, run_clean, run_faulty, shape, upload};
use cuda_std::emulator::{Device, Launch};
use cuda_std::prelude::*;
use cuda_std::shared;

/// Adds 1; `slack` moves the bound.
#[kernel]
unsafe fn increment(x: *const f32, y: *mut f32, len: usize, slack: usize) {
    unsafe {
        let (x, y) = (Global::new(x, len), GlobalMut::new(y, len));
        let i = thread::index_1d() as usize;
        if i < len + slack {
            y.store(i, x.load(i) + 1.0);
        }
    }
}

#[test]
fn an_elementwise_kernel_computes_every_element() {
    let device = Device::new();
    let x = upload(&device, &[1.0_f32; 1000]);
    let y = device.alloc(4000).unwrap();
    let stats = run_clean::<increment>(&device, &shape(4, 256), (x.ptr(), y.ptr(), 1000, 0));
    assert_eq!(download::<f32>(&y), vec![2.0; 1000]);
    let bytes = [stats.global_load_bytes, stats.global_store_bytes];
    assert_eq!((bytes, stats.threads), ([4000; 2], 1024));
}

#[test]
fn accesses_outside_of_views_and_allocations_are_reported() {
    let device = Device::new();
    let [x, short] = [1000, 999].map(|len| upload(&device, &vec![1.0_f32; len]));
    let (never_written, y) = (device.alloc(4000).unwrap(), device.alloc(4000).unwrap());
    never_written.write(0, &[0; 3998]).unwrap();
    let freed: *const f32 = upload(&device, &[1.0_f32; 1000]).ptr();
    let fault = |x: *const f32, slack| {
        run_faulty::<increment>(&device, &shape(4, 256), (x, y.ptr(), 1000, slack))
    };
    let off_by_one = fault(x.ptr(), 1);
    faults! {
        off_by_one => OutOfBounds(index: 1000, len: 1000), "memory.rs";
        // A view longer than its allocation: at the first access outside.
        fault(short.ptr(), 0) => OutsideAllocation(start: 3996, end: 4000);
        fault(std::ptr::null(), 0) => OutsideAllocation;
        fault(freed, 0) => OutsideAllocation;
        // Bytes that the host never wrote.
        fault(never_written.ptr(), 0) => Uninitialized(offset: 3998);
    }
    assert_eq!(off_by_one.thread.unwrap().thread, [1000 % 256, 0, 0]);
    // An unused null pointer is valid: bias pointers, for example, may be null.
    run_clean::<increment>(&device, &shape(1, 32), (std::ptr::null(), y.ptr(), 0, 0));
    // An output with a hole is reported to the host that reads it.
    let (holed, mut bytes) = (device.alloc(4000).unwrap(), [0; 4000]);
    run_clean::<increment>(&device, &shape(4, 256), (x.ptr(), holed.ptr(), 999, 0));
    holed.read(0, &mut bytes[..3996]).unwrap();
    faults! { holed.read(0, &mut bytes).unwrap_err() => Uninitialized(offset: 3996); }
}

/// Copies vectors of four from element `start` on.
#[kernel]
unsafe fn copy_vectors(x: *const f32, y: *mut f32, start: usize) {
    unsafe {
        let (x, y) = (Global::new(x, 64), GlobalMut::new(y, 64));
        let i = start + 4 * thread::thread_idx_x() as usize;
        y.store_vec(i, x.load_vec::<4>(i));
    }
}

#[test]
fn vectors_move_when_aligned_and_are_refused_when_not() {
    let device = Device::new();
    let values: Vec<f32> = (0..64).map(|i| i as f32).collect();
    let (x, y) = (upload(&device, &values), device.alloc(256).unwrap());
    run_clean::<copy_vectors>(&device, &shape(1, 16), (x.ptr(), y.ptr(), 0));
    assert_eq!(download::<f32>(&y), values);
    let bytes = upload(&device, &[0_u8; 64]);
    faults! {
        run_faulty::<copy_vectors>(&device, &shape(1, 8), (x.ptr(), y.ptr(), 1)) => Misaligned(bytes: 16);
        run_faulty::<copy_vectors>(&device, &shape(1, 1), (x.ptr(), y.ptr(), 62)) => OutOfBounds;
        // A misaligned scalar.
        run_faulty::<misaligned_scalar>(&device, &shape(1, 1), (bytes.ptr(), y.ptr()))
            => Misaligned(offset: 2, bytes: 4);
    }
}

/// Casts an f16 pointer with an odd address.
#[kernel]
unsafe fn misaligned_scalar(x: *const u8, y: *mut f32) {
    unsafe {
        let x = Global::new(x.wrapping_add(2).cast::<f32>(), 4);
        GlobalMut::new(y, 1).store(0, x.load(0));
    }
}

shared_array! {
    static REVERSED: [u32; 64];
    static SPARSE: [f16; 64];
}

/// Reverses 64 values through shared memory; thread `lazy` writes nothing.
#[kernel(max_threads = 64)]
unsafe fn reverse(x: *mut u32, lazy: u32) {
    unsafe {
        let (x, tile) = (GlobalMut::new(x, 64), REVERSED.view());
        let t = thread::thread_idx_x();
        if t != lazy {
            tile.store(t, x.load(t as usize));
        }
        thread::sync_threads();
        x.store(t as usize, tile.load(63 - t));
    }
}

#[test]
fn shared_memory_carries_values_between_threads() {
    let device = Device::new();
    let values: Vec<u32> = (0..64).collect();
    let x = upload(&device, &values);
    let stats = run_clean::<reverse>(&device, &shape(1, 64), (x.ptr(), 64));
    assert_eq!(download::<u32>(&x), values);
    assert_eq!(
        (stats.barriers, stats.shared_bytes, stats.shared_load_bytes),
        (1, 256, 256)
    );
}

#[test]
fn shared_memory_is_uninitialised_at_first_and_again_in_each_block() {
    let device = Device::new();
    let x = upload(&device, &[0_u32; 64]);
    let fault = run_faulty::<reverse>(&device, &shape(1, 64), (x.ptr(), 7));
    faults! { fault => Uninitialized(offset: 28), "REVERSED"; }
    assert_eq!(fault.thread.unwrap().thread, [56, 0, 0]);
}

/// Writes element `index` of a view of `len` elements of the dynamic shared memory.
#[kernel]
unsafe fn write_dynamic(offset: u32, len: u32, index: u32) {
    unsafe { shared::dynamic::<f32>(offset, len).store(index, 1.0) }
}

#[test]
fn dynamic_shared_memory_has_the_size_that_the_launch_gives() {
    let device = Device::new();
    let launch = Launch {
        shared_bytes: 1024,
        ..shape(1, 1)
    };
    run_clean::<write_dynamic>(&device, &launch, (512, 128, 127));
    let refused = |launch: &Launch, of| run_faulty::<write_dynamic>(&device, launch, of);
    faults! {
        refused(&launch, (512, 128, 128)) => OutOfBounds(index: 128, len: 128);
        refused(&launch, (516, 128, 0)) => OutsideAllocation;
        refused(&launch, (514, 4, 0)) => Misaligned;
        refused(&shape(1, 1), (0, 1, 0)) => Argument;
    }
}

/// Neighbouring halves of one word, each accessed by its own thread.
#[kernel]
unsafe fn halves(y: *mut f16) {
    unsafe {
        let (y, tile) = (GlobalMut::new(y, 64), SPARSE.view());
        let t = thread::thread_idx_x();
        tile.store(t, f16::from_f32(t as f32));
        thread::sync_threads();
        y.store(t as usize, tile.load(t ^ 1));
    }
}

#[test]
fn neighbouring_halves_of_a_word_are_apart() {
    let device = Device::new();
    let y = device.alloc(128).unwrap();
    run_clean::<halves>(&device, &shape(1, 64), (y.ptr(),));
    assert_eq!(download::<f16>(&y)[10], f16::from_f32(11.0));
}

#[test]
fn host_transfers_outside_of_an_allocation_are_refused() {
    let device = Device::new();
    let x = device.alloc(16).unwrap();
    faults! {
        x.write(1, &[0; 16]).unwrap_err() => OutsideAllocation;
        x.write(usize::MAX, &[0; 2]).unwrap_err() => OutsideAllocation;
        x.read(17, &mut []).unwrap_err() => OutsideAllocation;
    }
    x.fill(3).unwrap();
    x.read(16, &mut []).unwrap();
}

#[test]
fn a_device_has_an_end_and_takes_freed_memory_back() {
    let device = Device::with_memory(1000);
    let first = device.alloc(600).unwrap();
    faults! {
        device.alloc(401).unwrap_err() => OutOfMemory(bytes: 401, used: 600, limit: 1000);
    }
    drop(first);
    device.alloc(401).unwrap();
    assert!(Device::new().alloc(usize::MAX).is_err());
    assert!(device.alloc(0).unwrap().is_empty());
}
