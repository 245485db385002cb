//! Does a backend compute what the operators are defined to compute? Cases, expectations with
//! derived tolerances, and comparisons whose failures say where and by how much.
//!
//! One [`Case`] serves every backend: it owns f32 tensors and a specification. Its expectation
//! comes from the float64 [`reference`](crate::reference) (or from a golden file, that is from
//! PyTorch), together with a tolerance for every single element, see [`Bounded`]. The test suite
//! and `convfuse verify` run the same cases through the same comparison.
//!
//! ```
//! use convfuse::verify::{Precision, tables};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! for case in tables::smoke() {
//!     let expected = case.operation.expected(&Precision::F32)?;
//!     let got = convfuse::cpu::run(&case.operation)?;
//!     expected.check(got.view())?;
//! }
//! # Ok(())
//! # }
//! ```

mod bounded;
mod expected;
pub mod golden;
pub mod on_device;
mod operation;
mod precision;
pub mod tables;

pub use bounded::Bounded;
pub use expected::{Agreement, Disagreement, Expected};
pub use operation::{Case, Operation};
pub use precision::Precision;

#[cfg(test)]
mod tests;
