//! Golden files, as far as nothing has to be known of operators: tensors, description, flaws.

mod flaw;
mod reader;
mod tensors;

pub use flaw::GoldenFlaw;
pub(crate) use reader::{Output, Reader};
