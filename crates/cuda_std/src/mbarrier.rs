//! Barriers in shared memory that also count bytes, and bulk copies that report to them (sm_90 and
//! later).
//!
//! A barrier runs through *phases*, numbered from 0. A phase completes when the barrier's number of
//! threads have arrived and all bytes that were announced have landed; then the next one starts.
//! Whoever waits names the parity of a phase, and goes on once that phase has completed, so a wait
//! for parity 1 on a new barrier goes on at once. Waiting orders what arrivers did, and what copies
//! wrote, before what the waiter does next.
//!
//! A barrier is 8 bytes of shared memory: one thread calls [`Barrier::init`], and then a block barrier makes
//! it known. If bulk copies use it, the thread also says [`crate::async_proxy::fence_shared`] in between, and
//! [`crate::cluster::fence_barriers`] if other blocks do, which serves for copies too.
//!
//! **Emulator**: a bulk copy lands when somebody waits for its phase; until then its target is in flight and
//! touching it is reported, as are a source that changes and a block that ends. A use of a barrier that is
//! not ordered after its `init`, or after the fence that it takes, more arrivals than a phase takes, and
//! phases that never complete are reported.

use crate::backend;
use crate::element::Element;
use crate::global::Global;
use crate::shared::{Shared, SharedAddr};

/// A barrier object in shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Barrier(pub(crate) SharedAddr);

impl Barrier {
    device_functions! {
        /// The barrier that element `i` of `objects` holds.
        #[must_use]
        fn at(objects: Shared<u64>, i: u32) -> Self = Self(objects.addr(i));

        /// Makes the 8 bytes a barrier whose phases take `arrivals` arrivals, 1 to 2²⁰ - 1.
        /// `mbarrier.init.shared::cta.b64`.
        ///
        /// # Safety
        /// The object lies in shared memory, and no other thread uses it unordered with this call.
        unsafe fn init(self, arrivals: u32) = backend::mbarrier_init(self.0.0, arrivals);

        /// Arrives at the current phase, without waiting. `mbarrier.arrive.shared::cta.b64`.
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

        /// Whether the phase of this parity (0 or 1) has completed; the device may wait a little for
        /// it. `mbarrier.try_wait.parity.shared::cta.b64`.
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
    /// Starts to copy `bytes` bytes from element `index` of `src` on to shared memory; the bytes count
    /// towards the current phase of `barrier`. One thread does it for all.
    /// `cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes`.
    ///
    /// # Safety
    /// Both ends have `bytes` bytes and are multiples of 16, as is `bytes`. Until the phase has
    /// completed, nobody touches the target or writes the source. The barrier was initialised before,
    /// and the bytes are announced to it in the same phase.
    unsafe fn copy_bulk[T: Element](dst: SharedAddr, src: Global<T>, index: usize, bytes: u32, barrier: Barrier) =
        backend::copy_bulk::<T>(dst.0, src.view, index, bytes, barrier.0.0);
}
