//! GPUs, by the driver's own handles.
//!
//! # Layers
//! A module imports only from lines before its own (`host/tests/layers.rs` sees to it).
//! 1. `fork`, `ptx`: whether the driver can be used; the PTX of this build
//! 2. `driver`: handles of the driver, calls and whose context they run in
//! 3. `module`, `pool`: the kernels of one module, looked up by name; a pool of memory
//! 4. `context`: the GPU: its context, its module, its memory pool
//! 5. `launch`, `stream`: launches; streams and events
//! 6. `graph`, `pinned`: captured work; memory of the host that the device copies
//! 7. `memory`: memory in stream order
//! 8. `peer`: copies between GPUs

mod context;
mod driver;
mod fork;
mod graph;
mod launch;
mod memory;
mod module;
mod peer;
mod pinned;
mod pool;
mod ptx;
mod stream;

pub(crate) use context::{Gpu, count};
pub(crate) use graph::GpuGraph;
pub(crate) use memory::GpuBuffer;
pub(crate) use module::ORIGIN as PTX_ORIGIN;
pub(crate) use pinned::PinnedMemory;
pub(crate) use stream::{GpuEvent, GpuStream};
