//! The reference for kernels and backends: the defined results of operators, with tolerances for other
//! computations of them.
//!
//! A [`Case`] is a graph of layers with its parameters and inputs; the case of a single operator is a chain
//! of one layer. Its [`reference`](Case::reference) is computed in float64, by loops that follow the
//! operators' definitions. Its [`expected`](Case::expected) outputs have a tolerance for every element, see
//! [`Bounded`]. A comparison with them reports the worst element and its error.
//!
//! One file of [`operators`] has everything about an operator: its reference, its error propagation, its
//! cost, its cases, and the reader of its golden files. The cases of whole chains are in `chains`. All other
//! modules are independent of single operators and chains.
//!
//! The modules, from the bottom up: `data`, [`numbers`], `precision` and `layers`; `case`, `bounded` and
//! `expected`; `golden_file`, the operator-independent part of golden files; `cases`, the table entry of an
//! operator or chain; `operators`; `chains`; `tables`; `judgement`, the expected outputs of a case;
//! [`golden`], which finds a file's operator in the tables.
//!
//! The code is simple rather than fast, yet a chain at full size takes seconds: the innermost loops run over
//! consecutive elements, samples are distributed over the cores, and no intermediate tensor exists as a
//! whole.
//!
//! ```
//! use op_spec::graph::Layer;
//! use oracle::{Case, Precision};
//!
//! let case = Case::of_layer("clamp/example", Layer::clamp(-0.25, 0.5), &[2, 3, 50])?;
//! let expected = case.expected(&Precision::F32)?;
//! let got = case.x.mapv(|v| v.clamp(-0.25, 0.5));
//! expected.check(got.view())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bounded;
mod case;
mod cases;
mod chains;
pub mod data;
mod expected;
pub mod golden;
mod golden_file;
mod judgement;
mod layers;
pub mod numbers;
pub mod operators;
mod precision;
mod tables;

pub use bounded::Bounded;
pub use case::Case;
pub use cases::Cases;
pub use expected::{Agreement, Disagreement, Expected, WorstElement};
pub use layers::layer_of;
pub use precision::Precision;
pub use tables::{all, ragged, realistic, smoke};

#[cfg(test)]
mod tests;
