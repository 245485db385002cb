//! The native half of the Python package: PyTorch operators, and functions of the package on chains.
//!
//! It is linked against neither PyTorch nor a driver. `torch` finds PyTorch's library in the process through
//! its stable C interface for extensions. `runner` keeps the launches of operator calls, and `operator`
//! registers `torch.ops.convfuse`. `chains` answers Python's questions about chains, and `arrays` runs them
//! on arrays of other libraries.

mod arrays;
mod chains;
mod operator;
mod runner;
mod torch;

use pyo3::prelude::*;

/// The extension module `convfuse._native`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    arrays::add(module)?;
    chains::add(module)?;
    operator::add(module)
}
