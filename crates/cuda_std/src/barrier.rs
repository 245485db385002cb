//! Named barriers: meeting points for a part of the block.
//!
//! A block has 16. Barrier 0 is also [`crate::thread::sync_threads`]. A barrier opens when
//! `threads` threads have come, by [`sync`] or by [`arrive`], and can be used again at once. The
//! typical use is a producer that *arrives* when a buffer is filled and consumers that *sync* on
//! it, and a second barrier for the way back.
//!
//! **Emulator**: threads that come through the barrier from `sync` are ordered after all that came
//! to it; `arrive` gives its accesses to the barrier but takes none. A warp counts when all its
//! lanes have come, as on the device. Threads that disagree about the number, a number that is no
//! multiple of 32, a second arrival before the barrier opens, and barriers that never open are
//! reported.

use crate::backend;

device_functions! {
    /// Waits at barrier `id` until `threads` threads have come. `bar.sync id, threads`.
    ///
    /// `id` is below 16; `threads` is a multiple of 32; all lanes of a warp come together.
    fn sync(id: u32, threads: u32) = backend::barrier_sync(id, threads);

    /// Comes to barrier `id`, which opens at `threads` threads, without waiting. `bar.arrive id,
    /// threads`.
    ///
    /// `id` is below 16; `threads` is a multiple of 32; all lanes of a warp come together. A thread
    /// must not arrive twice before the barrier opens.
    fn arrive(id: u32, threads: u32) = backend::barrier_arrive(id, threads);
}
