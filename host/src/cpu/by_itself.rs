//! Layers that are never fused with others.

use op_spec::graph::ByItself;
use op_spec::{Layout, Pad, ShuffleProblem};

/// A layer with the whole tensors that it reads besides its input.
pub(super) struct Alone<'a> {
    pub(super) of: ByItself,
    pub(super) others: Vec<&'a [f32]>,
}

impl Alone<'_> {
    /// Computes sample `number`; `x` is the sample of the layer's input.
    pub(super) fn run(&self, number: usize, x: &[f32], y: &mut [f32]) {
        match &self.of {
            ByItself::Reshape(_) => y.copy_from_slice(x),
            ByItself::Gate(problem) => {
                let (channels, spatial) = (problem.shape.c, problem.shape.spatial);
                if y.is_empty() {
                    return;
                }
                if problem.of_positions {
                    let gate = &self.others[0][number * spatial..][..spatial];
                    let values = y.iter_mut().zip(x).zip(gate.iter().cycle());
                    values.for_each(|((y, x), factor)| *y = x * factor);
                    return;
                }
                let gate = &self.others[0][number * channels..][..channels];
                let planes = x.chunks_exact(spatial).zip(y.chunks_exact_mut(spatial));
                for ((x, y), &factor) in planes.zip(gate) {
                    y.iter_mut().zip(x).for_each(|(y, x)| *y = x * factor);
                }
            }
            ByItself::Shuffle(problem) => shuffle_sample(problem, x, y),
            ByItself::Pad(problem) => pad_sample(&problem.pad, x, y),
            ByItself::Narrow(problem) => {
                let (inner, part) = (problem.shape.inner, problem.spec);
                let row = problem.shape.extent * inner;
                let (start, len) = (part.start * inner, part.length * inner);
                if y.is_empty() {
                    return;
                }
                for (x, y) in x.chunks_exact(row).zip(y.chunks_exact_mut(len)) {
                    y.copy_from_slice(&x[start..start + len]);
                }
            }
            ByItself::Cat(problem) => {
                let shape = problem.shape;
                if y.is_empty() {
                    return;
                }
                let of_sample = |all: &&'_ [f32]| {
                    let len = all.len() / shape.n;
                    number * len..(number + 1) * len
                };
                let others = self.others.iter().map(|all| &all[of_sample(all)]);
                let mut start = 0;
                for operand in std::iter::once(x).chain(others) {
                    let len = operand.len() / shape.outer;
                    let rows = y.chunks_exact_mut(shape.extent * shape.inner);
                    // A value without elements has no rows.
                    for (operand, y) in operand.chunks_exact(len.max(1)).zip(rows) {
                        y[start..start + len].copy_from_slice(operand);
                    }
                    start += len;
                }
            }
        }
    }
}

/// Permutes the split axes of a sample.
fn shuffle_sample(problem: &ShuffleProblem, x: &[f32], y: &mut [f32]) {
    let ([input, output], extents) = (problem.axes(Layout::Nchw), problem.extents);
    let (mut strides, mut stride) = ([0; 6], 1);
    for axis in input.into_iter().rev() {
        strides[axis] = stride;
        stride *= extents[axis];
    }
    // The first axis is the batch; the last axis forms the output's rows.
    let [_, outer @ .., row] = output;
    if y.is_empty() {
        return;
    }
    for (number, y) in y.chunks_exact_mut(extents[row]).enumerate() {
        let (mut rest, mut start) = (number, 0);
        for axis in outer.into_iter().rev() {
            start += rest % extents[axis] * strides[axis];
            rest /= extents[axis];
        }
        let x = x[start..].iter().step_by(strides[row]);
        y.iter_mut().zip(x).for_each(|(y, x)| *y = *x);
    }
}

/// Pads each plane of a sample.
fn pad_sample(pad: &Pad<3>, x: &[f32], y: &mut [f32]) {
    let [depth, rows, columns] = pad.outer();
    let source = |axis: usize, position: usize| {
        let position = position as isize - pad.before[axis] as isize;
        pad.mode.source(position, pad.inner[axis])
    };
    if y.is_empty() {
        return;
    }
    let sources: Vec<Option<usize>> = (0..columns).map(|column| source(2, column)).collect();
    for (number, y) in y.chunks_exact_mut(columns).enumerate() {
        let (plane, slice, row) = (number / rows / depth, number / rows % depth, number % rows);
        let (Some(slice), Some(row)) = (source(0, slice), source(1, row)) else {
            y.fill(0.0);
            continue;
        };
        let x = &x[((plane * pad.inner[0] + slice) * pad.inner[1] + row) * pad.inner[2]..];
        for (y, source) in y.iter_mut().zip(&sources) {
            *y = source.map_or(0.0, |column| x[column]);
        }
    }
}
