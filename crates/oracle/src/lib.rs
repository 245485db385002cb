//! The judge of kernels and backends: what operators are defined to compute, and how far off a computation
//! may be.
//!
//! A [`Case`] is a chain of layers, its parameters and an input; the case of a single operator is a chain of
//! one layer. Its [`reference`](Case::reference) is float64 in loops that can be read against the operators'
//! definitions. Its [`expected`](Case::expected) outputs have a tolerance for every single element, see
//! [`Bounded`], and comparing with it says where a result is off and by how much.
//!
//! What is known of an operator stands in one file of [`operators`]: its reference, how errors pass through
//! it, what it costs, its cases, and how its golden files are read. The cases of whole chains are in
//! `chains`. Nothing else knows one operator or chain from another.
//!
//! From the bottom up: `data`, `precision` and `layers`; `case`, `bounded` and `expected`; `golden_file`,
//! what can be read of such a file without knowing operators; `cases`, what tables have of an operator or a
//! chain; `operators`; `chains`; `tables`; `judgement`, what a case should give; [`golden`], which finds the
//! operator of a file in the tables.
//!
//! Nothing here is fast on purpose, yet a chain at full size takes seconds: the innermost loops run over
//! consecutive elements, samples are spread over the cores, and no tensor between two layers is ever whole.
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
