//! The loop of every kernel that takes the maximum over channels.
//!
//! A thread follows four positions through its channels, four channels at a time, so that sixteen
//! loads are in flight. Positions are one vector where the planes allow it, else a block's width
//! apart. If the block's threads divide the channels among them (see
//! `op_spec::launch::channel_max`), their maxima meet in shared memory at the end.

use cuda_std::Storage;
use cuda_std::global::{Global, GlobalMut};
use cuda_std::shared::Shared;
use cuda_std::{math, thread};
use op_spec::launch::channel_max::{
    BLOCK_THREADS, ChannelMaxGeometry, POSITIONS_PER_THREAD, STAGED_CHANNELS,
};

use crate::parts::index::{div_rem, div_rem_u64};
use crate::parts::unroll::unroll;

/// Elements of the shared memory in which slices meet.
pub(crate) const MEETING_ELEMENTS: usize = BLOCK_THREADS as usize * POSITIONS_PER_THREAD;

/// A function of an element and its channel.
pub(crate) trait ChannelMap {
    /// What the elements of one channel share.
    type Params: Copy;

    /// Prepares `count` channels of sample `sample`, from channel `first` on.
    ///
    /// # Safety
    /// All threads of the block call it together; `count <= STAGED_CHANNELS`.
    unsafe fn stage(&self, sample: u64, first: u32, count: u32);

    /// The parameters of channel `first + local`, `first` being the first one staged.
    ///
    /// # Safety
    /// The channel is staged.
    unsafe fn params(&self, first: u32, local: u32) -> Self::Params;

    /// The mapped element.
    fn apply(&self, params: Self::Params, x: f32) -> f32;
}

/// The positions of a thread, four of them.
#[derive(Clone, Copy)]
struct Positions {
    /// The first one.
    first: u64,
    /// From one to the next: 1 if they are one vector.
    step: u64,
    /// Positions of a plane.
    end: u64,
}

impl Positions {
    /// Loads the thread's elements of the plane that starts at `plane`. A position past the end
    /// gives some other element of the plane.
    #[inline(always)]
    unsafe fn load<T: Storage>(self, x: Global<T>, plane: u64) -> [T; POSITIONS_PER_THREAD] {
        if self.step == 1 {
            let first = self.first.min(self.end - POSITIONS_PER_THREAD as u64);
            return x.load_vec((plane + first) as usize);
        }
        let mut values = [T::from_f32(0.0); POSITIONS_PER_THREAD];
        unroll!(4, |i| {
            let position = (self.first + i as u64 * self.step).min(self.end - 1);
            values[i] = x.load((plane + position) as usize);
        });
        values
    }

    /// Stores the thread's elements of the plane that starts at `plane`, those past the end not.
    #[inline(always)]
    unsafe fn store<T: Storage>(
        self,
        y: GlobalMut<T>,
        plane: u64,
        values: [f32; POSITIONS_PER_THREAD],
    ) {
        let mut stored = [T::from_f32(0.0); POSITIONS_PER_THREAD];
        unroll!(4, |i| {
            stored[i] = T::from_f32(values[i]);
        });
        if self.step == 1 {
            if self.first < self.end {
                y.store_vec((plane + self.first) as usize, stored);
            }
            return;
        }
        unroll!(4, |i| {
            let position = self.first + i as u64 * self.step;
            if position < self.end {
                y.store((plane + position) as usize, stored[i]);
            }
        });
    }
}

/// Takes the maximum over all channels at the block's positions.
///
/// # Safety
/// All threads of the block call it. `x` has `g.n * g.channels` planes of `g.spatial` elements and
/// `y` has `g.n`; both start on 16 bytes, and the extents are positive. `meeting` has
/// [`MEETING_ELEMENTS`] that nobody else uses.
#[inline(always)]
pub(crate) unsafe fn channel_reduce_block<T: Storage, M: ChannelMap>(
    x: *const T,
    y: *mut T,
    g: &ChannelMaxGeometry,
    map: M,
    meeting: Shared<f32>,
) {
    let x = Global::new(x, (g.n * g.channels as u64 * g.spatial) as usize);
    let y = GlobalMut::new(y, (g.n * g.spatial) as usize);
    let thread = thread::thread_idx_x();
    let (slice, lane) = div_rem(thread, g.lanes);

    let block_positions = g.block_positions();
    let (tiles, _) = div_rem_u64(g.spatial + block_positions - 1, block_positions);
    let (sample, tile) = div_rem_u64(thread::block_idx_x() as u64, tiles);
    let tile_start = tile * block_positions;
    let positions = if g.spatial.is_multiple_of(POSITIONS_PER_THREAD as u64) {
        Positions {
            first: tile_start + lane as u64 * POSITIONS_PER_THREAD as u64,
            step: 1,
            end: g.spatial,
        }
    } else {
        Positions {
            first: tile_start + lane as u64,
            step: g.lanes as u64,
            end: g.spatial,
        }
    };

    let mut maxima = [f32::NEG_INFINITY; POSITIONS_PER_THREAD];
    let mut first = 0;
    while first < g.channels {
        let count = (g.channels - first).min(STAGED_CHANNELS);
        map.stage(sample, first, count);
        let plane =
            |channel: u32| (sample * g.channels as u64 + (first + channel) as u64) * g.spatial;
        let mut channel = slice;
        while channel + 3 * g.slices < count {
            let mut values = [[T::from_f32(0.0); POSITIONS_PER_THREAD]; 4];
            unroll!(4, |c| {
                values[c] = positions.load(x, plane(channel + c as u32 * g.slices));
            });
            unroll!(4, |c| {
                let params = map.params(first, channel + c as u32 * g.slices);
                unroll!(4, |i| {
                    let mapped = map.apply(params, values[c][i].to_f32());
                    maxima[i] = math::max_nan(maxima[i], mapped);
                });
            });
            channel += 4 * g.slices;
        }
        while channel < count {
            let values = positions.load(x, plane(channel));
            let params = map.params(first, channel);
            unroll!(4, |i| {
                let mapped = map.apply(params, values[i].to_f32());
                maxima[i] = math::max_nan(maxima[i], mapped);
            });
            channel += g.slices;
        }
        first += count;
    }

    // Equal in all threads, so the barrier is met by all or none.
    if g.slices > 1 {
        const VECTOR: u32 = POSITIONS_PER_THREAD as u32;
        meeting.store_vec(thread * VECTOR, maxima);
        thread::sync_threads();
        if slice > 0 {
            return;
        }
        let mut other = thread + g.lanes;
        while other < BLOCK_THREADS {
            let theirs = meeting.load_vec::<POSITIONS_PER_THREAD>(other * VECTOR);
            unroll!(4, |i| {
                maxima[i] = math::max_nan(maxima[i], theirs[i]);
            });
            other += g.lanes;
        }
    }
    positions.store(y, sample * g.spatial, maxima);
}
