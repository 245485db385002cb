//! Split-K: the reduction of accumulators over the blocks of a cluster, through distributed shared memory.
//!
//! Each warp has a share of the tile's accumulators over its block's K blocks. The warps with the same index
//! in all blocks have shares of the same results. One of them, the *owner*, finishes the results; the warp
//! index determines the owner's block. The other warps send their accumulators to the owner in the layout of
//! registers, four at a time for each thread, so neither side has bank conflicts.
//!
//! # Order
//! In a cluster of four, blocks whose ranks differ in the last bit form a pair. Accumulators are added within
//! each pair, then the pairs are added: the same bits whichever block is the owner.
//!
//! # Barriers
//! Each warp has two transaction barriers, of which its block uses one. `exchange_full`, in the owner's
//! block: the other warps arrive when their accumulators are stored. `exchange_empty`, in the other blocks:
//! the owner arrives when it has read the accumulators, so the other warps may send those of the next tile.
//! All barriers are initialised before any block sends. The owner does not arrive at `exchange_empty` after
//! the last tile. Therefore each block waits for all arrivals and stores that it receives, and blocks may end
//! independently.

use cuda_std::mbarrier::Barrier;
use cuda_std::{cluster, opaque, thread, warp};
use launch_config::WARP_THREADS;
use launch_config::implicit_gemm::ImplicitGemmGeometry;
use launch_config::implicit_gemm::sm90::{MainloopConfig, WARPS};

use super::{Memory, rank};
use crate::parts::unroll::unroll;

/// Words that a warp writes with one store of each lane.
const LANES_WORDS: u32 = 4 * WARP_THREADS;

impl Memory {
    /// The barrier in the owner's block: the accumulators of the other blocks' warps with this index have
    /// arrived.
    #[inline(always)]
    fn exchange_full(&self, warp: u32) -> Barrier {
        let at = self.first_of_warps() + 2 * opaque::to_compiler(warp);
        Barrier::at(self.barriers, at)
    }

    /// The barrier in the other blocks: the owner has read the accumulators, so the buffer is free.
    #[inline(always)]
    fn exchange_empty(&self, warp: u32) -> Barrier {
        let at = self.first_of_warps() + 2 * opaque::to_compiler(warp) + 1;
        Barrier::at(self.barriers, at)
    }

    #[inline(always)]
    fn first_of_warps(&self) -> u32 {
        2 * (self.mainloop.halos + self.mainloop.filters)
    }

    /// Initialises the barriers of the exchange.
    #[inline(always)]
    pub(super) unsafe fn init_exchange(&self) {
        let mut warp = 0;
        while warp < WARPS {
            opaque::not_unrolled();
            self.exchange_full(warp).init(self.mainloop.split_k - 1);
            self.exchange_empty(warp).init(1);
            warp = opaque::to_compiler(warp + 1);
        }
        cluster::fence_barriers();
    }
}

/// Reduces a warp's accumulators over the blocks of the cluster. The owner adds the other warps' accumulators
/// to its `sums` and gets `true`; the others send theirs to the owner and get `false`. `number` is the number
/// of earlier tiles, and `parity` its parity.
///
/// # Safety
/// All lanes of the warp make this call together, and so do the warps with its index in all blocks of the
/// cluster, the same number of times. The barriers are initialised.
#[inline(always)]
pub(super) unsafe fn is_owner<const SUMS: usize>(
    g: &ImplicitGemmGeometry,
    memory: &Memory,
    parity: u32,
    number: u32,
    sums: &mut [f32; SUMS],
) -> bool {
    // Recomputed here; kept values derived from it would take registers during the mainloop.
    let thread = opaque::to_compiler(thread::thread_idx_x());
    let g = ImplicitGemmGeometry {
        offsets: opaque::to_compiler(g.offsets),
        ..*g
    };
    let mainloop = memory.mainloop;
    let mainloop = MainloopConfig {
        tiles: opaque::to_compiler(mainloop.tiles),
        split_k: opaque::to_compiler(mainloop.split_k),
        halos: opaque::to_compiler(mainloop.halos),
        staged: opaque::to_compiler(mainloop.staged),
        ..mainloop
    };
    let memory = Memory::of(&g, mainloop, memory.format);
    let (warp, lane) = (thread / WARP_THREADS, thread % WARP_THREADS);
    let owner = warp * mainloop.split_k / WARPS;
    let rank = rank(mainloop.split_k);
    // The position, in the owner's buffer, of this lane's first four accumulators from block `rank`.
    let place = |rank: u32| {
        let of_owner = warp & (mainloop.finishing_warps() - 1);
        let sent = of_owner * (mainloop.split_k - 1) + (rank ^ owner) - 1;
        sent * (SUMS as u32 * WARP_THREADS) + 4 * lane
    };
    if rank != owner {
        let first = place(rank);
        // The phase of parity 1 of a new barrier counts as complete, so the buffer is free at first.
        cluster::wait(memory.exchange_empty(warp), parity ^ 1);
        unroll!(2, |half| {
            if half < SUMS / 64 {
                unroll!(16, |i| {
                    let at = 64 * half + 4 * i;
                    let four = [sums[at], sums[at + 1], sums[at + 2], sums[at + 3]];
                    let to = first + (16 * half + i) as u32 * LANES_WORDS;
                    cluster::store_vec(memory.exchange, to, owner, four);
                });
            }
        });
        warp::sync_warp(warp::ALL_LANES);
        if lane == 0 {
            cluster::arrive_at(memory.exchange_full(warp), owner);
        }
        return false;
    }
    cluster::wait(memory.exchange_full(warp), parity);
    let partner = place(owner ^ 1);
    unroll!(2, |half| {
        if half < SUMS / 64 {
            unroll!(16, |i| {
                // The warp barrier keeps the compiler from moving loads up, which would take too many
                // registers.
                if i % 4 == 0 {
                    warp::sync_warp(warp::ALL_LANES);
                }
                let from = partner + (16 * half + i) as u32 * LANES_WORDS;
                let theirs = memory.exchange.load_vec::<4>(from);
                unroll!(4, |j| {
                    sums[64 * half + 4 * i + j] += theirs[j];
                });
            });
        }
    });
    if mainloop.split_k == 4 {
        let pair = [place(owner ^ 2), place(owner ^ 3)];
        unroll!(2, |half| {
            if half < SUMS / 64 {
                unroll!(16, |i| {
                    // As above.
                    if i % 2 == 0 {
                        warp::sync_warp(warp::ALL_LANES);
                    }
                    let from = |sent: u32| sent + (16 * half + i) as u32 * LANES_WORDS;
                    let one = memory.exchange.load_vec::<4>(from(pair[0]));
                    let other = memory.exchange.load_vec::<4>(from(pair[1]));
                    unroll!(4, |j| {
                        sums[64 * half + 4 * i + j] += one[j] + other[j];
                    });
                });
            }
        });
    }
    warp::sync_warp(warp::ALL_LANES);
    let warp = opaque::to_compiler(thread::thread_idx_x()) / WARP_THREADS;
    if lane == 0 && memory.has_tile(number + 1) {
        let mut other = 0;
        while other < mainloop.split_k {
            opaque::not_unrolled();
            if other != owner {
                cluster::arrive_at(memory.exchange_empty(warp), other);
            }
            other = opaque::to_compiler(other + 1);
        }
    }
    true
}
