//! The loop of the kernels that normalise a tensor element by element.
//!
//! A block has consecutive elements, whatever the planes in them are. It stages the parameters of its planes
//! ([`Planes`]), and a thread finds the plane of a vector by one division, exact by a reciprocal that the host worked
//! out. Planes of three elements and more end at most once within a vector: then the elements beyond take the
//! parameters of the next plane. Only where planes are shorter does each element look for its own.
//!
//! *Mapping*: vectors go to the threads in turn, four at a time, which are loaded before the parameters are there.
//! *Barriers*: those of [`Planes::stage`].

use cuda_std::Storage;
use cuda_std::global::{Global, GlobalMut};
use cuda_std::thread;
use op_spec::launch::VECTOR_ELEMENTS;
use op_spec::launch::elementwise::{ROUND_ELEMENTS, VECTORS_PER_THREAD};
use op_spec::launch::norm::ApplyGeometry;

use crate::parts::index::NearSegments;
use crate::parts::map::PlaneMap;
use crate::parts::planes::{NormTensors, PlaneParams, Planes};
use crate::parts::unroll::unroll;

/// Elements of a vector.
const VECTOR: u32 = VECTOR_ELEMENTS as u32;

/// From one vector of a thread to its next.
const ROUND: u32 = ROUND_ELEMENTS as u32;

/// Normalises, scales if `SCALED`, and then `finish`es the block's elements of `x` into `y`.
///
/// # Safety
/// All threads of the block call it, and the launch is `g.shape()`'s. `x` and `y` have `g.elements` elements, start on
/// 16 bytes and are the same tensor or apart; the other tensors are as for [`Planes::stage`].
#[inline(always)]
pub(crate) unsafe fn normalise_block<T: Storage, const SCALED: bool>(
    x: *const T,
    tensors: NormTensors<T>,
    y: *mut T,
    g: &ApplyGeometry,
    finish: impl Fn(f32) -> f32,
) {
    let start = thread::block_idx_x() as u64 * g.block_elements as u64;
    let left = (g.elements - start).min(g.block_elements as u64) as u32;
    // Below `left <= g.block_elements`, so these are the block's elements and no others.
    let x = Global::new(x, g.elements as usize).slice(start as usize, left as usize);
    let y = GlobalMut::new(y, g.elements as usize).slice(start as usize, left as usize);
    let whole = left - left % VECTOR;
    let thread = thread::thread_idx_x();

    // Whether the thread has four vectors from `at` on; and these, or one if there is one.
    let has_four = |at: u32| at + (VECTORS_PER_THREAD as u32 - 1) * ROUND < whole;
    let load = |at: u32| {
        let mut vectors = [[T::from_f32(0.0); VECTOR_ELEMENTS]; VECTORS_PER_THREAD];
        if has_four(at) {
            unroll!(4, |v| {
                vectors[v] = x.load_vec(at as usize + v * ROUND_ELEMENTS);
            });
        } else if at < whole {
            vectors[0] = x.load_vec(at as usize);
        }
        vectors
    };
    let mut at = thread * VECTOR;
    let mut vectors = load(at);

    let segments = NearSegments::from(start, g.spatial, &g.near);
    let count = segments.locate(left - 1).0 + 1;
    let planes = Planes::stage(&g.norm, tensors, segments.first, count);

    let map_one = |params: PlaneParams, x: f32| {
        let normed = params.norm(x);
        if SCALED {
            normed * params.scale
        } else {
            normed
        }
    };
    let map = |at: u32, x: [T; VECTOR_ELEMENTS]| {
        let x = T::to_f32_vector(x);
        let (plane, position) = segments.locate(at);
        let params = planes.params(plane);
        let mut mapped = x.map(|x| map_one(params, x));
        if position + VECTOR > segments.length() {
            if segments.length() >= VECTOR - 1 {
                let next = planes.params(plane + 1);
                unroll!(4, |i| {
                    // The first is in the plane that was found.
                    if i > 0 && position + i as u32 >= segments.length() {
                        mapped[i] = map_one(next, x[i]);
                    }
                });
            } else {
                unroll!(4, |i| {
                    mapped[i] = map_one(planes.params(segments.locate(at + i as u32).0), x[i]);
                });
            }
        }
        T::from_f32_vector(mapped.map(&finish))
    };
    while has_four(at) {
        unroll!(4, |v| {
            let mapped = map(at + v as u32 * ROUND, vectors[v]);
            y.store_vec(at as usize + v * ROUND_ELEMENTS, mapped);
        });
        at += VECTORS_PER_THREAD as u32 * ROUND;
        vectors = load(at);
    }
    while at < whole {
        y.store_vec(at as usize, map(at, vectors[0]));
        at += ROUND;
        vectors = load(at);
    }

    // The tensor's last elements, if they are no whole vector.
    let at = whole + thread;
    if at < left {
        let params = planes.params(segments.locate(at).0);
        let mapped = map_one(params, x.load(at as usize).to_f32());
        y.store(at as usize, T::from_f32(finish(mapped)));
    }
}
