//! `max_pool2d` and the fusions that end in it.
//!
//! A thread computes *tasks*. Where windows are 3x3 with a row stride of 2, the most common overlapping
//! windows, a task is a *stack*: [`OUTPUTS_PER_THREAD`] outputs of one column, one above the other, whose
//! windows share rows. Elsewhere a task is an output, and a thread computes [`OUTPUTS_PER_THREAD`] of them
//! side by side, so that the loads of several windows are in flight. They are a block's width apart in the
//! flattened output, so a warp's windows are neighbours.

use super::LaunchShape;
use super::norm::{ENOUGH_BLOCKS, FAR, NormGeometry};
use super::reciprocal::Reciprocal;
use crate::mode::mode;

/// Threads of a block.
pub const BLOCK_THREADS: u32 = 256;

/// Blocks that a multiprocessor should hold.
pub const MIN_BLOCKS: u32 = 4;

/// Blocks of the kernel that scales before it pools. One more would leave too few registers on some
/// architectures.
pub const SCALED_MIN_BLOCKS: u32 = 3;

/// Windows that a thread reduces.
pub const OUTPUTS_PER_THREAD: usize = 4;

/// Outputs of a block, consecutive ones, where threads take no stacks.
pub const BLOCK_OUTPUTS: usize = BLOCK_THREADS as usize * OUTPUTS_PER_THREAD;

/// Rows and columns of the windows of a stack.
pub const STACK_WINDOW: u32 = 3;
/// Rows between the windows of a stack.
pub const STACK_STRIDE: u32 = 2;

/// Stacks that a thread takes at most.
pub const MAX_STACKS: u64 = 4;

mode! {
    /// A task of a thread.
    pub PoolTask {
        /// One output.
        OUTPUT = 0,
        /// A stack of [`OUTPUTS_PER_THREAD`] outputs.
        STACK = 1,
    }
}

impl PoolTask {
    /// Whether it is a stack.
    #[must_use]
    #[inline(always)]
    pub const fn is_stack(self) -> bool {
        self.0 != Self::OUTPUT.0
    }
}

/// A 2-D pool over planes of `h * w` that gives planes of `p * q`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolGeometry {
    /// Planes: samples times channels.
    pub planes: u64,
    /// Channels of a sample.
    pub channels: u32,
    /// Input rows.
    pub h: u32,
    /// Input columns.
    pub w: u32,
    /// Output rows.
    pub p: u32,
    /// Output columns.
    pub q: u32,
    /// Window rows.
    pub r: u32,
    /// Window columns.
    pub s: u32,
    /// Rows between windows.
    pub stride_h: u32,
    /// Columns between windows.
    pub stride_w: u32,
    /// Rows of padding above the input.
    pub pad_h: u32,
    /// Columns of padding left of the input.
    pub pad_w: u32,
    /// Rows between the elements of a window.
    pub dilation_h: u32,
    /// Columns between the elements of a window.
    pub dilation_w: u32,
    /// Reciprocal of the output columns.
    pub columns: Reciprocal,
    /// Reciprocal of the tasks of a plane, at most [`FAR`]; see `ApplyGeometry`.
    pub near: Reciprocal,
    /// The tasks of threads.
    pub task: PoolTask,
    /// Tasks of a block.
    pub block_tasks: u32,
}

impl PoolGeometry {
    /// The same pool with its derived fields computed.
    pub const fn planned(self) -> Self {
        // In place of a row or column in the padding, the stack's loop takes the nearest one of the input.
        // With this little padding and no dilation, that one is in the window anyway.
        let stacked = self.r == STACK_WINDOW
            && self.s == STACK_WINDOW
            && self.stride_h == STACK_STRIDE
            && self.dilation_h == 1
            && self.dilation_w == 1
            && self.pad_h <= 1
            && self.pad_w <= 1
            && self.p as usize >= OUTPUTS_PER_THREAD;
        let planned = Self {
            columns: Reciprocal::of(self.q),
            task: if stacked {
                PoolTask::STACK
            } else {
                PoolTask::OUTPUT
            },
            ..self
        };
        let tasks = planned.plane_tasks();
        let near = if tasks < FAR as u64 {
            tasks as u32
        } else {
            FAR
        };
        // A thread takes stacks one after the other. More stacks share the prologue of a block.
        let most = self.planes * tasks / (BLOCK_THREADS as u64 * ENOUGH_BLOCKS);
        let stacks = match most {
            0 => 1,
            1..MAX_STACKS => most as u32,
            _ => MAX_STACKS as u32,
        };
        Self {
            near: Reciprocal::of(near),
            block_tasks: if stacked {
                stacks * BLOCK_THREADS
            } else {
                BLOCK_OUTPUTS as u32
            },
            ..planned
        }
    }

    /// Elements of the output.
    pub const fn outputs(&self) -> u64 {
        self.planes * self.p as u64 * self.q as u64
    }

    /// Tasks of a plane: stacks, or outputs.
    pub const fn plane_tasks(&self) -> u64 {
        let rows = if self.task.is_stack() {
            self.p.div_ceil(OUTPUTS_PER_THREAD as u32)
        } else {
            self.p
        };
        rows as u64 * self.q as u64
    }

    /// Launch of a pooling kernel.
    pub const fn shape(&self) -> Option<LaunchShape> {
        let tasks = self.planes * self.plane_tasks();
        LaunchShape::linear(tasks.div_ceil(self.block_tasks as u64), BLOCK_THREADS)
    }

    /// Launch of a kernel that normalises before it pools.
    pub const fn norm_shape(&self, norm: &NormGeometry) -> Option<LaunchShape> {
        match self.shape() {
            Some(shape) => {
                let span = self.block_tasks as u64;
                Some(shape.with_shared(norm.staged_bytes(self.plane_tasks(), span)))
            }
            None => None,
        }
    }
}
