//! What a device is and can do, for people to read.

use std::fmt;

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
