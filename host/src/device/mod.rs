//! Devices, streams and tensors.
//!
//! A [`Device`] is a GPU, the CPU, or the emulator, which runs the GPU's own kernels on the CPU and checks
//! their every step. Work is given to a [`Stream`] of a device and happens in order; data live in
//! [`Tensor`]s, which know the stream that made them. On a GPU nothing here waits for the device unless
//! its documentation says so.
//!
//! Everything is `Send + Sync`. Threads may share a stream (their work interleaves in some order) or have
//! one each; a tensor made on one stream can be read on another, the library orders the two.

mod contract;
mod counters;
mod dtype;
pub(crate) mod gpu;
mod info;
mod properties;
mod storage;
mod stream;
mod tensor;

use std::fmt;
use std::sync::Arc;

pub use contract::LaunchError;
pub use counters::Counts;
pub use dtype::{DType, Element, bf16, f16};
pub(crate) use gpu::GpuGraph;
pub use info::DeviceInfo;
pub use properties::DeviceProperties;
pub use stream::{Event, Stream};
pub use tensor::Tensor;
pub(crate) use tensor::{Reading, WeakTensor};

pub(crate) use op_spec::launch::LaunchShape;

use crate::error::Result;
use gpu::Gpu;

/// Where operators run. Cloning is cheap and gives the same device.
///
/// # Examples
/// ```
/// use convfuse::Device;
///
/// let device = Device::best(); // a GPU if one answers, else the CPU
/// println!("{}", device.info());
/// let stream = device.stream()?;
/// # Ok::<(), convfuse::Error>(())
/// ```
#[derive(Clone)]
pub struct Device(Kind);

#[derive(Clone)]
pub(crate) enum Kind {
    Cpu,
    Emulator(Arc<Emulator>),
    Gpu(Arc<Gpu>),
}

/// The emulator, and how it is to run kernels.
pub(crate) struct Emulator {
    pub(crate) device: cuda_std::emulator::Device,
    pub(crate) options: EmulatorOptions,
}

/// How the emulator runs kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct EmulatorOptions {
    /// Shuffles the order in which threads and blocks run; `None` keeps them in order.
    pub seed: Option<u64>,
    /// Steps after which a block counts as hung.
    pub step_limit: Option<u64>,
}

impl EmulatorOptions {
    /// Blocks and threads in order, the emulator's own step limit.
    pub const fn new() -> EmulatorOptions {
        EmulatorOptions {
            seed: None,
            step_limit: None,
        }
    }
}

impl Default for EmulatorOptions {
    fn default() -> Self {
        EmulatorOptions::new()
    }
}

impl Device {
    /// GPU 0 if a driver and a device answer and can run the kernels, else the CPU. Never fails;
    /// [`Device::gpu`] says why there is no GPU.
    pub fn best() -> Device {
        Device::gpu(0).unwrap_or_else(|_| Device::cpu())
    }

    /// The CPU backend: the same operators in f32 on all cores, without kernels.
    pub fn cpu() -> Device {
        Device(Kind::Cpu)
    }

    /// A new emulator: runs the GPU's kernels on the CPU, thread by thread, and reports what they do wrong.
    pub fn emulator() -> Device {
        Device::emulator_with(EmulatorOptions::new())
    }

    /// A new emulator with other than the default options.
    pub fn emulator_with(options: EmulatorOptions) -> Device {
        let device = cuda_std::emulator::Device::new();
        Device(Kind::Emulator(Arc::new(Emulator { device, options })))
    }

    /// The GPU with this ordinal, as the driver counts them.
    ///
    /// The first call in a process compiles the kernels for the device, which can take seconds the first
    /// time on a machine; the driver caches the result.
    ///
    /// # Errors
    /// [`NoDriver`](crate::Error::NoDriver), [`NoSuchDevice`](crate::Error::NoSuchDevice),
    /// [`TooOld`](crate::Error::TooOld), [`Jit`](crate::Error::Jit) with the compiler's log, or
    /// [`Driver`](crate::Error::Driver).
    pub fn gpu(ordinal: u32) -> Result<Device> {
        Ok(Device(Kind::Gpu(Gpu::open(ordinal)?)))
    }

    /// How many GPUs the driver sees.
    ///
    /// # Errors
    /// [`NoDriver`](crate::Error::NoDriver) where none can be asked.
    pub fn gpu_count() -> Result<u32> {
        gpu::count()
    }

    /// A new stream on this device.
    pub fn stream(&self) -> Result<Stream> {
        Stream::new(self)
    }

    /// What the device is and can do.
    pub fn info(&self) -> DeviceInfo {
        DeviceInfo::of(self)
    }

    /// What kernels are chosen by.
    pub fn properties(&self) -> DeviceProperties {
        DeviceProperties::of(self)
    }

    /// Whether this is a GPU.
    pub fn is_gpu(&self) -> bool {
        matches!(self.0, Kind::Gpu(_))
    }

    /// Whether this is the CPU backend.
    pub fn is_cpu(&self) -> bool {
        matches!(self.0, Kind::Cpu)
    }

    /// Whether this is the emulator.
    pub fn is_emulator(&self) -> bool {
        matches!(self.0, Kind::Emulator(_))
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.0
    }
}

impl PartialEq for Device {
    /// Whether tensors of the two can meet in one operator: the same GPU, the CPU, the same emulator.
    fn eq(&self, other: &Device) -> bool {
        match (&self.0, &other.0) {
            (Kind::Cpu, Kind::Cpu) => true,
            (Kind::Emulator(one), Kind::Emulator(two)) => Arc::ptr_eq(one, two),
            (Kind::Gpu(one), Kind::Gpu(two)) => one.ordinal == two.ordinal,
            _ => false,
        }
    }
}

impl Eq for Device {}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Cpu => f.pad("cpu"),
            Kind::Emulator(_) => f.pad("emulator"),
            Kind::Gpu(gpu) => f.pad(&gpu.to_name()),
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_always_gives_a_device_with_a_stream() {
        let device = Device::best();
        assert!(device.is_gpu() || device.is_cpu());
        device.stream().expect("a stream on the best device");
    }

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
