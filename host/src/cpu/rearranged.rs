//! Layers that pass values on as they are.

use op_spec::graph::Rearrangement;

/// A layer with the whole tensors that it takes beside its input.
pub(super) struct Rearranged<'a> {
    pub(super) of: Rearrangement,
    pub(super) others: Vec<&'a [f32]>,
}

impl Rearranged<'_> {
    /// Sample `number`, of which the layer is given `x`.
    pub(super) fn run(&self, number: usize, x: &[f32], y: &mut [f32]) {
        match &self.of {
            Rearrangement::Flatten => y.copy_from_slice(x),
            Rearrangement::Narrow(problem) => {
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
            Rearrangement::Cat(problem) => {
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
