//! The emulator of the GPU's kernels.

use std::sync::Arc;

use cuda_std::emulator::FaultKind;
use cuda_std::{Instance, KernelArgs};
use launch_config::{Arch, LaunchShape};

use super::counters::Counters;
use crate::contract::{self, KernelFacts, Limits};
use crate::error::{Error, Result};
use crate::host_memory::affordable;

/// How the emulator runs kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct EmulatorOptions {
    /// Shuffles the order in which threads and blocks run; `None` keeps them in order.
    pub seed: Option<u64>,
    /// Steps after which a block counts as hung.
    pub step_limit: Option<u64>,
    /// Whether what the processor refuses in a kernel (an access through a wild pointer, say) becomes an
    /// error; on Linux and x86-64, nowhere else. For this the first launch puts handlers of `SIGSEGV`,
    /// `SIGBUS`, `SIGFPE`, `SIGILL` and `SIGURG` into the process, which stay, and which leave to the
    /// handlers that were there before what is not the emulator's. Without it (the default) the process keeps
    /// its handlers, and ends where a kernel does such a thing; accesses through `cuda_std`'s views, which
    /// this library's kernels keep to, are checked in either case. A loop that never calls into `cuda_std` is
    /// then not ended but left to itself, and the device is lost.
    pub catch_signals: bool,
    /// The architecture whose kernels run: [`Arch::Sm90`] has all that the emulator models, [`Arch::Sm80`] is
    /// what other GPUs run.
    pub arch: Arch,
}

impl EmulatorOptions {
    /// Blocks and threads in order, the emulator's own step limit, signals left alone.
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

/// The emulator, and how it is to run kernels.
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
    /// The arguments are what the kernel's *Safety* section asks for.
    pub(crate) unsafe fn launch<A: KernelArgs>(
        &self,
        kernel: &Instance<A>,
        shape: &LaunchShape,
        arguments: A,
    ) -> Result<()> {
        let facts = KernelFacts {
            name: kernel.name(),
            max_threads: kernel.bounds().max_threads,
            static_shared_bytes: 0,
        };
        contract::check(&facts, &Limits::EMULATED, shape)?;
        let mut launch = cuda_std::emulator::Launch::default();
        (launch.grid, launch.block) = (shape.grid, shape.block);
        launch.shared_bytes = shape.shared_bytes;
        launch.cluster_blocks = shape.cluster_blocks;
        launch.seed = self.options.seed;
        launch.catch_signals = self.options.catch_signals;
        if let Some(limit) = self.options.step_limit {
            launch.step_limit = limit;
        }
        // SAFETY: the caller's to grant; no pointer to a buffer's memory leaves this library but for kernels.
        unsafe { self.device.launch_instance(kernel, &launch, arguments)? };
        Ok(())
    }
}

/// What a byte of the emulator's memory takes: the byte, and at least as many for what is known of it.
const BYTES_OF_A_BYTE: u64 = 7;

/// Elements in the emulator's memory, which is given back, and forgotten by the counters, on drop.
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
