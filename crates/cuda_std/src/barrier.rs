//! Named barriers: meeting points for a part of the block.
//!
//! A block has 16 barriers. Barrier 0 is also [`crate::thread::sync_threads`]. A barrier completes when
//! `threads` threads have arrived, by [`sync`] or by [`arrive`], and can be reused at once. Typically a
//! producer *arrives* when a buffer is full, and consumers *sync* on the same barrier; a second barrier
//! signals that the buffer is empty again.
//!
//! **Emulator**: threads that leave the barrier through `sync` are ordered after all threads that arrived.
//! `arrive` releases the thread's accesses to the barrier but acquires none. A warp counts when all its
//! lanes have arrived, as on the device. Threads that disagree about the number, a number that is not a
//! multiple of 32, a second arrival before the barrier completes, and barriers that never complete are
//! reported.

use crate::backend;

device_functions! {
    /// Waits at barrier `id` until `threads` threads have arrived. `bar.sync id, threads`.
    ///
    /// `id` is below 16; `threads` is a multiple of 32; all lanes of a warp arrive together.
    fn sync(id: u32, threads: u32) = backend::barrier_sync(id, threads);

    /// Arrives at barrier `id`, which completes at `threads` threads, without waiting.
    /// `bar.arrive id, threads`.
    ///
    /// `id` is below 16; `threads` is a multiple of 32; all lanes of a warp arrive together. A thread must
    /// not arrive twice before the barrier completes.
    fn arrive(id: u32, threads: u32) = backend::barrier_arrive(id, threads);
}
