//! The emulator of the GPU's kernels.

#[cfg(feature = "lab")]
use std::collections::BTreeSet;
use std::sync::Arc;
#[cfg(feature = "lab")]
use std::sync::{Mutex, PoisonError};

use cuda_std::emulator::FaultKind;
use cuda_std::{Instance, KernelArgs, LaunchBounds};
use launch_config::{Arch, LaunchShape};

use super::counters::Counters;
use crate::contract::{self, KernelFacts, Limits};
use crate::error::{Error, Result};
use crate::host_memory::affordable;

/// Options of the emulator.
///
/// # Examples
/// ```
/// use convfuse::{Arch, Device, EmulatorOptions};
///
/// let mut options = EmulatorOptions::new();
/// options.seed = Some(7);
/// options.arch = Arch::Sm80;
/// let device = Device::emulator_with(options);
/// assert_eq!(device.properties().arch, Arch::Sm80);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct EmulatorOptions {
    /// Shuffles the order in which threads and blocks run; `None` keeps them in order.
    pub seed: Option<u64>,
    /// The number of steps after which a block counts as hung.
    pub step_limit: Option<u64>,
    /// Whether a signal in a kernel (from an access by a wild pointer, say) becomes an error. Only on Linux
    /// and x86-64. The first launch installs handlers of `SIGSEGV`, `SIGBUS`, `SIGFPE`, `SIGILL` and `SIGURG`
    /// in the process. They stay installed, and pass other signals to the previous handlers.
    ///
    /// By default this is off. The process then keeps its handlers, and a signal in a kernel ends it. A loop
    /// that never calls into `cuda_std` is abandoned instead of interrupted, and the device is lost. In both
    /// cases, accesses through `cuda_std`'s views, which this library's kernels use, are checked.
    pub catch_signals: bool,
    /// The architecture whose kernels run: [`Arch::Sm90`] uses all instructions that the emulator models;
    /// other GPUs run the kernels of [`Arch::Sm80`].
    pub arch: Arch,
}

impl EmulatorOptions {
    /// The defaults: blocks and threads in order, the emulator's own step limit, no signal handlers.
    pub const fn new() -> EmulatorOptions {
        EmulatorOptions {
            seed: None,
            step_limit: None,
            catch_signals: false,
            arch: Arch::Sm90,
        }
    }
}

impl Default for EmulatorOptions {
    fn default() -> Self {
        EmulatorOptions::new()
    }
}

/// Every kernel that an emulator of this process has run, with its architecture.
#[cfg(feature = "lab")]
pub(crate) fn emulated() -> impl std::ops::DerefMut<Target = BTreeSet<(&'static str, &'static str)>>
{
    static EMULATED: Mutex<BTreeSet<(&str, &str)>> = Mutex::new(BTreeSet::new());
    EMULATED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The emulator with its options.
pub(crate) struct Emulator {
    device: cuda_std::emulator::Device,
    options: EmulatorOptions,
}

impl Emulator {
    pub(crate) fn new(options: EmulatorOptions) -> Emulator {
        let device = cuda_std::emulator::Device::new();
        Emulator { device, options }
    }

    /// The architecture whose kernels run.
    pub(crate) fn arch(&self) -> Arch {
        self.options.arch
    }

    /// Checks the launch contract, then runs `kernel`.
    ///
    /// # Safety
    /// The arguments meet the kernel's *Safety* section.
    pub(crate) unsafe fn launch<A: KernelArgs>(
        &self,
        kernel: &Instance<A>,
        shape: &LaunchShape,
        arguments: A,
    ) -> Result<()> {
        let launch = self.checked(&KernelFacts::of(kernel), kernel.bounds(), shape)?;
        // SAFETY: the caller's promise; pointers to a buffer's memory leave this library only as kernel
        // arguments.
        unsafe { self.device.launch_instance(kernel, &launch, arguments)? };
        #[cfg(feature = "lab")]
        emulated().insert((self.arch().kernels().name(), kernel.name()));
        Ok(())
    }

    /// Returns the launch of a kernel, after checking the launch contract.
    fn checked(
        &self,
        kernel: &KernelFacts,
        bounds: LaunchBounds,
        shape: &LaunchShape,
    ) -> Result<cuda_std::emulator::Launch> {
        let cluster = bounds.cluster_blocks.unwrap_or(1);
        let in_clusters = LaunchShape {
            cluster_blocks: shape.cluster_blocks.max(cluster),
            ..*shape
        };
        contract::check(kernel, &Limits::emulated(self.arch()), &in_clusters)?;
        let mut launch = cuda_std::emulator::Launch::default();
        (launch.grid, launch.block) = (shape.grid, shape.block);
        launch.shared_bytes = shape.shared_bytes;
        launch.cluster_blocks = shape.cluster_blocks;
        launch.seed = self.options.seed;
        launch.catch_signals = self.options.catch_signals;
        if let Some(limit) = self.options.step_limit {
            launch.step_limit = limit;
        }
        Ok(launch)
    }
}

/// Host bytes for each byte of the emulator's memory, including its shadow.
const BYTES_OF_A_BYTE: u64 = 7;

/// Elements in the emulator's memory. Dropping them frees the memory and updates the counters.
pub(crate) struct EmulatedBuffer {
    buffer: cuda_std::emulator::Buffer,
    counters: Arc<Counters>,
}

impl EmulatedBuffer {
    pub(crate) fn allocate(
        emulator: &Emulator,
        counters: &Arc<Counters>,
        bytes: usize,
    ) -> Result<EmulatedBuffer> {
        affordable((bytes as u64).saturating_mul(BYTES_OF_A_BYTE))?;
        let buffer = emulator
            .device
            .alloc(bytes)
            .map_err(|fault| match fault.kind {
                FaultKind::OutOfMemory { used, limit, .. } => Error::OutOfMemory {
                    device: "emulator".to_owned(),
                    requested: bytes as u64,
                    available: format!("{used} of at most {limit} in use"),
                },
                _ => fault.into(),
            })?;
        counters.allocated(bytes as u64);
        Ok(EmulatedBuffer {
            buffer,
            counters: Arc::clone(counters),
        })
    }

    pub(crate) fn pointer(&self) -> *mut u8 {
        self.buffer.ptr()
    }

    pub(crate) fn write(&self, offset: usize, source: &[u8]) -> Result<()> {
        Ok(self.buffer.write(offset, source)?)
    }

    pub(crate) fn zero(&self) -> Result<()> {
        Ok(self.buffer.fill(0)?)
    }

    pub(crate) fn read(&self, offset: usize, target: &mut [u8]) -> Result<()> {
        Ok(self.buffer.read(offset, target)?)
    }
}

impl Drop for EmulatedBuffer {
    fn drop(&mut self) {
        let bytes = self.buffer.len();
        tracing::trace!(target: "convfuse::memory", bytes, "memory is given back");
        self.counters.freed(bytes as u64);
    }
}
