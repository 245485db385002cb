//! The kinds of devices, and the handle of one.

use std::fmt;
use std::sync::Arc;

use cuda_std::tensor_map::{MapMode, TensorMap};

use super::emulator::Emulator;
#[cfg(feature = "emulator")]
use super::emulator::EmulatorOptions;
use super::gpu::{self, Gpu};
use super::info::DeviceInfo;
use crate::contract::Limits;
use crate::dtype::DType;
use crate::error::{At, Error, Result};

/// A device on which operators run. Cloning is cheap and gives the same device.
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
    /// The CPU, with the reason if `best` found no usable GPU.
    Cpu(Option<Arc<Error>>),
    #[cfg_attr(
        not(feature = "emulator"),
        expect(dead_code, reason = "no such device")
    )]
    Emulator(Arc<Emulator>),
    Gpu(Arc<Gpu>),
}

impl Device {
    /// Returns GPU 0 if there is a driver and the GPU runs the kernels. Else returns the CPU, with the reason
    /// in [`fallback_reason`](Device::fallback_reason). Never fails.
    pub fn best() -> Device {
        match Device::gpu(0) {
            Ok(gpu) => gpu,
            Err(error) => {
                tracing::info!(target: "convfuse::device", %error, "the CPU in place of a GPU");
                Device(Kind::Cpu(Some(Arc::new(error))))
            }
        }
    }

    /// Returns the CPU backend, which runs the same operators in f32 on all cores, without kernels.
    pub fn cpu() -> Device {
        Device(Kind::Cpu(None))
    }

    /// Returns the error for which [`best`](Device::best) returned the CPU. `None` for a device that was
    /// chosen explicitly.
    pub fn fallback_reason(&self) -> Option<&Error> {
        match self.kind() {
            Kind::Cpu(reason) => reason.as_deref(),
            Kind::Emulator(_) | Kind::Gpu(_) => None,
        }
    }

    /// Opens the GPU with this ordinal of the driver.
    ///
    /// The first call in a process creates the device's context. Kernels are loaded when a plan or a launch
    /// first needs them. If this build has no machine code for the device, the driver then compiles them, and
    /// [`kernel_cache`](crate::kernel_cache) keeps the machine code.
    ///
    /// # Errors
    /// [`NoDriver`](Error::NoDriver), [`NoSuchDevice`](Error::NoSuchDevice), [`TooOld`](Error::TooOld),
    /// or [`Driver`](Error::Driver).
    pub fn gpu(ordinal: u32) -> Result<Device> {
        let span = tracing::debug_span!(target: "convfuse::device", "open", ordinal);
        let _entered = span.enter();
        let gpu = Gpu::open(ordinal)?;
        tracing::debug!(target: "convfuse::device", ordinal, name = gpu.facts().name, "a GPU is open");
        Ok(Device(Kind::Gpu(gpu)))
    }

    /// Encodes the tensor map of a tensor at `address`.
    ///
    /// # Errors
    /// On a GPU, errors of the driver.
    pub(crate) fn tensor_map(&self, mode: &MapMode, address: *const u8) -> Result<TensorMap> {
        match self.kind() {
            Kind::Gpu(gpu) => gpu::tensor_map(&gpu.make_current()?, mode, address),
            Kind::Cpu(_) | Kind::Emulator(_) => Ok(mode.emulated(address)),
        }
    }

    /// The number of GPUs that the driver sees.
    ///
    /// # Errors
    /// [`NoDriver`](Error::NoDriver) without a driver.
    pub fn gpu_count() -> Result<u32> {
        gpu::count()
    }

    /// A description of the device, and the origins of the kernels that it has loaded so far.
    pub fn info(&self) -> DeviceInfo {
        let threads = rayon::current_num_threads() as u32;
        let host = |name: &str, shared_bytes_per_block, processors| DeviceInfo {
            name: name.to_owned(),
            compute_capability: None,
            processors,
            memory_bytes: None,
            l2_bytes: None,
            shared_bytes_per_block,
            driver_version: None,
            module: None,
            ptx_origin: gpu::PTX_ORIGIN,
            carried: gpu::carried(),
            driver_time: None,
            context_time: None,
            kernels: Vec::new(),
        };
        match self.kind() {
            Kind::Cpu(_) => host("CPU backend", None, threads),
            Kind::Emulator(emulator) => {
                let shared = Limits::emulated(emulator.arch()).shared_bytes;
                host("emulator of the GPU kernels", Some(shared), 1)
            }
            Kind::Gpu(gpu) => gpu.info(),
        }
    }

    /// The driver's ordinal of a GPU; `None` on other devices.
    pub fn ordinal(&self) -> Option<u32> {
        self.as_gpu().map(|gpu| gpu.ordinal)
    }

    /// Whether this is a GPU.
    pub fn is_gpu(&self) -> bool {
        matches!(self.0, Kind::Gpu(_))
    }

    /// Whether this is the CPU backend.
    pub fn is_cpu(&self) -> bool {
        matches!(self.0, Kind::Cpu(_))
    }

    /// Whether this is the emulator.
    pub fn is_emulator(&self) -> bool {
        matches!(self.0, Kind::Emulator(_))
    }

    /// Limits the total bytes of tensors, plans and workspaces of this process on the GPU; `u64::MAX` for no
    /// limit. Existing allocations stay. Memory from a caller's own allocator does not count. No effect on
    /// other devices.
    pub fn limit_memory(&self, bytes: u64) {
        if let Some(gpu) = self.as_gpu() {
            gpu.limit_memory(bytes);
        }
    }

    /// Returns the bytes that tensors, plans and workspaces of this process hold on the GPU; 0 on other
    /// devices.
    pub fn memory_in_use(&self) -> u64 {
        self.as_gpu().map_or(0, |gpu| gpu.memory_in_use())
    }

    /// Returns the memory that is kept for the next allocation to the driver, except memory whose freeing is
    /// queued behind unfinished work.
    ///
    /// # Errors
    /// Errors of the driver.
    pub fn trim_memory(&self) -> Result<()> {
        let Some(gpu) = self.as_gpu() else {
            return Ok(());
        };
        tracing::debug!(target: "convfuse::memory", device = %self, "kept memory goes to the driver");
        gpu.trim_memory()
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.0
    }

    /// Refuses an argument on this device if another is expected.
    pub(crate) fn must_be(&self, expected: &Device, at: At) -> Result<()> {
        if self == expected {
            return Ok(());
        }
        let ((operator, argument), actual) = (at, self.to_string());
        let mut expected = expected.to_string();
        if actual == expected {
            // Two emulators have the same name.
            expected = format!("another {expected}");
        }
        Err(Error::DeviceMismatch {
            operator,
            argument,
            actual,
            expected,
        })
    }

    /// The error for a feature that the device does not have.
    pub(crate) fn without(&self, what: &'static str) -> Error {
        Error::Unsupported {
            device: self.to_string(),
            what,
        }
    }

    fn as_gpu(&self) -> Option<&Arc<Gpu>> {
        match &self.0 {
            Kind::Gpu(gpu) => Some(gpu),
            Kind::Cpu(_) | Kind::Emulator(_) => None,
        }
    }

    /// Returns the bytes of a dense tensor.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] for more bytes than an address space has.
    pub(crate) fn bytes_of(&self, shape: &[usize], dtype: DType) -> Result<usize> {
        // ndarray requires that the product of the non-zero extents does not overflow, even if another extent
        // is 0.
        let product = |product: usize, &extent: &usize| product.checked_mul(extent.max(1));
        let bytes = shape.iter().chain([&dtype.size()]).try_fold(1, product);
        let bytes = bytes.filter(|&bytes| bytes <= isize::MAX as usize);
        let bytes = bytes.ok_or_else(|| self.too_large())?;
        Ok(if shape.contains(&0) { 0 } else { bytes })
    }

    /// The error for a request of more bytes than an address space has.
    pub(crate) fn too_large(&self) -> Error {
        Error::OutOfMemory {
            device: self.to_string(),
            requested: u64::MAX,
            available: "more than any address space".to_owned(),
        }
    }
}

#[cfg(feature = "emulator")]
impl Device {
    /// Makes a new emulator, which runs the GPU's kernels on the CPU, thread by thread, and reports their
    /// faults.
    ///
    /// # Examples
    /// ```
    /// use convfuse::spec::ClampSpec;
    /// use convfuse::{Device, Tensor, ops};
    /// use ndarray::arr1;
    ///
    /// let stream = Device::emulator().stream()?;
    /// let x = Tensor::from_array(&stream, &arr1(&[-1.0f32, 0.5]))?;
    /// let y = ops::clamp(&x, &ClampSpec::new(0.0, 1.0))?; // the GPU's kernel, every access checked
    /// assert_eq!(y.to_array::<f32>()?.into_raw_vec_and_offset().0, [0.0, 0.5]);
    /// # Ok::<(), convfuse::Error>(())
    /// ```
    pub fn emulator() -> Device {
        Device::emulator_with(EmulatorOptions::new())
    }

    /// Makes a new emulator with options.
    pub fn emulator_with(options: EmulatorOptions) -> Device {
        Device(Kind::Emulator(Arc::new(Emulator::new(options))))
    }
}

impl PartialEq for Device {
    /// Returns whether an operator can take tensors of both devices: the same GPU, the CPU, the same
    /// emulator.
    fn eq(&self, other: &Device) -> bool {
        match (&self.0, &other.0) {
            (Kind::Cpu(_), Kind::Cpu(_)) => true,
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
            Kind::Cpu(_) => f.pad("cpu"),
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
