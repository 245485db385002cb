//! Copies of boxes of a tensor with a tensor map: TMA (sm_90 and later).
//!
//! The tensor has five axes of elements of 16 or 32 bits, the first of which is contiguous. A copy takes the
//! box that starts at five coordinates, which may be negative, and writes it to shared memory, dense and with
//! the first axis innermost. Elements outside of the tensor become zeros, and count towards the barrier's
//! bytes. Along each axis but the first, a box may have an element stride. A map of [`MapElement::Tf32`]
//! rounds f32 to tf32 on the way to shared memory.
//!
//! A box has a multiple of 16 bytes along its first axis, its *span*, and starts there at a multiple of 16
//! bytes; the device reports an illegal instruction otherwise. Spans of 16, 32, 64 or 128 bytes may be
//! *swizzled*: 16-byte chunks are permuted within their span by their address, as `wgmma` reads them
//! ([`crate::wgmma::MatrixLayout::swizzled`]).
//!
//! [`store_box`] writes a box from shared memory to the tensor, without the elements outside of the tensor.
//! The thread that starts stores commits them as a group ([`commit_stores`]), and waits until they have
//! read shared memory ([`wait_stores_read`]). The next kernel sees the stored values.
//!
//! A map in im2col mode describes the windows of a convolution over a channels-last tensor ([`Im2col`]).
//! [`copy_im2col`] copies the pixel at the same filter offset from consecutive windows. The windows advance
//! along columns, then rows, slices and samples. Each line in shared memory holds the channels of one
//! window's pixel.
//!
//! On the device a map is 128 bytes in a format that only the driver knows (`cuTensorMapEncodeTiled`,
//! `cuTensorMapEncodeIm2col`). A kernel takes it as a parameter of type `&TensorMap`, in parameter memory.
//!
//! **Emulator**: [`MapMode::emulated`] makes a map. Copies are checked like other bulk copies
//! ([`crate::mbarrier`]): reads outside of the tensor's memory, reads of uninitialised bytes, and a source
//! that changes before the copy has completed are reported. For a store, it reports bytes that no fence has
//! made visible to the asynchronous proxy, bytes that change before the wait, and a thread that ends before
//! the wait.

use crate::backend;
pub use crate::map_modes::{
    AXES, Boxes, Im2col, MapElement, MapMode, SPATIAL_AXES, TARGET_BYTES, TensorMap,
};
use crate::mbarrier::Barrier;
use crate::shared::SharedAddr;

device_functions! {
    /// Starts to copy the box at coordinates `at` to shared memory. Its bytes count towards the current
    /// phase of `barrier`. A single thread makes this call.
    /// `cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes`.
    ///
    /// # Safety
    /// `map` is a parameter of the kernel, and describes allocated memory. `dst` is a multiple of 128 bytes
    /// and has room for the box. Until the phase has completed, no thread accesses the destination or
    /// writes the source. The barrier was initialised before, and expects the bytes in the same phase.
    unsafe fn copy_box(dst: SharedAddr, map: &TensorMap, at: [i32; AXES], barrier: Barrier) =
        backend::copy_box(dst.0, map, at, barrier.0.0);

    /// Starts to copy one pixel of each of several consecutive windows to shared memory, one line of
    /// channels for each window. `at` gives the first channel, the column, row and slice where the first
    /// window starts, and its sample. `offsets`, each at most 31, give the pixel's column, row and slice
    /// relative to the window. The bytes count towards the current phase of `barrier`. A single thread
    /// makes this call.
    /// `cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes`.
    ///
    /// # Safety
    /// As for [`copy_box`]; the map is in im2col mode, and a window starts at `at`.
    unsafe fn copy_im2col(dst: SharedAddr, map: &TensorMap, at: [i32; AXES], offsets: [u16; SPATIAL_AXES], barrier: Barrier) =
        backend::copy_im2col(dst.0, map, at, offsets, barrier.0.0);

    /// Starts to write the box at coordinates `at` from shared memory, where it has the layout of
    /// [`copy_box`]. A single thread makes this call.
    /// `cp.async.bulk.tensor.5d.global.shared::cta.bulk_group`.
    ///
    /// # Safety
    /// `map` is a parameter of the kernel, and describes allocated memory that nothing else accesses. `src`
    /// is a multiple of 128 bytes. The threads that wrote the box executed
    /// [`crate::async_proxy::fence_shared`] before a barrier that orders them before this call. Until
    /// [`wait_stores_read`] no thread writes the box.
    unsafe fn store_box(src: SharedAddr, map: &TensorMap, at: [i32; AXES]) =
        backend::store_box(src.0, map, at);

    /// Makes a group of the stores that this thread has started since its last group.
    /// `cp.async.bulk.commit_group`.
    fn commit_stores() = backend::commit_stores();

    /// Waits until the stores of all this thread's groups but the `LEFT` youngest have read shared memory.
    /// `cp.async.bulk.wait_group.read`.
    fn wait_stores_read[const LEFT: u32]() = backend::wait_stores_read::<LEFT>();
}
