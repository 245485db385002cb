//! Descriptions of devices.

use std::fmt;
use std::time::Duration;

use serde::Serializer;

/// A description of a device. It prints as a few aligned lines.
///
/// # Examples
/// ```
/// let info = convfuse::Device::best().info();
/// println!("{info}");
/// assert!(info.processors > 0);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// The device's name.
    pub name: String,
    /// A GPU's compute capability.
    pub compute_capability: Option<(u32, u32)>,
    /// A GPU's streaming multiprocessors, or the number of CPU threads that share the work.
    pub processors: u32,
    /// A GPU's memory.
    pub memory_bytes: Option<u64>,
    /// A GPU's level-2 cache.
    pub l2_bytes: Option<u64>,
    /// The most shared memory of a block.
    pub shared_bytes_per_block: Option<u32>,
    /// The CUDA version that the driver supports.
    pub driver_version: Option<(u32, u32)>,
    /// The architecture of the kernels that the device runs, such as `sm_90a`.
    pub module: Option<&'static str>,
    /// The origin of this build's PTX, in one line that begins with `shipped` for the kernels that the crate
    /// carries, and with `compiled` for kernels that the build compiled.
    pub ptx_origin: &'static str,
    /// The kernels that this build carries.
    pub carried: Vec<Carried>,
    /// Duration of the driver's initialisation in this process.
    #[serde(serialize_with = "seconds_if_any")]
    pub driver_time: Option<Duration>,
    /// Duration of the creation of a GPU's context.
    #[serde(serialize_with = "seconds_if_any")]
    pub context_time: Option<Duration>,
    /// The kernels that a GPU has loaded so far in this process, in order.
    pub kernels: Vec<KernelLoad>,
}

/// Kernels for one architecture that a build carries.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Carried {
    /// `PTX` or `machine code`.
    pub what: &'static str,
    /// The architecture, such as `sm_90a`.
    pub arch: String,
    /// The number of usable kernels. Machine code from other PTX than this build's is not used.
    pub kernels: usize,
    /// The bytes that these kernels take in the program.
    pub bytes: usize,
}

/// A kernel that was loaded onto a GPU.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct KernelLoad {
    /// The kernel's symbol.
    pub kernel: &'static str,
    /// The origin of its machine code.
    pub origin: KernelOrigin,
    /// The duration of the load.
    #[serde(serialize_with = "seconds")]
    pub time: Duration,
}

/// The origin of a kernel's machine code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum KernelOrigin {
    /// The build carries machine code for the kernel.
    Carried {
        /// The architecture of the machine code.
        arch: &'static str,
    },
    /// The cache of an earlier process had the machine code, see [`kernel_cache`](crate::kernel_cache).
    Cached,
    /// The driver compiled the machine code from this build's PTX.
    Compiled,
}

impl fmt::Display for KernelOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KernelOrigin::Carried { arch } => f.pad(&format!("machine code for {arch}")),
            KernelOrigin::Cached => f.pad("cache"),
            KernelOrigin::Compiled => f.pad("compiled from PTX"),
        }
    }
}

fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

fn seconds_if_any<S: Serializer>(
    time: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serde::Serialize::serialize(&time.map(|time| time.as_secs_f64()), serializer)
}

impl fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |what: &str, value: String| writeln!(f, "  {what:<20} {value}");
        let ms = |time: Duration| format!("{:.1} ms", 1e3 * time.as_secs_f64());
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
            let gib = bytes as f64 / f64::from(1 << 30);
            line("memory", format!("{gib:.1} GiB"))?;
        }
        if let Some(bytes) = self.l2_bytes {
            let mib = bytes as f64 / f64::from(1 << 20);
            line("L2 cache", format!("{mib:.1} MiB"))?;
        }
        if let Some(bytes) = self.shared_bytes_per_block {
            line("shared memory/block", format!("{} KiB", bytes / 1024))?;
        }
        if let Some((major, minor)) = self.driver_version {
            let started = self.driver_time.map(ms);
            let started = started.map(|time| format!(", started in {time}"));
            let version = format!("CUDA {major}.{minor}");
            line("driver", version + &started.unwrap_or_default())?;
        }
        if let Some(time) = self.context_time {
            line("context", format!("made in {}", ms(time)))?;
        }
        if let Some(module) = self.module {
            let loaded = self.kernels.len();
            line("kernels", format!("those for {module}, {loaded} loaded"))?;
        }
        line("PTX of this build", self.ptx_origin.to_owned())
    }
}
