//! From global memory to planes.

use cuda_std::global::Global;
use cuda_std::shared::Shared;
use cuda_std::thread;
use op_spec::launch::conv3d_multiply_instance_norm_clamp_multiply_max::warpgroup::{
    BLOCK_THREADS, OWN_UNITS, PLANE_PITCH, ROW_UNITS, UNIT_ELEMENTS,
};
use op_spec::launch::conv3d_multiply_instance_norm_clamp_multiply_max::{
    FusedGeometry, RECIPROCAL_SHIFT, ROW_PITCH,
};

/// Words of a unit in one channel.
const UNIT_WORDS: u32 = UNIT_ELEMENTS / 2;

/// A unit of each channel.
pub(super) type Unit = [[u32; 4]; 3];

/// A sample, as words, and where it goes.
#[derive(Clone, Copy)]
pub(super) struct Filler<'a> {
    /// The sample.
    pub(super) x: Global<u32>,
    /// The block's shared memory.
    pub(super) words: Shared<u32>,
    /// The first row that the block needs.
    pub(super) first_row: u32,
    /// Where the rows that it needs end.
    pub(super) end_row: u32,
    /// The geometry.
    pub(super) g: &'a FusedGeometry,
}

impl Filler<'_> {
    #[inline(always)]
    fn first(&self) -> u32 {
        self.first_row * ROW_UNITS + thread::thread_idx_x()
    }

    /// Loads this thread's units: between them, threads have the first rows first.
    #[inline(always)]
    pub(super) unsafe fn load_all(&self) -> [Unit; OWN_UNITS as usize] {
        let load = |i: u32| self.load(self.first() + i * BLOCK_THREADS, self.end_row);
        [load(0), load(1), load(2), load(3)]
    }

    /// Stores them.
    #[inline(always)]
    pub(super) unsafe fn store_all(&self, units: &[Unit; OWN_UNITS as usize]) {
        macro_rules! store {
            ($($i:literal)*) => {$(
                self.store(self.first() + $i * BLOCK_THREADS, &units[$i]);
            )*};
        }
        store!(0 1 2 3);
    }

    /// Loads this thread's unit of the sample's first rows.
    #[inline(always)]
    pub(super) unsafe fn load_first(&self) -> Unit {
        self.load(thread::thread_idx_x(), self.g.rows)
    }

    /// Loads a unit. Behind the last one of the rows before `end`, that one.
    #[inline(always)]
    unsafe fn load(&self, unit: u32, end: u32) -> Unit {
        let last = (end * ROW_UNITS).max(1) - 1;
        let at = (unit.min(last) * UNIT_WORDS) as usize;
        let channel = self.g.channel_elements() / 2;
        let load = |c: usize| self.x.load_vec_readonly::<4>(c * channel + at);
        [load(0), load(1), load(2)]
    }

    #[inline(always)]
    unsafe fn store(&self, unit: u32, raw: &Unit) {
        if unit >= self.end_row * ROW_UNITS {
            return;
        }
        let g = self.g;
        let row = unit / ROW_UNITS;
        let d = (row * g.height_reciprocal) >> RECIPROCAL_SHIFT;
        let column = unit % ROW_UNITS * UNIT_ELEMENTS;
        let at = d * g.slice_words + (row - d * g.height) * ROW_PITCH + column;
        macro_rules! pixels {
            ($($i:literal)*) => {$(
                let (c0, c1) = (raw[0][$i], raw[1][$i]);
                self.words.store(at + 2 * $i, (c0 & 0xffff) | (c1 << 16));
                self.words.store(at + 2 * $i + 1, (c0 >> 16) | (c1 & 0xffff_0000));
                self.words.store(at + 2 * $i + PLANE_PITCH, raw[2][$i]);
            )*};
        }
        pixels!(0 1 2 3);
    }
}
