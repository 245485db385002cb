//! Copies of boxes of a tensor, as a tensor map describes them (sm_90 and later).
//!
//! The tensor has five axes of 16-bit elements, the first of which are neighbours. A copy brings the box that
//! starts at five coordinates, which may be negative, to shared memory, densely, the first axis innermost.
//! What of the box is outside of the tensor along any axis comes as zeros, and counts towards the bytes all
//! the same. Along each axis but the first a box may have one of every few indices.
//!
//! A *line* is what a box has along the first axis: 16 bytes, 32, 64 or 128. Those of up to 64 bytes may be
//! *swizzled*: pieces of 16 bytes are exchanged within their line by their address
//! ([`crate::wgmma::MatrixLayout::swizzled`]), which is how `wgmma` wants them.
//!
//! On the device a map is 128 bytes in a format that the driver alone knows (`cuTensorMapEncodeTiled`), and a
//! kernel has it as a parameter of type `&TensorMap`, which lies where the launch put it. **Emulator**:
//! [`Boxes::emulated`] makes a map, and copies are checked as other bulk copies are ([`crate::mbarrier`]):
//! reads outside of the tensor's memory and of bytes that nobody wrote are reported, and a source that
//! changes before the copy has landed.

use crate::backend;
pub use crate::common::{AXES, Boxes, TARGET_BYTES, TensorMap};
use crate::mbarrier::Barrier;
use crate::shared::SharedAddr;

/// Starts to copy the box at these coordinates to shared memory; its bytes count towards the current phase of
/// `barrier`. One thread does it for all.
/// `cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes`.
///
/// # Safety
/// `map` is a parameter of the kernel, and describes memory that there is. `dst` is a multiple of 128 bytes
/// and has room for the box. Until the phase has completed, nobody touches the target or writes the source.
/// The barrier was initialised before, and the bytes are announced to it in the same phase.
#[track_caller]
#[inline(always)]
pub unsafe fn copy_box(dst: SharedAddr, map: &TensorMap, at: [i32; AXES], barrier: Barrier) {
    // SAFETY: the caller's promise is the backend's.
    unsafe { backend::copy_box(dst.0, map, at, barrier.0.0) }
}
