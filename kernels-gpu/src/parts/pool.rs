//! The loop of every kernel that takes the maximum over windows.
//!
//! Of each window the kernel finds the smallest and the largest stored element, and applies the map to these
//! two. Where they do not decide the result (see [`PlaneMap::extremes_decide`]), or the window has no
//! elements, a slow path maps each element.
//!
//! *Mapping*: a thread has four windows, in one of two ways that the launch chooses
//! (`launch_config::max_pool2d`). Separate windows are processed side by side, so that four loads are in
//! flight. For an element in the padding, the thread loads the first element of the plane and drops it. A
//! stack of windows is unrolled, and has neither bounds tests nor padding: rows and columns outside the input
//! are clamped to their neighbours, which the window already contains. *Barriers*: those of `make_map`.

use cuda_std::Storage;
use cuda_std::global::{Global, GlobalMut};
use cuda_std::math;
use cuda_std::thread;
use launch_config::elementwise::Bounds;
use launch_config::max_pool2d::{BLOCK_THREADS, OUTPUTS_PER_THREAD, PoolGeometry, STACK_STRIDE};

use crate::parts::index::NearSegments;
use crate::parts::map::{PlaneMap, clamp};
use crate::parts::unroll::unroll;

/// The smallest and the largest of a set of elements; both NaN if one is.
#[derive(Clone, Copy)]
struct Extremes<T> {
    smallest: T,
    largest: T,
}

impl<T: Storage> Extremes<T> {
    /// The extremes of no elements.
    #[inline(always)]
    fn none() -> Self {
        Self {
            smallest: T::from_f32(f32::INFINITY),
            largest: T::from_f32(f32::NEG_INFINITY),
        }
    }

    /// Whether these are the extremes of no elements: only then is the smallest above the largest.
    #[inline(always)]
    fn are_none(self) -> bool {
        self.smallest.to_f32() > self.largest.to_f32()
    }

    /// The extremes of three elements.
    #[inline(always)]
    fn of([a, b, c]: [T; 3]) -> Self {
        Self {
            smallest: a.smaller(b).smaller(c),
            largest: a.larger(b).larger(c),
        }
    }

    /// Combines the extremes of two sets.
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self {
            smallest: self.smallest.smaller(other.smallest),
            largest: self.largest.larger(other.largest),
        }
    }
}

/// One window of a thread.
#[derive(Clone, Copy)]
struct Window {
    /// Index of the plane's first element.
    plane: usize,
    /// Row and column of the window's first element. A negative position, in the padding, wraps around.
    h: u32,
    w: u32,
}

/// Computes the maxima of the mapped elements of the block's windows, and clamps them. `make_map` takes the
/// block's first plane and its number of planes.
///
/// # Safety
/// All threads of the block call it, so `make_map` may have barriers. `x` has `g.planes` planes of
/// `g.h * g.w` elements, `y` as many of `g.p * g.q`. The extents are positive, the planes have less than 2^31
/// elements, and `g` is planned.
#[inline(always)]
pub(crate) unsafe fn pool_block<T: Storage, M: PlaneMap>(
    x: *const T,
    y: *mut T,
    g: &PoolGeometry,
    bounds: Bounds,
    make_map: impl FnOnce(u64, u32) -> M,
) {
    let plane_elements = (g.h * g.w) as usize;
    let plane_outputs = (g.p * g.q) as usize;
    let x = Global::new(x, g.planes as usize * plane_elements);
    let y = GlobalMut::new(y, g.planes as usize * plane_outputs);
    let start = thread::block_idx_x() as u64 * g.block_tasks as u64;
    let tasks = g.planes * g.plane_tasks();
    let span = (tasks - start).min(g.block_tasks as u64) as u32;
    let segments = NearSegments::from(start, g.plane_tasks(), &g.near);
    let map = make_map(segments.first, segments.locate(span - 1).0 + 1);
    let thread = thread::thread_idx_x();

    // Plane of task `local`, relative to the block's first plane, and row and column of its first output.
    let locate = |local: u32| {
        let (plane, position) = segments.position(local);
        // A plane has less than 2^31 outputs, and no more tasks than outputs.
        let (row, q) = g.columns.div_rem(position as u32, math::high_word);
        (plane, row, q)
    };
    let window = |plane: u32, p: u32, q: u32| Window {
        plane: (segments.first as usize + plane as usize) * plane_elements,
        h: (p * g.stride_h).wrapping_sub(g.pad_h),
        w: (q * g.stride_w).wrapping_sub(g.pad_w),
    };
    let output = |plane: u32, p: u32, q: u32| {
        let plane = (segments.first as usize + plane as usize) * plane_outputs;
        plane + p as usize * g.q as usize + q as usize
    };
    // The element `r` rows and `s` columns after the window's first, and whether it is in the input. Outside
    // the input, it is another element of the plane.
    let element = |window: Window, r: u32, s: u32| {
        let h = window.h.wrapping_add(r * g.dilation_h);
        let w = window.w.wrapping_add(s * g.dilation_w);
        let inside = h < g.h && w < g.w;
        let in_plane = if inside { h * g.w + w } else { 0 };
        (x.load(window.plane + in_plane as usize), inside)
    };
    let stored = |value: f32| T::from_f32(clamp(bounds, value));
    let decided = |params: M::Params, extremes: Extremes<T>| {
        let [smallest, largest] = [extremes.smallest, extremes.largest].map(T::to_f32);
        stored(map.of_extremes(params, smallest, largest))
    };
    let store_each_mapped = |plane: u32, p: u32, q: u32, params: M::Params| {
        let window = window(plane, p, q);
        let mut value = f32::NEG_INFINITY;
        let mut r = 0;
        while r < g.r {
            let mut s = 0;
            while s < g.s {
                let (x, inside) = element(window, r, s);
                if inside {
                    value = math::max_nan(value, map.apply(params, x.to_f32()));
                }
                s += 1;
            }
            r += 1;
        }
        y.store(output(plane, p, q), stored(value));
    };

    if g.task.is_stack() {
        let mut task = thread;
        while task < span {
            let (plane, stack, q) = locate(task);
            let p = stack * OUTPUTS_PER_THREAD as u32;
            let first = window(plane, p, q);
            // A window starts at most one row or column before the input, and never after it.
            let (h, w) = (first.h as i32, first.w as i32);
            let last = [g.h as i32 - 1, g.w as i32 - 1];
            let columns = [w.max(0), (w + 1).min(last[1]), (w + 2).min(last[1])];
            let elements = x.slice(first.plane, plane_elements);
            let of_row = |row: i32| {
                let row = elements.slice((row as u32 * g.w) as usize, g.w as usize);
                Extremes::of(columns.map(|column| row.load(column as u32 as usize)))
            };
            let mut above = of_row(h.max(0));
            let mut windows = [above; OUTPUTS_PER_THREAD];
            unroll!(4, |o| {
                let next = h + o as i32 * STACK_STRIDE as i32;
                let middle = of_row((next + 1).min(last[0]));
                let below = of_row((next + 2).min(last[0]));
                windows[o] = above.and(middle).and(below);
                above = below;
            });
            let params = map.params(plane);
            let values = windows.map(|extremes| decided(params, extremes));
            let outputs = y.slice(output(plane, p, q), 1 + ((g.p - p - 1) * g.q) as usize);
            unroll!(4, |o| {
                if o == 0 || p + (o as u32) < g.p {
                    outputs.store((o as u32 * g.q) as usize, values[o]);
                }
            });
            if !map.extremes_decide(params) {
                let mut row = p;
                while row < g.p.min(p + OUTPUTS_PER_THREAD as u32) {
                    store_each_mapped(plane, row, q, params);
                    row += 1;
                }
            }
            task += BLOCK_THREADS;
        }
        return;
    }

    // Past the end, the last output is computed again and not stored.
    let nth = |o: u32| (thread + o * BLOCK_THREADS).min(span - 1);
    let mut windows = [Window {
        plane: 0,
        h: 0,
        w: 0,
    }; OUTPUTS_PER_THREAD];
    unroll!(4, |o| {
        let (plane, p, q) = locate(nth(o as u32));
        windows[o] = window(plane, p, q);
    });

    let mut extremes = [Extremes::<T>::none(); OUTPUTS_PER_THREAD];
    let mut r = 0;
    while r < g.r {
        let mut s = 0;
        while s < g.s {
            let mut values = [(T::from_f32(0.0), false); OUTPUTS_PER_THREAD];
            unroll!(4, |o| {
                values[o] = element(windows[o], r, s);
            });
            unroll!(4, |o| {
                let (value, inside) = values[o];
                if inside {
                    extremes[o] = extremes[o].and(Extremes {
                        smallest: value,
                        largest: value,
                    });
                }
            });
            s += 1;
        }
        r += 1;
    }

    let mut all_decided = true;
    unroll!(4, |o| {
        let params = map.params(locate(nth(o as u32)).0);
        all_decided &= map.extremes_decide(params) && !extremes[o].are_none();
        let value = decided(params, extremes[o]);
        let local = thread + o as u32 * BLOCK_THREADS;
        if local < span {
            // Each task is one output here.
            y.store(start as usize + local as usize, value);
        }
    });
    if !all_decided {
        let mut local = thread;
        while local < span {
            let (plane, p, q) = locate(local);
            store_each_mapped(plane, p, q, map.params(plane));
            local += BLOCK_THREADS;
        }
    }
}
