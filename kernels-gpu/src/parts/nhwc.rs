//! Thread places and input rows for kernels that slide windows over channels-last tensors.
//!
//! A thread has a vector of channels and computes runs of outputs, one after another; `launch_config::nhwc`
//! defines runs. Neighbouring threads have neighbouring vectors, then neighbouring runs.

use cuda_std::global::Global;
use cuda_std::{Storage, thread};
use launch_config::VECTOR_ELEMENTS;
use launch_config::nhwc::RunBlocks;

use super::index::div_rem;

/// Values of neighbouring channels.
pub(crate) type Vector = [f32; VECTOR_ELEMENTS];

/// The part of a tensor that a block computes.
#[derive(Clone, Copy)]
pub(crate) struct BlockPlace {
    sample: usize,
    /// The block's first channel.
    pub(crate) first_channel: u32,
    /// The block's first run, and the end of its runs.
    first_run: u32,
    end: u32,
}

impl BlockPlace {
    /// The place of the calling block.
    ///
    /// # Safety
    /// The launch is `blocks.shape()`.
    #[inline(always)]
    pub(crate) unsafe fn of(blocks: &RunBlocks) -> Self {
        let (block, of_channels) = div_rem(thread::block_idx_x(), blocks.channel_blocks);
        let (sample, of_sample) = div_rem(block, blocks.sample_blocks);
        let first_run = of_sample * blocks.block_runs;
        Self {
            sample: sample as usize,
            first_channel: of_channels * blocks.block_vectors * VECTOR_ELEMENTS as u32,
            first_run,
            // Less than 2^32: a block has less than 2^12 runs.
            end: (first_run + blocks.block_runs).min(blocks.sample_runs),
        }
    }

    /// The place of the calling thread, or `None` if its vector is past the last channel.
    ///
    /// # Safety
    /// As for [`Self::of`].
    #[inline(always)]
    pub(crate) unsafe fn of_thread(&self, blocks: &RunBlocks) -> Option<ThreadPlace> {
        let (run, vector) = div_rem(thread::thread_idx_x(), blocks.block_vectors);
        let of_block = vector * VECTOR_ELEMENTS as u32;
        let channel = self.first_channel + of_block;
        if channel >= blocks.channels {
            return None;
        }
        Some(ThreadPlace {
            sample: self.sample,
            channel,
            of_block,
            first_run: self.first_run + run,
            end: self.end,
        })
    }
}

/// The channels and runs of a thread.
#[derive(Clone, Copy)]
pub(crate) struct ThreadPlace {
    sample: usize,
    /// The thread's first channel, and the index of that channel in the block.
    pub(crate) channel: u32,
    pub(crate) of_block: u32,
    /// The thread's first run; its other runs follow at steps of `round_runs`, up to `end`.
    pub(crate) first_run: u32,
    pub(crate) end: u32,
}

impl ThreadPlace {
    /// The start and length of row `row` of the sample, counted from the thread's first channel. Rows have
    /// `columns` pixels, and a sample has `rows` rows.
    #[inline(always)]
    pub(crate) fn of_row(&self, channels: u32, rows: u32, row: u32, columns: u32) -> [usize; 2] {
        // `RunBlocks::new` checks that the product fits 32 bits.
        let elements = (columns * channels) as usize;
        let row = self.sample * rows as usize + row as usize;
        let channel = self.channel as usize;
        [row * elements + channel, elements - channel]
    }
}

/// A run of outputs.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    /// Slice, row and column of the run's first output.
    pub(crate) output: [u32; 3],
    /// Slice, row and column of the first element of that output's window. A negative position, in the
    /// padding, wraps around.
    pub(crate) input: [u32; 3],
    /// The number of its outputs that exist in the row.
    pub(crate) len: u32,
}

impl Run {
    /// Run `number` of a sample, for outputs of the extents `output`.
    ///
    /// # Safety
    /// The extents are those of `blocks`, and `number` is less than `blocks.sample_runs`.
    #[inline(always)]
    pub(crate) unsafe fn of(
        blocks: &RunBlocks,
        number: u32,
        &[_, p, q]: &[u32; 3],
        stride: &[u32; 3],
        padding: &[u32; 3],
    ) -> Self {
        let (row, of_row) = div_rem(number, blocks.row_runs);
        let (slice, row) = div_rem(row, p);
        let first = of_row * blocks.run;
        let output = [slice, row, first];
        let input = |axis: usize| (output[axis] * stride[axis]).wrapping_sub(padding[axis]);
        Self {
            output,
            input: [input(0), input(1), input(2)],
            len: blocks.run.min(q - first),
        }
    }
}

/// A row of the input, from a thread's channels on.
#[derive(Clone, Copy)]
pub(crate) struct InputRow<T> {
    values: Global<T>,
    channels: u32,
    /// Columns of the row; 0 for a row in the padding.
    pub(crate) columns: u32,
}

impl<T: Storage> InputRow<T> {
    /// Row `h` of slice `d` of the place's sample, for inputs of these extents. Negative `d` and `h` wrap
    /// around.
    ///
    /// # Safety
    /// `x` has the place's sample.
    #[inline(always)]
    pub(crate) unsafe fn of(
        x: Global<T>,
        channels: u32,
        place: &ThreadPlace,
        &[slices, rows, columns]: &[u32; 3],
        [d, h]: [u32; 2],
    ) -> Self {
        let is_row = d < slices && h < rows;
        let row = if is_row { d * rows + h } else { 0 };
        let [start, len] = place.of_row(channels, slices * rows, row, columns);
        Self {
            values: x.slice(start, len),
            channels,
            columns: if is_row { columns } else { 0 },
        }
    }

    /// The values of column `w`.
    ///
    /// # Safety
    /// `w` is less than `self.columns`.
    #[inline(always)]
    pub(crate) unsafe fn load(&self, w: u32) -> Vector {
        T::to_f32_vector(self.load_vec(w))
    }

    /// The values of column `w` in their storage type.
    ///
    /// # Safety
    /// As for [`Self::load`].
    #[inline(always)]
    pub(crate) unsafe fn load_vec(&self, w: u32) -> [T; VECTOR_ELEMENTS] {
        self.values.load_vec_readonly((w * self.channels) as usize)
    }

    /// The values of column `w`, or `outside` for a column in the padding. Negative columns wrap around.
    ///
    /// # Safety
    /// The tensor's values do not change during the kernel.
    #[inline(always)]
    pub(crate) unsafe fn load_or(&self, w: u32, outside: f32) -> Vector {
        if w < self.columns {
            self.load(w)
        } else {
            [outside; VECTOR_ELEMENTS]
        }
    }
}
