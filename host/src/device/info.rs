//! What a device is and can do, for people to read.

use std::fmt;

use super::gpu;
use super::kind::{Device, Kind};
use crate::contract::Limits;

/// What a device is and can do. Printed, it is a few aligned lines.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// The device's name.
    pub name: String,
    /// A GPU's compute capability.
    pub compute_capability: Option<(u32, u32)>,
    /// A GPU's streaming multiprocessors, or the CPU threads that work is spread over.
    pub processors: u32,
    /// A GPU's memory.
    pub memory_bytes: Option<u64>,
    /// A GPU's level-2 cache.
    pub l2_bytes: Option<u64>,
    /// Shared memory that a block can have.
    pub shared_bytes_per_block: Option<u32>,
    /// The CUDA version that the driver supports.
    pub driver_version: Option<(u32, u32)>,
    /// The PTX module in use, such as `sm_90a`.
    pub module: Option<&'static str>,
    /// Where this build's PTX comes from.
    pub ptx_origin: &'static str,
}

impl Device {
    /// What the device is and can do.
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
            ptx_origin: gpu::ptx_origin(),
        };
        match self.kind() {
            Kind::Cpu => host("CPU backend", None, threads),
            Kind::Emulator(_) => {
                let shared = Limits::EMULATED.shared_bytes;
                host("emulator of the GPU kernels", Some(shared), 1)
            }
            Kind::Gpu(gpu) => DeviceInfo {
                name: gpu.facts.name.clone(),
                compute_capability: Some(gpu.facts.compute_capability),
                processors: gpu.facts.multiprocessors,
                memory_bytes: Some(gpu.facts.memory_bytes),
                l2_bytes: Some(gpu.facts.l2_bytes),
                shared_bytes_per_block: Some(gpu.limits.shared_bytes),
                driver_version: Some(gpu.facts.driver_version),
                module: Some(gpu.module_arch()),
                ptx_origin: gpu::ptx_origin(),
            },
        }
    }
}

impl fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |what: &str, value: String| writeln!(f, "  {what:<20} {value}");
        line("device", self.name.clone())?;
        if let Some((major, minor)) = self.compute_capability {
            line("compute capability", format!("{major}.{minor}"))?;
        }
        let processors = if self.compute_capability.is_some() {
            "multiprocessors"
        } else {
            "threads"
        };
        line(processors, self.processors.to_string())?;
        if let Some(bytes) = self.memory_bytes {
            line(
                "memory",
                format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
            )?;
        }
        if let Some(bytes) = self.l2_bytes {
            line(
                "L2 cache",
                format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
            )?;
        }
        if let Some(bytes) = self.shared_bytes_per_block {
            line("shared memory/block", format!("{} KiB", bytes / 1024))?;
        }
        if let Some((major, minor)) = self.driver_version {
            line("driver", format!("CUDA {major}.{minor}"))?;
        }
        if let Some(module) = self.module {
            line("PTX module", module.to_owned())?;
        }
        line("PTX of this build", self.ptx_origin.to_owned())
    }
}
