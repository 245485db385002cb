//! GPUs, through the CUDA driver.
//!
//! # Layers
//! A module imports only from lines before its own (`host/tests/layers.rs` checks it).
//! 1. `carried`, `fork`: the kernels of this build; whether the driver can be used
//! 2. `driver`: handles of the driver, calls, and the current context
//! 3. `image`, `pool`, `tensor_map`: modules of one kernel, loaded or compiled; the memory pool; tensor maps
//! 4. `kernels`: the kernels on one device, loaded at first use and looked up by name
//! 5. `context`: the GPU: its context, its kernels, its memory pool
//! 6. `stream`: streams and events
//! 7. `launch`, `graph`, `pinned`: launches on streams; CUDA graphs; pinned host memory
//! 8. `memory`: memory in stream order
//! 9. `peer`: copies between GPUs

mod carried;
mod context;
mod driver;
mod fork;
mod graph;
mod image;
mod kernels;
mod launch;
mod memory;
mod peer;
mod pinned;
mod pool;
mod stream;
mod tensor_map;

#[cfg(all(feature = "lab", feature = "emulator"))]
pub(crate) use carried::names as carried_kernels;
pub(crate) use carried::{ORIGIN as PTX_ORIGIN, carried};
pub(crate) use context::{Gpu, count};
pub(crate) use graph::GpuGraph;
pub(crate) use memory::GpuBuffer;
pub(crate) use pinned::PinnedMemory;
pub(crate) use stream::{GpuEvent, GpuStream};
pub(crate) use tensor_map::encode as tensor_map;
