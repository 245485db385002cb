//! The PyTorch side: its C interface, tensors through it, and the operator.

pub(crate) mod memory;
mod operator;
pub(crate) mod shim;
pub(crate) mod tensor;

use pyo3::prelude::*;

/// Adds the functions to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    operator::add(module)
}
