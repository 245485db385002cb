//! The padding kernel: pads each plane (or volume) of a convolution's input.

use cuda_std::global::{Global, GlobalMut};
use cuda_std::{Storage, bf16, f16, kernel, math, opaque, thread};
use launch_config::VECTOR_ELEMENTS;
use launch_config::elementwise::{
    BLOCK_ELEMENTS, BLOCK_THREADS, MIN_BLOCKS, ROUND_ELEMENTS, VECTORS_PER_THREAD,
};
use launch_config::pad::PadGeometry;
use op_spec::PaddingMode;

use crate::parts::elementwise::block_start;
use crate::parts::index::NearSegments;
use crate::parts::unroll::unroll;

/// Source position of a zero element.
const NONE: u32 = u32::MAX;

/// A block writes `BLOCK_ELEMENTS` consecutive elements of `y`: the padded planes of `x`.
///
/// *Launch*: `g.shape()`. *Mapping*: four vectors a thread, a block's width apart; the source of each element
/// is computed separately. *Barriers*: none. *Traffic*: each element of `y` is written once; those of `x` are
/// read once, some near the edges several times.
///
/// # Safety
/// `y` has `g.elements` elements and is 16-byte aligned; `x` has `g.planes` times the product of `g.inner`.
/// They do not overlap. The padding is no wider than its mode allows, and a plane of `y` has less than 2^31
/// elements.
#[kernel(instances(T: [f32, f16, bf16]), max_threads = BLOCK_THREADS, min_blocks = MIN_BLOCKS)]
pub unsafe fn conv_pad<T: Storage>(x: *const T, y: *mut T, g: &PadGeometry) {
    let [depth, height, width] = g.inner;
    let inner = (depth * height * width) as usize;
    // Opaque, because the compiler would turn the four modes into a branch table.
    let mode = opaque::to_compiler(g.mode as u32);
    let x = Global::new(x, g.planes as usize * inner);
    let y = GlobalMut::new(y, g.elements as usize);
    let start = block_start();
    let segments = NearSegments::from(start, g.plane as u64, &g.near);
    let element = |local: u32| {
        let (begun, position) = segments.position(local);
        let (row, column) = g.columns.div_rem(position as u32, math::high_word);
        let (slice, row) = g.rows.div_rem(row, math::high_word);
        let [slice, row, column] = [
            source(mode, slice as i32 - g.before[0] as i32, depth),
            source(mode, row as i32 - g.before[1] as i32, height),
            source(mode, column as i32 - g.before[2] as i32, width),
        ];
        // `NONE` is beyond all positions in the input.
        if slice == NONE || row == NONE || column == NONE {
            return T::from_f32(0.0);
        }
        let plane = (segments.first + begun as u64) as usize;
        x.load(plane * inner + ((slice * height + row) * width + column) as usize)
    };
    let first = thread::thread_idx_x() * VECTOR_ELEMENTS as u32;
    let mut round = 0;
    while round < VECTORS_PER_THREAD as u32 {
        let local = first + round * ROUND_ELEMENTS as u32;
        let at = start as usize + local as usize;
        if at + VECTOR_ELEMENTS <= y.len() {
            let mut vector = [T::from_f32(0.0); VECTOR_ELEMENTS];
            unroll!(4, |i| {
                vector[i] = element(local + i as u32);
            });
            y.store_vec(at, vector);
        } else {
            let mut i = 0;
            while at + i < y.len() && i < VECTOR_ELEMENTS {
                y.store(at + i, element(local + i as u32));
                i += 1;
            }
        }
        round += 1;
    }
}

const _: () = assert!(BLOCK_ELEMENTS == ROUND_ELEMENTS * VECTORS_PER_THREAD);

/// Source position of the element at `position` along an axis of `extent` elements. `position` may be beyond
/// either end.
#[inline(always)]
fn source(mode: u32, position: i32, extent: u32) -> u32 {
    let extent = extent as i32;
    if position >= 0 && position < extent {
        return position as u32;
    }
    let last = extent - 1;
    // `mode` is uniform over the launch.
    let found = if mode == PaddingMode::Reflect as u32 {
        if position < 0 {
            -position
        } else {
            last - (position - last)
        }
    } else if mode == PaddingMode::Replicate as u32 {
        if position < 0 { 0 } else { last }
    } else if mode == PaddingMode::Circular as u32 {
        if position < 0 {
            position + extent
        } else {
            position - extent
        }
    } else {
        return NONE;
    };
    found as u32
}
