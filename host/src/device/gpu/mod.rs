//! GPUs, by the driver's own handles.
//!
//! # Layers
//! A module imports only from lines before its own (`host/tests/layers.rs` sees to it).
//! 1. `carried`, `driver`: the kernels of this build; handles of the driver, calls and whose context they run in
//! 2. `image`: modules of one kernel, loaded or compiled
//! 3. `kernels`: the kernels on one device, loaded when they are needed and looked up by name
//! 4. `context`: the GPU: its context, its kernels, its memory pool
//! 5. `launch`, `stream`: launches; streams and events
//! 6. `graph`, `memory`: captured work; memory in stream order

mod carried;
mod context;
mod driver;
mod graph;
mod image;
mod kernels;
mod launch;
mod memory;
mod stream;

pub(crate) use carried::{ORIGIN as PTX_ORIGIN, carried};
pub(crate) use context::{Gpu, count};
pub(crate) use graph::GpuGraph;
pub(crate) use memory::GpuBuffer;
pub(crate) use stream::{GpuEvent, GpuStream};
