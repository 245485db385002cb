//! Devices, streams and tensors.
//!
//! A [`Device`] is a GPU, the CPU, or the emulator, which runs the GPU's own kernels on the CPU and checks
//! each step. Work is queued on a [`Stream`] of a device and runs in order. Data are in [`Tensor`]s, each of
//! which belongs to the stream that made it. On a GPU no function waits for the device, unless its
//! documentation says so.
//!
//! All types are `Send + Sync`. Threads may share a stream, with their work interleaved in some order, or
//! each use their own. A tensor made on one stream can be read on another; the library orders the two
//! streams.
//!
//! # Layers
//! A module imports only from modules in earlier lines of this list, and never from modules above `device`
//! (`host/tests/layers.rs` checks it). Below this list are element types, the launch contract, errors, host
//! memory, and locks.
//! 1. `counters`, `info`, `kernel_cache`, `raw`: counts of work; descriptions of devices; the cache of
//!    machine code; types shared with other libraries
//! 2. `emulator`, `no_emulator`, `gpu`: the devices that run kernels
//! 3. `kind`: the kinds of devices
//! 4. `properties`, `storage`: properties for the choice of kernels; memory of each kind
//! 5. `stream`: work in order
//! 6. `tensor`: arrays
//! 7. `pinned`: pinned arrays

mod counters;
#[cfg(feature = "emulator")]
mod emulator;
#[cfg(not(feature = "emulator"))]
#[path = "no_emulator.rs"]
mod emulator;
mod gpu;
mod info;
pub mod kernel_cache;
mod kind;
mod pinned;
mod properties;
pub mod raw;
mod storage;
mod stream;
mod tensor;

pub use counters::Counts;
#[cfg(feature = "emulator")]
pub use emulator::EmulatorOptions;
#[cfg(all(feature = "lab", feature = "emulator"))]
pub(crate) use emulator::emulated;
pub(crate) use gpu::GpuGraph;
#[cfg(all(feature = "lab", feature = "emulator"))]
pub(crate) use gpu::carried_kernels;
pub use info::{Carried, DeviceInfo, KernelLoad, KernelOrigin};
pub use kind::Device;
pub use pinned::PinnedArray;
pub use properties::DeviceProperties;
pub(crate) use storage::reserve as host_memory;
pub use stream::{Event, Stream};
pub use tensor::Tensor;
pub(crate) use tensor::{Order, Reading, WeakTensor, in_memory, must_be_axis, must_have_shape};

pub(crate) use crate::dtype::DType;
pub(crate) use launch_config::LaunchShape;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_equal_when_tensors_can_be_shared() {
        let emulator = Device::emulator();
        assert_eq!(Device::cpu(), Device::cpu());
        assert_eq!(emulator, emulator.clone());
        assert_ne!(emulator, Device::emulator());
        assert_ne!(emulator, Device::cpu());
    }

    #[test]
    fn handles_cross_threads() {
        fn check<T: Send + Sync>() {}
        check::<Device>();
        check::<Stream>();
        check::<Event>();
        check::<Tensor>();
        check::<crate::Error>();
    }
}
