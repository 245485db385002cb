//! `max_pool2d` and the fusions that end in it.
//!
//! A thread computes *tasks*. For 3x3 windows with a row stride of 2, the most common overlapping windows, a
//! task is a *stack*: [`OUTPUTS_PER_THREAD`] outputs of one column, one above the other, whose windows share
//! rows. For all other windows a task is one output, and a thread computes [`OUTPUTS_PER_THREAD`] of them,
//! which puts the loads of several windows in flight. They are [`BLOCK_THREADS`] outputs apart in the
//! flattened output; the windows of a warp are therefore neighbours.

use super::LaunchShape;
use super::norm::{ENOUGH_BLOCKS, FAR, NormGeometry};
use super::reciprocal::Reciprocal;
use crate::mode::mode;

/// Threads of a block.
pub const BLOCK_THREADS: u32 = 256;

/// Minimum resident blocks per multiprocessor (launch bounds).
pub const MIN_BLOCKS: u32 = 4;

/// Minimum resident blocks of the kernel that scales before it pools. One more block would leave too few
/// registers on some architectures.
pub const SCALED_MIN_BLOCKS: u32 = 3;

/// Windows that a thread reduces.
pub const OUTPUTS_PER_THREAD: usize = 4;

/// Consecutive outputs of a block without stacks.
pub const BLOCK_OUTPUTS: usize = BLOCK_THREADS as usize * OUTPUTS_PER_THREAD;

/// Rows and columns of the windows of a stack.
pub const STACK_WINDOW: u32 = 3;
/// Rows between the windows of a stack.
pub const STACK_STRIDE: u32 = 2;

/// The maximum number of stacks of a thread.
pub const MAX_STACKS: u64 = 4;

mode! {
    /// The kind of a thread's tasks.
    pub PoolTask {
        /// One output.
        OUTPUT = 0,
        /// A stack of [`OUTPUTS_PER_THREAD`] outputs.
        STACK = 1,
    }
}

impl PoolTask {
    /// Whether tasks are stacks.
    #[must_use]
    #[inline(always)]
    pub const fn is_stack(self) -> bool {
        self.0 != Self::OUTPUT.0
    }
}

/// A 2-D pool of planes of `h * w` to planes of `p * q`.
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
    /// The kind of the tasks.
    pub task: PoolTask,
    /// Tasks of a block.
    pub block_tasks: u32,
}

impl PoolGeometry {
    /// Returns the same pool with its derived fields.
    pub const fn planned(self) -> Self {
        // In the padding, the stack's loop reads the nearest row or column of the input. With at most one
        // element of padding and no dilation, that row or column is in the window anyway.
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
        // A thread computes its stacks one after the other. More stacks amortise the prologue of a block.
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

    /// Number of tasks of a plane: stacks, or outputs.
    pub const fn plane_tasks(&self) -> u64 {
        let rows = if self.task.is_stack() {
            self.p.div_ceil(OUTPUTS_PER_THREAD as u32)
        } else {
            self.p
        };
        rows as u64 * self.q as u64
    }

    /// The launch of a pooling kernel.
    pub const fn shape(&self) -> Option<LaunchShape> {
        let tasks = self.planes * self.plane_tasks();
        LaunchShape::linear(tasks.div_ceil(self.block_tasks as u64), BLOCK_THREADS)
    }

    /// The launch of a kernel that normalises before it pools.
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
