//! Asynchronous copies from global to shared memory: `cp.async` (sm_80 and later).
//!
//! A thread starts copies, closes them into a group with [`commit_group`], and waits for its groups
//! with [`wait_group`]. Other threads see the data after a barrier that follows the wait.
//!
//! **Emulator**: a copy completes no sooner than a wait covers it. Until then the destination counts as
//! unwritten, and an access to it is reported as an access to a copy in flight. A source that changes
//! before the wait is reported, too. Bounds, alignment, initialisation and races are checked for source and
//! destination.

use crate::backend;
use crate::element::Element;
use crate::global::Global;
use crate::shared::SharedAddr;

macro_rules! copies {
    ($($(#[$doc:meta])* $name:ident, $bytes:literal;)*) => { device_functions! {$(
        $(#[$doc])*
        ///
        /// # Safety
        #[doc = concat!("`dst` is the address of ", $bytes, " bytes of shared memory, and `src` holds ", $bytes, " bytes from element `index` on; both are
        multiples of ", $bytes, ". Until the wait, nobody touches the target or writes the source.")]
        unsafe fn $name[T: Element](dst: SharedAddr, src: Global<T>, index: usize) =
            backend::copy_async::<T, $bytes>(dst.0, src.view, index);
    )*}};
}

copies! {
    /// Starts to copy 4 bytes. `cp.async.ca.shared.global 4`.
    copy4, 4;
    /// Starts to copy 8 bytes. `cp.async.ca.shared.global 8`.
    copy8, 8;
    /// Starts to copy 16 bytes, bypassing the L1 cache. `cp.async.cg.shared.global 16`.
    copy16, 16;
}

macro_rules! zero_filling_copies {
    ($($(#[$doc:meta])* $name:ident, $bytes:literal;)*) => { device_functions! {$(
        $(#[$doc])*
        ///
        /// With `valid_bytes == 0` nothing is read, so `index` may have any value.
        ///
        /// # Safety
        /// As for the copy without zero filling. Only `valid_bytes` bytes must be readable at the source,
        /// and `valid_bytes` is at most the copy's size.
        unsafe fn $name[T: Element](dst: SharedAddr, src: Global<T>, index: usize, valid_bytes: u32) =
            backend::copy_async_zfill::<T, $bytes>(dst.0, src.view, index, valid_bytes);
    )*}};
}

zero_filling_copies! {
    /// Starts to copy 4 bytes; bytes from `valid_bytes` on become zeros.
    copy4_zfill, 4;
    /// Starts to copy 8 bytes; bytes from `valid_bytes` on become zeros.
    copy8_zfill, 8;
    /// Starts to copy 16 bytes; bytes from `valid_bytes` on become zeros.
    copy16_zfill, 16;
}

device_functions! {
    /// Makes a group of the copies that this thread has started since its last group.
    /// `cp.async.commit_group`.
    fn commit_group() = backend::commit_group();

    /// Waits until at most the `N` youngest of this thread's groups are in flight. `cp.async.wait_group
    /// N`.
    fn wait_group[const N: u32]() = backend::wait_group::<N>();

    /// Waits for all copies of this thread, whether in groups or not. `cp.async.wait_all`.
    fn wait_all() = backend::wait_all();
}
