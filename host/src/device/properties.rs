//! The device properties that a choice of kernels may depend on.

use std::collections::BTreeMap;

use launch_config::{Arch, TensorRates};
use serde::Serialize as _;

use super::kind::{Device, Kind};
use crate::contract::Limits;
use crate::error::{Error, Result};

/// The emulator's number of multiprocessors for the choice of kernels. It is small, so that small test
/// batches can fill the device.
const EMULATED_MULTIPROCESSORS: u32 = 16;

/// The device properties by which kernels, tiles and launches are chosen. Choosing needs no device, so it
/// works for devices that are not present.
///
/// # Examples
/// ```
/// use convfuse::{Arch, Device, DeviceProperties};
///
/// let h200 = DeviceProperties::named("h200")?;
/// assert_eq!((h200.arch, h200.multiprocessors), (Arch::Sm90, 132));
/// println!("{:?}", Device::best().properties());
/// # Ok::<(), convfuse::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[non_exhaustive]
pub struct DeviceProperties {
    /// The architecture, which determines the instructions of kernels.
    #[serde(serialize_with = "name")]
    pub arch: Arch,
    /// Multiprocessors; 1 for the CPU.
    pub multiprocessors: u32,
    /// The most shared memory of a block, in bytes; 0 for the CPU.
    pub shared_bytes_per_block: u32,
    /// The level-2 cache, in bytes, if it is known.
    pub l2_bytes: Option<u64>,
    /// Peak memory bandwidth by the data sheet, in bytes per second, if it is known.
    pub memory_bytes_per_s: Option<u64>,
    /// The rates of the tensor cores, if they are known.
    #[serde(serialize_with = "rates")]
    pub tensor_rates: Option<TensorRates>,
    /// The multiprocessors' boost clock, in Hz, if it is known.
    pub clock_hz: Option<u64>,
}

fn name<S: serde::Serializer>(arch: &Arch, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(arch.name())
}

fn rates<S: serde::Serializer>(
    rates: &Option<TensorRates>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let by_type = rates.map(|rates| BTreeMap::from([("f16", rates.f16), ("tf32", rates.tf32)]));
    by_type.serialize(serializer)
}

/// Returns a GPU from its compute capability, multiprocessors, shared memory per block in KiB, level-2 cache
/// in MiB, memory bandwidth in GB/s and boost clock in MHz.
const fn gpu(
    (major, minor): (u32, u32),
    [multiprocessors, shared_kib, l2_mib]: [u32; 3],
    [gb_per_s, mhz]: [u64; 2],
) -> DeviceProperties {
    let Some(arch) = Arch::of_capability(major, minor) else {
        panic!("there are kernels from compute capability 8.0 on")
    };
    DeviceProperties {
        arch,
        multiprocessors,
        shared_bytes_per_block: shared_kib * 1024,
        l2_bytes: Some((l2_mib as u64) << 20),
        memory_bytes_per_s: Some(gb_per_s * 1_000_000_000),
        tensor_rates: Arch::rates(major, minor),
        clock_hz: Some(mhz * 1_000_000),
    }
}

impl DeviceProperties {
    /// GPUs by name, for choices without the device. Sources: CUDA's table of compute capabilities
    /// for shared memory, NVIDIA's data sheets for the rest (A100: 80 GB SXM; H100 and H200: SXM).
    pub const NAMED: &[(&str, DeviceProperties)] = &[
        ("a10", gpu((8, 6), [72, 99, 6], [600, 1695])),
        ("a100", gpu((8, 0), [108, 163, 40], [2039, 1410])),
        ("l40s", gpu((8, 9), [142, 99, 96], [864, 2520])),
        ("rtx4090", gpu((8, 9), [128, 99, 72], [1008, 2520])),
        ("h100", gpu((9, 0), [132, 227, 50], [3350, 1830])),
        ("h200", gpu((9, 0), [132, 227, 50], [4800, 1830])),
        ("b200", gpu((10, 0), [148, 227, 126], [8000, 1850])),
    ];

    /// Words of a GPU's full name that do not distinguish a device of [`NAMED`](Self::NAMED) from other
    /// models: vendors, and the form factors and memory sizes of these devices.
    const FURTHER_WORDS: &[&str] = &[
        "nvidia", "geforce", "sxm", "sxm4", "sxm5", "24gb", "48gb", "80gb", "141gb", "hbm2e",
        "hbm3", "hbm3e",
    ];

    /// Looks up a device in [`NAMED`](Self::NAMED) by its short name, such as `h100` or `RTX 4090`, or its
    /// full name, such as `NVIDIA H100 80GB HBM3`. Other models, such as `H100 PCIe`, count as unknown.
    ///
    /// # Errors
    /// [`UnknownDevice`](Error::UnknownDevice), which lists the names.
    pub fn named(name: &str) -> Result<DeviceProperties> {
        let lower = name.to_ascii_lowercase();
        let words = lower.split(|letter: char| !letter.is_ascii_alphanumeric());
        let short: String = words
            .filter(|word| !Self::FURTHER_WORDS.contains(word))
            .collect();
        let known = Self::NAMED.iter().find(|(known, _)| *known == short);
        let names: Vec<&str> = Self::NAMED.iter().map(|(name, _)| *name).collect();
        let unknown = || Error::UnknownDevice {
            name: name.to_owned(),
            known: names.join(", "),
        };
        known.map(|&(_, properties)| properties).ok_or_else(unknown)
    }

    /// The properties of an emulated device of this architecture.
    fn emulated(arch: Arch) -> DeviceProperties {
        DeviceProperties {
            arch,
            multiprocessors: EMULATED_MULTIPROCESSORS,
            shared_bytes_per_block: Limits::emulated(arch).shared_bytes,
            l2_bytes: None,
            memory_bytes_per_s: None,
            tensor_rates: None,
            clock_hz: None,
        }
    }

    /// Names the device that has these properties, for a text.
    pub(crate) fn whose(&self) -> String {
        let named = Self::NAMED.iter().find(|(_, known)| known == self);
        match named {
            Some((name, _)) => format!("{name}, by its data sheet"),
            None if *self == Self::emulated(self.arch) => "the emulator, not a GPU".to_owned(),
            None => "a GPU".to_owned(),
        }
    }

    /// Returns a lower bound in seconds for moving these bytes and computing these multiply-adds of 16-bit
    /// operands: the longer of the two times. `None` if the rates are unknown.
    #[must_use]
    pub fn least_s(&self, bytes: u64, multiply_adds: u64) -> Option<f64> {
        let of_cycle = u64::from(self.multiprocessors) * u64::from(self.tensor_rates?.f16);
        let rate = of_cycle * self.clock_hz?;
        let moving = bytes as f64 / self.memory_bytes_per_s? as f64;
        Some(moving.max(multiply_adds as f64 / rate as f64))
    }
}

impl Device {
    /// The properties by which kernels are chosen.
    pub fn properties(&self) -> DeviceProperties {
        match self.kind() {
            Kind::Cpu(_) => DeviceProperties {
                multiprocessors: 1,
                shared_bytes_per_block: 0,
                ..DeviceProperties::emulated(Arch::Sm80)
            },
            Kind::Emulator(emulator) => DeviceProperties::emulated(emulator.arch()),
            Kind::Gpu(gpu) => {
                let facts = gpu.facts();
                let (major, minor) = facts.compute_capability.unwrap_or_default();
                DeviceProperties {
                    // A GPU that is older than every kernel is never opened.
                    arch: Arch::of_capability(major, minor).unwrap_or(Arch::Sm80),
                    multiprocessors: facts.processors,
                    shared_bytes_per_block: gpu.limits.shared_bytes,
                    l2_bytes: facts.l2_bytes,
                    memory_bytes_per_s: gpu.rates.memory_bytes_per_s,
                    tensor_rates: Arch::rates(major, minor),
                    clock_hz: gpu.rates.clock_hz,
                }
            }
        }
    }
}
