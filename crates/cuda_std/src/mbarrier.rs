//! Transaction barriers in shared memory, which also count bytes, and bulk copies that complete on them
//! (sm_90 and later).
//!
//! A barrier passes through *phases*, numbered from 0. A phase completes when all its expected arrivals
//! have come and all announced bytes have landed; then the next phase starts. A wait names the parity of a
//! phase and returns once that phase has completed. A wait for parity 1 on a new barrier therefore returns
//! at once. A wait orders the accesses of arriving threads, and the writes of copies, before the later
//! accesses of the waiting thread.
//!
//! A barrier is 8 bytes of shared memory. One thread calls [`Barrier::init`], and a block barrier then
//! makes it visible to the other threads. If bulk copies use the barrier, the thread calls
//! [`crate::async_proxy::fence_shared`] in between. If other blocks use it, the thread calls
//! [`crate::cluster::fence_barriers`], which is also sufficient for copies.
//!
//! **Emulator**: a bulk copy completes when a thread waits for its phase. Until then its destination is in
//! flight, and accesses to it are reported, as are a changed source and a block that ends. It also reports
//! uses of a barrier that are not ordered after its `init`, or after the required fence, more arrivals than
//! a phase expects, and phases that never complete.

use crate::backend;
use crate::element::Element;
use crate::global::Global;
use crate::shared::{Shared, SharedAddr};

/// A barrier object in shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Barrier(pub(crate) SharedAddr);

impl Barrier {
    device_functions! {
        /// Returns the barrier stored in element `i` of `objects`.
        #[must_use]
        fn at(objects: Shared<u64>, i: u32) -> Self = Self(objects.addr(i));

        /// Initialises the 8 bytes as a barrier with phases of `arrivals` arrivals, 1 to 2²⁰ - 1.
        /// `mbarrier.init.shared::cta.b64`.
        ///
        /// # Safety
        /// The object lies in shared memory, and no other thread uses it unordered with this call.
        unsafe fn init(self, arrivals: u32) = backend::mbarrier_init(self.0.0, arrivals);

        /// Arrives at the current phase without waiting. `mbarrier.arrive.shared::cta.b64`.
        ///
        /// # Safety
        /// The barrier was initialised before.
        unsafe fn arrive(self) = backend::mbarrier_arrive(self.0.0);

        /// Announces `bytes` more bytes for the current phase, and arrives.
        /// `mbarrier.arrive.expect_tx.shared::cta.b64`.
        ///
        /// # Safety
        /// The barrier was initialised before.
        unsafe fn arrive_expect(self, bytes: u32) = backend::mbarrier_arrive_expect(self.0.0, bytes);

        /// Returns whether the phase of this parity (0 or 1) has completed. The device may suspend the
        /// thread for a short time before. `mbarrier.try_wait.parity.shared::cta.b64`.
        ///
        /// # Safety
        /// The barrier was initialised before.
        #[must_use]
        unsafe fn try_wait(self, parity: u32) -> bool = backend::mbarrier_try_wait(self.0.0, parity);

        /// Waits until the phase of this parity (0 or 1) has completed: [`Self::try_wait`] in a loop.
        ///
        /// # Safety
        /// The barrier was initialised before.
        unsafe fn wait(self, parity: u32) = backend::mbarrier_wait(self.0.0, parity);
    }
}

device_functions! {
    /// Starts to copy `bytes` bytes from element `index` of `src` to shared memory. The bytes count towards
    /// the current phase of `barrier`. A single thread makes this call.
    /// `cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes`.
    ///
    /// # Safety
    /// Source and destination have `bytes` bytes. Their addresses and `bytes` are multiples of 16. Until
    /// the phase has completed, no thread accesses the destination or writes the source. The barrier was
    /// initialised before, and the bytes are announced to it in the same phase.
    unsafe fn copy_bulk[T: Element](dst: SharedAddr, src: Global<T>, index: usize, bytes: u32, barrier: Barrier) =
        backend::copy_bulk::<T>(dst.0, src.view, index, bytes, barrier.0.0);
}
