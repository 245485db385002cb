//! Loads the input: from global memory to planes in shared memory.

use cuda_std::global::Global;
use cuda_std::shared::Shared;
use cuda_std::thread;
use launch_config::one_launch::conv3d_multiply_instance_norm_clamp_multiply_max::warpgroup::{
    BLOCK_THREADS, LOAD_ELEMENTS, OWN_LOADS, PLANE_PITCH, ROW_LOADS,
};
use launch_config::one_launch::conv3d_multiply_instance_norm_clamp_multiply_max::{
    OneLaunch3dGeometry, RECIPROCAL_SHIFT, ROW_PITCH,
};

use crate::parts::unroll::unroll;

/// Words of a load in one channel.
const LOAD_WORDS: u32 = LOAD_ELEMENTS / 2;

/// One load: [`LOAD_ELEMENTS`] elements of each channel.
pub(super) type Load = [[u32; 4]; 3];

/// The loader of a sample, as words.
#[derive(Clone, Copy)]
pub(super) struct Filler<'a> {
    /// The sample.
    pub(super) x: Global<u32>,
    /// The block's shared memory.
    pub(super) words: Shared<u32>,
    /// The first row that the block needs.
    pub(super) first_row: u32,
    /// The end of the rows that the block needs.
    pub(super) end_row: u32,
    /// The geometry.
    pub(super) g: &'a OneLaunch3dGeometry,
}

impl Filler<'_> {
    #[inline(always)]
    fn first(&self) -> u32 {
        self.first_row * ROW_LOADS + thread::thread_idx_x()
    }

    /// Issues this thread's loads. Over all threads, the first rows come first.
    #[inline(always)]
    pub(super) unsafe fn load_all(&self) -> [Load; OWN_LOADS as usize] {
        let load = |i: u32| self.load(self.first() + i * BLOCK_THREADS, self.end_row);
        [load(0), load(1), load(2), load(3)]
    }

    /// Stores the loads to the planes.
    #[inline(always)]
    pub(super) unsafe fn store_all(&self, loads: &[Load; OWN_LOADS as usize]) {
        unroll!(4, |i| {
            self.store(self.first() + i as u32 * BLOCK_THREADS, &loads[i]);
        });
    }

    /// Issues this thread's load of the sample's first rows.
    #[inline(always)]
    pub(super) unsafe fn load_first(&self) -> Load {
        self.load(thread::thread_idx_x(), self.g.rows)
    }

    /// Issues load `index`. A load past row `end` repeats the last load before it.
    #[inline(always)]
    unsafe fn load(&self, index: u32, end: u32) -> Load {
        let last = (end * ROW_LOADS).max(1) - 1;
        let at = (index.min(last) * LOAD_WORDS) as usize;
        let channel = self.g.channel_elements() / 2;
        let load = |c: usize| self.x.load_vec_readonly::<4>(c * channel + at);
        [load(0), load(1), load(2)]
    }

    #[inline(always)]
    unsafe fn store(&self, index: u32, raw: &Load) {
        if index >= self.end_row * ROW_LOADS {
            return;
        }
        let g = self.g;
        let row = index / ROW_LOADS;
        let d = (row * g.height_reciprocal) >> RECIPROCAL_SHIFT;
        let column = index % ROW_LOADS * LOAD_ELEMENTS;
        let at = d * g.slice_words + (row - d * g.height) * ROW_PITCH + column;
        unroll!(4, |i| {
            let at = at + 2 * i as u32;
            let (c0, c1) = (raw[0][i], raw[1][i]);
            self.words.store(at, (c0 & 0xffff) | (c1 << 16));
            self.words.store(at + 1, (c0 >> 16) | (c1 & 0xffff_0000));
            self.words.store(at + PLANE_PITCH, raw[2][i]);
        });
    }
}
