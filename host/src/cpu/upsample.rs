//! Upsampling of single samples.

use op_spec::UpsampleProblem;
use rayon::prelude::*;

use crate::error::Result;
use crate::host_memory::reserve;

/// Upsamples the channels of a sample one by one.
///
/// # Errors
/// [`OutOfMemory`](crate::Error::OutOfMemory).
pub(super) fn upsample_sample(x: &[f32], y: &mut [f32], problem: &UpsampleProblem) -> Result<()> {
    let [input, output] = [problem.input, problem.output].map(|of| of.iter().product::<usize>());
    // The positions are the same as in the kernels. Extents of planes that fit into memory are far below
    // 2^32.
    let mut sources: [Vec<(usize, f32)>; 3] = [const { Vec::new() }; 3];
    for (axis, sources) in sources.iter_mut().enumerate() {
        *sources = reserve(problem.output[axis])?;
        sources.extend((0..problem.output[axis]).map(|output| {
            let extent = problem.input[axis] as u32;
            let (first, weight) = problem.axes[axis].source(output as u32, extent);
            (first as usize, weight)
        }));
    }
    let planes = y
        .par_chunks_exact_mut(output)
        .zip(x.par_chunks_exact(input));
    planes.for_each(|(y, x)| upsample_plane(x, y, problem, &sources));
    Ok(())
}

fn upsample_plane(
    x: &[f32],
    y: &mut [f32],
    problem: &UpsampleProblem,
    [slices, rows, columns]: &[Vec<(usize, f32)>; 3],
) {
    let [depth, height, width] = problem.input;
    let at = |d: usize, h: usize| &x[(d * height + h) * width..][..width];
    let is_linear = |axis: usize| problem.is_linear && axis + problem.dimensions >= 3;
    let behind = |index: usize, extent: usize| (index + 1).min(extent - 1);
    let between = |a: f32, b: f32, weight: f32| b.mul_add(weight, a * (1.0 - weight));
    let mut y = y.iter_mut();
    for &(d, of_slice) in slices {
        for &(h, of_row) in rows {
            for (&(w, weight), y) in columns.iter().zip(&mut y) {
                let row = |d: usize, h: usize| match is_linear(2) {
                    true => between(at(d, h)[w], at(d, h)[behind(w, width)], weight),
                    false => at(d, h)[w],
                };
                let slice = |d: usize| match is_linear(1) {
                    true => between(row(d, h), row(d, behind(h, height)), of_row),
                    false => row(d, h),
                };
                *y = match is_linear(0) {
                    true => between(slice(d), slice(behind(d, depth)), of_slice),
                    false => slice(d),
                };
            }
        }
    }
}
