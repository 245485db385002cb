//! The operator-independent parts of golden files: tensors, description, flaws.

mod flaw;
mod reader;
mod tensors;

pub use flaw::GoldenFlaw;
pub(crate) use reader::{Output, Reader};
