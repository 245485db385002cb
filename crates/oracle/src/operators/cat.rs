//! `y` is the concatenation of the operands along the axis `dim`. For two operands, `y[.., i, ..]` is
//! `x[.., i, ..]`, followed by `other[.., i - extent of x, ..]`. *Passes on* the `t` of each unchanged.

use ndarray::{ArrayD, ArrayViewD, Axis, concatenate};
use op_spec::CatProblem;
use op_spec::graph::{Graph, Layer};

use super::operator::{Given, Operator};
use crate::cases::cases;
use crate::{Case, Cases, Precision};

impl Operator for CatProblem {
    fn reference(&self, x: &ArrayD<f64>, parameters: &[&ArrayD<f64>]) -> ArrayD<f64> {
        joined(self, x, parameters.iter().copied())
    }

    fn tolerance(&self, of: &Given<'_>, t: ArrayD<f64>, _: &Precision) -> ArrayD<f64> {
        let others = of.parameters.iter().map(|of| ArrayD::zeros(of.raw_dim()));
        let others: Vec<_> = others.collect();
        joined(self, &t, &others)
    }

    fn selects(&self) -> bool {
        true
    }

    fn cost(&self) -> u64 {
        self.shape.elements() as u64
    }
}

/// Concatenates the first operand and the others.
pub(crate) fn joined<'a>(
    problem: &CatProblem,
    first: &'a ArrayD<f64>,
    others: impl IntoIterator<Item = &'a ArrayD<f64>>,
) -> ArrayD<f64> {
    let all: Vec<ArrayViewD<'_, f64>> = std::iter::once(first)
        .chain(others)
        .map(|values| values.view())
        .collect();
    concatenate(Axis(problem.dim), &all).expect("the other extents are the same")
}

pub(super) const CASES: Cases = cases!(
    "cat", r#"inputs=["other"] dim=1"#,
    smoke: "
        plain 2x3x5x7",
    ragged: r#"
        matrix 5x13
        along_columns 3x2x9 dim=2
        volumes 2x3x4x5x6 inputs=["a","b","a"]
        along_depth 2x3x4x5x6 dim=2
        vectors 2x8x4x4
        empty_batch 0x3x5
        one_value 1x1x1x1
        nan_and_infinities 2x7x29x31 special"#,
    realistic: "
        skip 2x64x56x56
        last_skip 2x32x14x14",
    more: different()
);

/// Operands of different extents, which only preceding layers can give.
fn different() -> Vec<Case> {
    let case = |name: &str, input: &[usize], dim, narrows: [[usize; 2]; 2]| {
        let part = |[start, length]: [usize; 2]| Layer::narrow(dim, start, length);
        let graph = Graph::builder("x", input[1])
            .layer("a", "x", part(narrows[0]))
            .layer("b", "x", part(narrows[1]))
            .layer("y", "b", Layer::cat(["x", "a"], dim))
            .build("y");
        Case::of_graph(
            &format!("cat/{name}"),
            graph.expect("parts of the input"),
            input,
        )
    };
    vec![
        case("parts_of_channels", &[2, 11, 3, 5], 1, [[1, 4], [8, 3]]),
        case("parts_of_vectors", &[2, 16, 3, 5], 1, [[4, 8], [12, 4]]),
        case("parts_of_rows", &[2, 3, 7, 5], 2, [[0, 1], [2, 5]]),
    ]
}
