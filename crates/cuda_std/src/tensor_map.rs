//! Copies of boxes of a tensor, as a tensor map describes them (sm_90 and later).
//!
//! The tensor has five axes of 16-bit elements, the first of which is contiguous. A copy writes the box that
//! starts at five coordinates, which may be negative, to shared memory, densely, the first axis innermost.
//! Elements outside of the tensor are zeros, and count towards the barrier's bytes. Along each axis but the
//! first a box may have a stride.
//!
//! A box has 16, 32, 64 or 128 bytes along its first axis, its *span*. Spans of up to 64 bytes may be
//! *swizzled*: chunks of 16 bytes are exchanged within their span by their address, as `wgmma` reads them
//! ([`crate::wgmma::MatrixLayout::swizzled`]).
//!
//! On the device a map is 128 bytes in a format that the driver alone knows (`cuTensorMapEncodeTiled`), and a
//! kernel has it as a parameter of type `&TensorMap`, in parameter memory. **Emulator**: [`Boxes::emulated`]
//! makes a map, and copies are checked as other bulk copies are ([`crate::mbarrier`]): reads outside of the
//! tensor's memory, reads of uninitialised bytes, and a source that changes before the copy has landed are
//! reported.

use crate::backend;
pub use crate::common::{AXES, Boxes, TARGET_BYTES, TensorMap};
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
}
