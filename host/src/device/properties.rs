//! What a choice between kernels may depend on.

use super::kind::{Device, Kind};
use crate::contract::Limits;

/// What launches in the emulator are made for: enough for a choice between kernels that fill a device and kernels that
/// do not, where it is the batch that decides.
const EMULATED_MULTIPROCESSORS: u32 = 16;

/// The compute capability of the one generation with warpgroup products.
const HOPPER: (u32, u32) = (9, 0);

/// The properties of a device that kernels, tiles and launches are chosen by. A choice takes these and no device, so it
/// can be asked for a device that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceProperties {
    /// Multiprocessors, of which the CPU has one.
    pub multiprocessors: u32,
    /// The most shared memory that a block may have, in bytes; none where there are no blocks.
    pub shared_bytes_per_block: u32,
    /// Whether kernels with clusters and warpgroup products run there.
    pub has_warpgroup_products: bool,
}

const fn gpu(
    multiprocessors: u32,
    shared_kib: u32,
    has_warpgroup_products: bool,
) -> DeviceProperties {
    DeviceProperties {
        multiprocessors,
        shared_bytes_per_block: shared_kib * 1024,
        has_warpgroup_products,
    }
}

impl DeviceProperties {
    /// GPUs by name, for choices on a device that is not there. Shared memory is that of CUDA's table of compute
    /// capabilities (8.0: 163 KiB, 8.6 and 8.9: 99 KiB, from 9.0 on 227 KiB); the kernels with warpgroup products are
    /// Hopper's alone.
    pub const NAMED: [(&str, DeviceProperties); 7] = [
        ("a10", gpu(72, 99, false)),
        ("a100", gpu(108, 163, false)),
        ("l40s", gpu(142, 99, false)),
        ("rtx4090", gpu(128, 99, false)),
        ("h100", gpu(132, 227, true)),
        ("h200", gpu(132, 227, true)),
        ("b200", gpu(148, 227, false)),
    ];
}

impl Device {
    /// What kernels are chosen by.
    pub fn properties(&self) -> DeviceProperties {
        match self.kind() {
            Kind::Cpu(_) => DeviceProperties {
                multiprocessors: 1,
                shared_bytes_per_block: 0,
                has_warpgroup_products: false,
            },
            Kind::Emulator(_) => DeviceProperties {
                multiprocessors: EMULATED_MULTIPROCESSORS,
                shared_bytes_per_block: Limits::EMULATED.shared_bytes,
                has_warpgroup_products: true,
            },
            Kind::Gpu(gpu) => DeviceProperties {
                multiprocessors: gpu.facts().processors,
                shared_bytes_per_block: gpu.limits.shared_bytes,
                has_warpgroup_products: gpu.facts().compute_capability == Some(HOPPER),
            },
        }
    }
}
