//! The launch contract: limits of kernels and devices, checked before a launch.

use cuda_std::{Instance, KernelArgs};
use launch_config::{Arch, LaunchShape};

/// A launch that was refused. Nothing ran.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// More threads than the kernel was compiled for, or than a block can have on the device.
    #[error("{kernel}: block {block:?} has {actual} threads, limit {limit} ({owner})")]
    Threads {
        /// The kernel's symbol.
        kernel: &'static str,
        /// The requested block extents.
        block: [u32; 3],
        /// The number of threads of the block.
        actual: u64,
        /// The largest allowed number of threads.
        limit: u32,
        /// The owner of the limit: kernel or device.
        owner: &'static str,
    },
    /// An extent of the block, the grid or the cluster that is zero or too large.
    #[error("{kernel}: {what} extent {axis} is {actual}, must be 1 to {limit}")]
    Extent {
        /// The kernel's symbol.
        kernel: &'static str,
        /// `block`, `grid` or `cluster`.
        what: &'static str,
        /// `x`, `y` or `z`.
        axis: char,
        /// The requested extent.
        actual: u32,
        /// The largest extent.
        limit: u32,
    },
    /// More shared memory than a block can have.
    #[error(
        "{kernel}: shared memory is {fixed} + {dynamic} bytes (static + dynamic), limit {limit}"
    )]
    SharedMemory {
        /// The kernel's symbol.
        kernel: &'static str,
        /// Bytes of the kernel's static shared memory.
        fixed: u32,
        /// Bytes of dynamic shared memory requested at launch.
        dynamic: u32,
        /// The device's limit for one block.
        limit: u32,
    },
}

/// A device's limits for launches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) threads: u32,
    pub(crate) block: [u32; 3],
    pub(crate) grid: [u32; 3],
    /// The largest number of blocks of a cluster, along x; 1 where no kernel has clusters.
    pub(crate) cluster: u32,
    pub(crate) shared_bytes: u32,
}

impl Limits {
    /// The cluster size in blocks that every device with clusters supports.
    const CLUSTER: u32 = 8;

    /// The largest cluster of an architecture's kernels, in blocks.
    pub(crate) const fn cluster(arch: Arch) -> u32 {
        if arch.has_clusters() {
            Self::CLUSTER
        } else {
            1
        }
    }

    /// Returns the limits of an emulated device of this architecture. They hold for every device from compute
    /// capability 8.0 on; shared memory is that of an A100, an H100 or a B200.
    pub(crate) const fn emulated(arch: Arch) -> Limits {
        let shared_kib = match arch {
            Arch::Sm90 | Arch::Sm100 => 227,
            _ => 163,
        };
        Limits {
            threads: 1024,
            block: [1024, 1024, 64],
            grid: [i32::MAX as u32, 65_535, 65_535],
            cluster: Self::cluster(arch),
            shared_bytes: shared_kib * 1024,
        }
    }
}

/// A kernel's limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KernelFacts {
    pub(crate) name: &'static str,
    pub(crate) max_threads: Option<u32>,
    pub(crate) static_shared_bytes: u32,
}

impl KernelFacts {
    /// The facts of a kernel whose static shared memory is not known.
    pub(crate) fn of<A: KernelArgs>(kernel: &Instance<A>) -> Self {
        Self {
            name: kernel.name(),
            max_threads: kernel.bounds().max_threads,
            static_shared_bytes: 0,
        }
    }
}

/// Refuses a launch beyond the limits of the kernel or the device.
pub(crate) fn check(
    kernel: &KernelFacts,
    limits: &Limits,
    shape: &LaunchShape,
) -> Result<(), LaunchError> {
    let extents = [
        ("block", shape.block, limits.block),
        ("grid", shape.grid, limits.grid),
        (
            "cluster",
            [shape.cluster_blocks, 1, 1],
            [limits.cluster, 1, 1],
        ),
    ];
    for (what, extents, limits) in extents {
        for ((axis, actual), limit) in ['x', 'y', 'z'].into_iter().zip(extents).zip(limits) {
            if actual == 0 || actual > limit {
                return Err(LaunchError::Extent {
                    kernel: kernel.name,
                    what,
                    axis,
                    actual,
                    limit,
                });
            }
        }
    }
    let threads: u64 = shape
        .block
        .iter()
        .map(|&extent| u64::from(extent))
        .product();
    let (limit, owner) = match kernel.max_threads {
        Some(declared) if declared < limits.threads => (declared, "the kernel's max_threads"),
        _ => (limits.threads, "the device's"),
    };
    if threads > u64::from(limit) {
        return Err(LaunchError::Threads {
            kernel: kernel.name,
            block: shape.block,
            actual: threads,
            limit,
            owner,
        });
    }
    let shared = u64::from(kernel.static_shared_bytes) + u64::from(shape.shared_bytes);
    if shared > u64::from(limits.shared_bytes) {
        return Err(LaunchError::SharedMemory {
            kernel: kernel.name,
            fixed: kernel.static_shared_bytes,
            dynamic: shape.shared_bytes,
            limit: limits.shared_bytes,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_the_kernel_and_both_values() {
        let kernel = KernelFacts {
            name: "k",
            max_threads: Some(256),
            static_shared_bytes: 1024,
        };
        let refusal_of = |arch, block, shared_bytes, cluster_blocks| {
            let shape = LaunchShape {
                grid: [i32::MAX as u32, 65_535, 1],
                block,
                shared_bytes,
                cluster_blocks,
            };
            let refused = check(&kernel, &Limits::emulated(arch), &shape).err();
            refused.map_or_else(String::new, |error| error.to_string())
        };
        let refusal = |block, shared_bytes| refusal_of(Arch::Sm90, block, shared_bytes, 1);
        assert_eq!(refusal([16, 16, 1], 226 << 10), "");
        let extent = "k: block extent z is 65, must be 1 to 64";
        assert_eq!(refusal([1, 1, 65], 0), extent);
        let shared = "k: shared memory is 1024 + 232448 bytes (static + dynamic), limit 232448";
        assert_eq!(refusal([32, 1, 1], 227 << 10), shared);
        let cluster = "k: cluster extent x is 9, must be 1 to 8";
        assert_eq!(refusal_of(Arch::Sm90, [32, 1, 1], 0, 8), "");
        assert_eq!(refusal_of(Arch::Sm90, [32, 1, 1], 0, 9), cluster);
        let cluster = "k: cluster extent x is 2, must be 1 to 1";
        assert_eq!(refusal_of(Arch::Sm80, [32, 1, 1], 0, 2), cluster);
        assert_eq!(refusal_of(Arch::Sm80, [32, 1, 1], 162 << 10, 1), "");
        let shared = "k: shared memory is 1024 + 166912 bytes (static + dynamic), limit 166912";
        assert_eq!(refusal_of(Arch::Sm80, [32, 1, 1], 163 << 10, 1), shared);
    }

    /// Every extent may be 1 or its limit, and nothing below or above. The threads of a block are limited by
    /// the device and by the kernel.
    #[test]
    fn extents_and_threads_reach_their_limits() {
        let limits = Limits::emulated(Arch::Sm90);
        let mut kernel = KernelFacts {
            name: "k",
            max_threads: None,
            static_shared_bytes: 0,
        };
        let one = LaunchShape {
            grid: [1; 3],
            block: [1; 3],
            shared_bytes: 0,
            cluster_blocks: 1,
        };
        let fits = |shape: &LaunchShape| check(&kernel, &limits, shape).is_ok();
        for axis in 0..3 {
            for (extent, of_grid) in [(0, false), (1, true), (limits.grid[axis], true)] {
                let mut shape = one;
                shape.grid[axis] = extent;
                assert_eq!(fits(&shape), of_grid, "{shape:?}");
            }
            for (extent, of_block) in [(0, false), (limits.block[axis], true)] {
                let mut shape = one;
                shape.block[axis] = extent;
                assert_eq!(fits(&shape), of_block, "{shape:?}");
                shape.block[axis] = limits.block[axis] + 1;
                assert!(!fits(&shape), "{shape:?}");
            }
        }
        for axis in 1..3 {
            let mut shape = one;
            shape.grid[axis] = limits.grid[axis] + 1;
            assert!(!fits(&shape), "{shape:?}");
        }
        let with = |cluster_blocks| LaunchShape {
            cluster_blocks,
            ..one
        };
        assert_eq!(
            [0, 1, 8, 9].map(|blocks| fits(&with(blocks))),
            [false, true, true, false]
        );
        for (declared, most) in [(None, 1024), (Some(96), 96), (Some(2048), 1024)] {
            kernel.max_threads = declared;
            for (threads, is_allowed) in [(most, true), (most + 1, false), (most + 32, false)] {
                let shape = LaunchShape {
                    block: [1, threads, 1],
                    ..one
                };
                let shape = match threads {
                    1025.. => LaunchShape {
                        block: [threads / 32 + 1, 32, 1],
                        ..shape
                    },
                    _ => shape,
                };
                let is_fine = check(&kernel, &limits, &shape).is_ok();
                assert_eq!(is_fine, is_allowed, "{declared:?} {shape:?}");
            }
        }
    }
}
