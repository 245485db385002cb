//! Copies of boxes of a tensor, as a tensor map describes them (sm_90 and later).
//!
//! The tensor has five axes of 16-bit elements, the first of which is contiguous. A copy writes the box that
//! starts at five coordinates, which may be negative, to shared memory, densely, the first axis innermost.
//! Elements outside of the tensor are zeros, and count towards the barrier's bytes. Along each axis but the
//! first a box may have a stride.
//!
//! A box has 16, 32, 64 or 128 bytes along its first axis, its *span*. Spans may be *swizzled*: chunks of 16
//! bytes are exchanged within their span by their address, as `wgmma` reads them
//! ([`crate::wgmma::MatrixLayout::swizzled`]).
//!
//! A box may also be written from shared memory to the tensor ([`store_box`]); elements outside of the tensor
//! are left out. The thread that starts such stores commits them as a group ([`commit_stores`]) and waits
//! until shared memory has been read ([`wait_stores_read`]). The next kernel sees what they wrote.
//!
//! A map in im2col mode describes the windows of a convolution over a channels-last tensor ([`Im2col`]). A
//! copy ([`copy_im2col`]) brings the same element of some windows, one after the other: along columns, rows,
//! slices and samples. A line has the channels of one window.
//!
//! On the device a map is 128 bytes in a format that the driver alone knows (`cuTensorMapEncodeTiled`,
//! `cuTensorMapEncodeIm2col`), and a kernel has it as a parameter of type `&TensorMap`, in parameter memory.
//! **Emulator**: [`MapMode::emulated`] makes a map, and copies are checked as other bulk copies are
//! ([`crate::mbarrier`]): reads outside of the tensor's memory, reads of uninitialised bytes, and a source
//! that changes before the copy has landed are reported. So are a store's bytes that no fence shows to the
//! asynchronous proxy, or that change before the wait, and a thread that ends before it.

use crate::backend;
pub use crate::map_modes::{AXES, Boxes, Im2col, MapMode, SPATIAL_AXES, TARGET_BYTES, TensorMap};
use crate::mbarrier::Barrier;
use crate::shared::SharedAddr;

device_functions! {
    /// Starts to copy the box at these coordinates to shared memory; its bytes count towards the current
    /// phase of `barrier`. One thread calls it.
    /// `cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes`.
    ///
    /// # Safety
    /// `map` is a parameter of the kernel, and describes allocated memory. `dst` is a multiple of 128 bytes
    /// and has room for the box. Until the phase has completed, no thread accesses the target or writes the
    /// source. The barrier was initialised before, and expects the bytes in the same phase.
    unsafe fn copy_box(dst: SharedAddr, map: &TensorMap, at: [i32; AXES], barrier: Barrier) =
        backend::copy_box(dst.0, map, at, barrier.0.0);

    /// Starts to copy one element of each of some windows to shared memory, and some channels of it, a line
    /// for each window. `at` are the first channel, column, row and slice where the first window begins, and
    /// its sample; `offsets`, of up to 31, are column, row and slice of the element from there on. The bytes
    /// count towards the current phase of `barrier`. One thread calls it.
    /// `cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes`.
    ///
    /// # Safety
    /// As for [`copy_box`]; the map is in im2col mode, and a window begins there.
    unsafe fn copy_im2col(dst: SharedAddr, map: &TensorMap, at: [i32; AXES], offsets: [u16; SPATIAL_AXES], barrier: Barrier) =
        backend::copy_im2col(dst.0, map, at, offsets, barrier.0.0);

    /// Starts to write the box at these coordinates from shared memory, where it lies as [`copy_box`] puts
    /// it. One thread calls it. `cp.async.bulk.tensor.5d.global.shared::cta.bulk_group`.
    ///
    /// # Safety
    /// `map` is a parameter of the kernel, and describes allocated memory that nothing else accesses. `src`
    /// is a multiple of 128 bytes. Whoever wrote the box executed [`crate::async_proxy::fence_shared`] before
    /// a barrier that orders it before this call. Until [`wait_stores_read`] nobody writes the box.
    unsafe fn store_box(src: SharedAddr, map: &TensorMap, at: [i32; AXES]) =
        backend::store_box(src.0, map, at);

    /// Makes the thread's stores since the last call a group. `cp.async.bulk.commit_group`.
    fn commit_stores() = backend::commit_stores();

    /// Waits until the stores of all but the thread's `LEFT` youngest groups have read shared memory.
    /// `cp.async.bulk.wait_group.read`.
    fn wait_stores_read[const LEFT: u32]() = backend::wait_stores_read::<LEFT>();
}
