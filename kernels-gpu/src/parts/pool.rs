//! The loop of every kernel that takes the maximum over windows.
//!
//! A thread reduces four windows side by side, so that four loads are in flight at each step, and
//! neighbouring threads have neighbouring windows: what a warp leaves of a cache line its next
//! steps take from L1. Elements in the padding are not loaded and compared: their place is taken
//! by the first element of the plane, and the result of that step is dropped.

use cuda_std::Storage;
use cuda_std::global::{Global, GlobalMut};
use cuda_std::math;
use cuda_std::thread;
use op_spec::launch::elementwise::Bounds;
use op_spec::launch::max_pool2d::{BLOCK_OUTPUTS, BLOCK_THREADS, OUTPUTS_PER_THREAD, PoolGeometry};

use crate::parts::index::{Runs, div_rem};
use crate::parts::map::{ElementMap, clamp};
use crate::parts::unroll::unroll;

/// The first output of the block that is asking.
#[inline(always)]
pub(crate) fn block_start() -> u64 {
    thread::block_idx_x() as u64 * BLOCK_OUTPUTS as u64
}

/// How many outputs the block that is asking has.
///
/// # Safety
/// The block's first output exists.
#[inline(always)]
pub(crate) unsafe fn block_span(g: &PoolGeometry) -> u32 {
    (g.outputs() - block_start()).min(BLOCK_OUTPUTS as u64) as u32
}

/// One window of a thread.
#[derive(Clone, Copy)]
struct Window {
    /// Index of the plane's first element.
    plane: usize,
    /// Row and column of the window's first element; below zero, wrapped, in the padding.
    h: u32,
    w: u32,
}

/// Clamps the maxima of the mapped elements of the block's windows.
///
/// # Safety
/// `x` has `g.planes` planes of `g.h * g.w` elements, `y` as many of `g.p * g.q`; the extents are
/// positive and the planes have less than 2^31 elements; each window has an element in the input;
/// `map` counts in outputs from the block's first one on.
#[inline(always)]
pub(crate) unsafe fn pool_block<T: Storage, M: ElementMap>(
    x: *const T,
    y: *mut T,
    g: &PoolGeometry,
    map: M,
    bounds: Bounds,
) {
    let plane_elements = g.h * g.w;
    let x = Global::new(x, g.planes as usize * plane_elements as usize);
    let y = GlobalMut::new(y, g.outputs() as usize);
    let start = block_start();
    let span = block_span(g);
    let planes = Runs::from(start, g.p as u64 * g.q as u64);
    let thread = thread::thread_idx_x();

    let mut windows = [Window {
        plane: 0,
        h: 0,
        w: 0,
    }; OUTPUTS_PER_THREAD];
    let mut params = [map.params(0); OUTPUTS_PER_THREAD];
    unroll!(4, |o| {
        // Past the end the last output is computed once more, and not stored.
        let local = (thread + o as u32 * BLOCK_THREADS).min(span - 1);
        let (plane, output) = planes.position(local);
        let (p, q) = div_rem(output as u32, g.q);
        windows[o] = Window {
            plane: plane as usize * plane_elements as usize,
            h: (p * g.stride_h).wrapping_sub(g.pad_h),
            w: (q * g.stride_w).wrapping_sub(g.pad_w),
        };
        params[o] = map.params(local);
    });

    let mut maxima = [f32::NEG_INFINITY; OUTPUTS_PER_THREAD];
    let mut r = 0;
    while r < g.r {
        let mut s = 0;
        while s < g.s {
            let mut values = [T::from_f32(0.0); OUTPUTS_PER_THREAD];
            let mut inside = [false; OUTPUTS_PER_THREAD];
            unroll!(4, |o| {
                let h = windows[o].h.wrapping_add(r * g.dilation_h);
                let w = windows[o].w.wrapping_add(s * g.dilation_w);
                inside[o] = h < g.h && w < g.w;
                let in_plane = if inside[o] { h * g.w + w } else { 0 };
                values[o] = x.load(windows[o].plane + in_plane as usize);
            });
            unroll!(4, |o| {
                let mapped = map.apply(params[o], values[o].to_f32());
                if inside[o] {
                    maxima[o] = math::max_nan(maxima[o], mapped);
                }
            });
            s += 1;
        }
        r += 1;
    }

    unroll!(4, |o| {
        let local = thread + o as u32 * BLOCK_THREADS;
        if local < span {
            let value = clamp(bounds, maxima[o]);
            y.store(start as usize + local as usize, T::from_f32(value));
        }
    });
}
