//! GPUs, by the driver's own handles.
//!
//! # Layers
//! A module imports only from lines before its own (`host/tests/layers.rs` sees to it).
//! 1. `driver`, `ptx`: handles of the driver, calls and whose context they run in; the PTX of this build
//! 2. `module`: the kernels of one module, looked up by name
//! 3. `context`: the GPU: its context, its module, its memory pool
//! 4. `launch`, `stream`: launches; streams and events
//! 5. `graph`, `memory`: captured work; memory in stream order

mod context;
mod driver;
mod graph;
mod launch;
mod memory;
mod module;
mod ptx;
mod stream;

pub(crate) use context::{Gpu, count};
pub(crate) use graph::GpuGraph;
pub(crate) use memory::GpuBuffer;
pub(crate) use module::ORIGIN as PTX_ORIGIN;
pub(crate) use stream::{GpuEvent, GpuStream};
