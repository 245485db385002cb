//! Runs kernels on the CPU.

pub(crate) mod backend;
mod math;

use crate::Kernel;
use std::sync::Arc;

/// What went wrong in a launch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("not implemented")]
pub struct Fault {}

/// A device.
#[derive(Debug, Clone)]
pub struct Device {
    _inner: Arc<()>,
}

/// Memory of a device.
#[derive(Debug)]
pub struct Buffer {
    _inner: Arc<()>,
}

/// The shape of a launch, and how to run it.
#[derive(Debug, Clone)]
pub struct Launch {
    /// Blocks along x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y, z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
    /// Shuffles the order of threads and blocks; `None` keeps the natural one.
    pub seed: Option<u64>,
    /// The most steps (calls into this crate) that the launch may take.
    pub step_limit: u64,
}

impl Default for Launch {
    fn default() -> Self {
        Self {
            grid: [1; 3],
            block: [1; 3],
            shared_bytes: 0,
            seed: None,
            step_limit: 1 << 40,
        }
    }
}

/// What a launch did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Calls into this crate.
    pub steps: u64,
}

impl Device {
    /// A new device.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a stand-in")]
    pub fn new() -> Self {
        Self {
            _inner: Arc::new(()),
        }
    }
    /// Memory.
    pub fn alloc(&self, _bytes: usize) -> Result<Buffer, Fault> {
        Err(Fault {})
    }
    /// Runs `K`.
    pub fn launch<K: Kernel>(&self, _launch: &Launch, _arguments: K::Args) -> Result<Stats, Fault> {
        Err(Fault {})
    }
}

impl Buffer {
    /// The first byte.
    #[must_use]
    pub fn ptr<T>(&self) -> *mut T {
        std::ptr::null_mut()
    }
    /// The size in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        0
    }
    /// Whether the size is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Writes bytes.
    pub fn write(&self, _offset: usize, _bytes: &[u8]) -> Result<(), Fault> {
        Err(Fault {})
    }
    /// Reads bytes.
    pub fn read(&self, _offset: usize, _bytes: &mut [u8]) -> Result<(), Fault> {
        Err(Fault {})
    }
    /// Fills with a byte.
    pub fn fill(&self, _byte: u8) -> Result<(), Fault> {
        Err(Fault {})
    }
}
