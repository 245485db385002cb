//! The native half of the Python package: operators of PyTorch, and what the package asks of chains.
//!
//! It is linked against neither PyTorch nor a driver. `torch` finds PyTorch's own library in the process, by
//! the stable C interface that it offers to extensions, and registers `torch.ops.convfuse`; `runner` keeps
//! the launches that calls of the operator need; `chains` tells Python about chains, and `arrays` runs them
//! on arrays of other libraries.

mod arrays;
mod chains;
mod runner;
mod torch;

use pyo3::prelude::*;

/// The extension module `convfuse._native`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    arrays::add(module)?;
    chains::add(module)?;
    torch::add(module)
}
