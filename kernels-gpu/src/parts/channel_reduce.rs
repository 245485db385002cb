//! The loop of every kernel that reduces channels.
//!
//! A thread reduces four positions over its channels, four channels at a time, so that sixteen loads are in
//! flight. The positions are one vector where planes are vector-aligned, else a block's width apart. If the
//! block's threads divide the channels among them (see `launch_config::channel_reduction`), their results are
//! combined in shared memory at the end.

use cuda_std::Storage;
use cuda_std::global::{Global, GlobalMut};
use cuda_std::shared::Shared;
use cuda_std::thread;
use launch_config::channel_reduction::{
    BLOCK_THREADS, ChannelReductionGeometry, POSITIONS_PER_THREAD, STAGED_CHANNELS,
};

use crate::parts::index::div_rem;
use crate::parts::reduction_operations::ReductionOperation;
use crate::parts::unroll::unroll;

/// Elements of shared memory for the results of all slices.
pub(crate) const SCRATCH_ELEMENTS: usize = BLOCK_THREADS as usize * POSITIONS_PER_THREAD;

/// A function of an element and its channel's parameters.
pub(crate) trait ChannelMap {
    /// Parameters of one channel.
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

/// Reduces a slice of the staged channels. `load` takes the first element of a plane and loads the thread's
/// elements of that plane.
///
/// The caller chooses between vector and scalar `load`s. Inside this loop, the choice would take more
/// instructions than the reduction.
///
/// # Safety
/// The channels `first..first + count` are staged. `load` may load their planes, of which the first starts at
/// `plane`.
#[inline(always)]
unsafe fn reduce_staged<O: ReductionOperation, T: Storage, M: ChannelMap>(
    g: &ChannelReductionGeometry,
    map: &M,
    [first, count]: [u32; 2],
    slice: u32,
    plane: usize,
    results: &mut [O::State; POSITIONS_PER_THREAD],
    load: impl Fn(usize) -> [T; POSITIONS_PER_THREAD],
) {
    let step = g.slices as usize * g.spatial as usize;
    let mut plane = plane + slice as usize * g.spatial as usize;
    let mut channel = slice;
    while channel + 3 * g.slices < count {
        let mut values = [[T::from_f32(0.0); POSITIONS_PER_THREAD]; 4];
        unroll!(4, |c| {
            values[c] = load(plane + c * step);
        });
        let mut mapped = [[0.0; 4]; POSITIONS_PER_THREAD];
        unroll!(4, |c| {
            let params = map.params(first, channel + c as u32 * g.slices);
            let x = T::to_f32_vector(values[c]);
            unroll!(4, |i| {
                mapped[i][c] = map.apply(params, x[i]);
            });
        });
        unroll!(4, |i| {
            results[i] = O::and_values(results[i], mapped[i]);
        });
        plane += 4 * step;
        channel += 4 * g.slices;
    }
    while channel < count {
        let params = map.params(first, channel);
        let x = T::to_f32_vector(load(plane));
        unroll!(4, |i| {
            let mapped = map.apply(params, x[i]);
            results[i] = O::and_value(results[i], mapped);
        });
        plane += step;
        channel += g.slices;
    }
}

/// The output elements of a thread.
pub(crate) struct Place {
    /// Elements of the output.
    len: usize,
    /// The first output element of the thread's sample, and the number of a sample's outputs.
    plane: usize,
    spatial: usize,
    /// The thread's first position, and the stride of its positions.
    position: usize,
    step: usize,
    /// Whether the positions are a vector.
    in_one: bool,
}

impl Place {
    /// Stores the thread's results in `y`, rounded.
    ///
    /// # Safety
    /// `y` has the output's elements and is 16-byte aligned.
    #[inline(always)]
    pub(crate) unsafe fn store<T: Storage>(&self, y: *mut T, results: [f32; POSITIONS_PER_THREAD]) {
        let y = GlobalMut::new(y, self.len);
        let stored = T::from_f32_vector(results);
        if self.in_one {
            if self.position < self.spatial {
                y.store_vec(self.plane + self.position, stored);
            }
            return;
        }
        unroll!(4, |i| {
            let position = self.position + i * self.step;
            if position < self.spatial {
                y.store(self.plane + position, stored[i]);
            }
        });
    }
}

/// Reduces all channels at the block's positions, and calls `store` in the threads that hold results.
///
/// # Safety
/// All threads of the block call it. `x` has `g.n * g.channels` planes of `g.spatial` elements and is 16-byte
/// aligned, and the extents are positive. `scratch` has [`SCRATCH_ELEMENTS`] elements that nothing else uses.
#[inline(always)]
pub(crate) unsafe fn channel_reduce_block<O: ReductionOperation, T: Storage, M: ChannelMap>(
    x: *const T,
    g: &ChannelReductionGeometry,
    map: M,
    scratch: Shared<f32>,
    store: impl FnOnce(Place, [f32; POSITIONS_PER_THREAD]),
) {
    let x = Global::new(x, (g.n * g.channels as u64 * g.spatial) as usize);
    let spatial = g.spatial as usize;
    let thread = thread::thread_idx_x();
    let (slice, lane) = div_rem(thread, g.lanes);
    let (sample, tile) = div_rem(thread::block_idx_x(), g.tiles);
    let tile_start = tile as usize * g.block_positions() as usize;

    // Uniform over the launch: where planes are whole vectors, a thread's positions are one vector.
    let in_one = spatial.is_multiple_of(POSITIONS_PER_THREAD);
    let (position, step) = if in_one {
        (tile_start + lane as usize * POSITIONS_PER_THREAD, 1)
    } else {
        (tile_start + lane as usize, g.lanes as usize)
    };
    // Positions past the end load an existing element, and are not stored.
    let vector = position.min(spatial.wrapping_sub(POSITIONS_PER_THREAD));
    let mut apart = [0; POSITIONS_PER_THREAD];
    unroll!(4, |i| {
        apart[i] = (position + i * step).min(spatial - 1);
    });

    let mut results = [O::NONE; POSITIONS_PER_THREAD];
    let mut first = 0;
    while first < g.channels {
        let count = (g.channels - first).min(STAGED_CHANNELS);
        map.stage(sample as u64, first, count);
        let plane = (sample as usize * g.channels as usize + first as usize) * spatial;
        let staged = [first, count];
        if in_one {
            reduce_staged::<O, _, _>(g, &map, staged, slice, plane, &mut results, |plane| {
                x.load_vec(plane + vector)
            });
        } else {
            reduce_staged::<O, _, _>(g, &map, staged, slice, plane, &mut results, |plane| {
                apart.map(|position| x.load(plane + position))
            });
        }
        first += count;
    }

    // Uniform over the block, so either all threads reach the barrier or none.
    if g.slices > 1 {
        const VECTOR: u32 = POSITIONS_PER_THREAD as u32;
        scratch.store_vec(thread * VECTOR, results.map(O::partial));
        thread::sync_threads();
        if slice > 0 {
            return;
        }
        let mut other = thread + g.lanes;
        while other < BLOCK_THREADS {
            let theirs = scratch.load_vec::<POSITIONS_PER_THREAD>(other * VECTOR);
            unroll!(4, |i| {
                results[i] = O::and_partial(results[i], theirs[i]);
            });
            other += g.lanes;
        }
    }
    let place = Place {
        len: g.n as usize * spatial,
        plane: sample as usize * spatial,
        spatial,
        position,
        step,
        in_one,
    };
    store(place, results.map(|result| O::finish(result, g.divisor)));
}
