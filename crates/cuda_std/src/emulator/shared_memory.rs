//! The shared memory of a cluster's blocks.
//!
//! All blocks of a cluster have the same allocations at the same offsets, so an address of one block maps to
//! the same variable in another. As on a device, each block has a *window* of addresses: the bits above
//! [`WINDOW`] are the block's rank.

use super::region::{Name, Region};

/// Addresses of one block.
const WINDOW: u32 = 1 << 24;

/// The shared memory of all blocks of the running cluster.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    blocks: u32,
    arrays: Vec<SharedArray>,
    /// Bytes that a block has.
    pub(crate) bytes: u64,
}

/// The dynamic shared memory or a static array.
#[derive(Debug)]
struct SharedArray {
    /// The identity of a static array's symbol.
    key: *const (),
    /// One for each block of the cluster. They do not move until the launch ends.
    regions: Box<[Region]>,
}

impl SharedMemory {
    pub(crate) fn new(blocks: u32) -> Self {
        Self {
            blocks,
            arrays: Vec::new(),
            bytes: 0,
        }
    }

    /// Makes everything uninitialised and unread.
    pub(crate) fn forget(&self) {
        for array in &self.arrays {
            array.regions.iter().for_each(Region::forget);
        }
    }

    /// Allocates behind the existing allocations, in all blocks. Returns the region of block `rank`.
    pub(crate) fn lay_out(
        &mut self,
        key: *const (),
        name: Name,
        bytes: usize,
        rank: u32,
    ) -> *const Region {
        /// Devices reserve the first KiB. Here it catches wrong addresses.
        const FIRST_ADDRESS: usize = 1024;
        const ALIGNMENT: usize = 128;
        self.bytes += bytes as u64;
        let end = self.arrays.last().map_or(FIRST_ADDRESS, |array| {
            array.regions[0].base + array.regions[0].len()
        });
        let start = end.next_multiple_of(ALIGNMENT);
        let region = |rank: u32| {
            let base = start + (rank * WINDOW) as usize;
            Region::new(name, bytes, Some(base)).expect("a few hundred KiB of memory")
        };
        let regions = (0..self.blocks).map(region).collect();
        self.arrays.push(SharedArray { key, regions });
        let array = &self.arrays[self.arrays.len() - 1];
        &raw const array.regions[rank as usize]
    }

    /// The memory of a static array in block `rank`, if it is allocated.
    pub(crate) fn of_symbol(&self, key: *const (), rank: u32) -> Option<*const Region> {
        let array = (self.arrays.iter()).find(|array| std::ptr::eq(array.key, key))?;
        Some(&raw const array.regions[rank as usize])
    }

    /// All regions of a block.
    pub(crate) fn of_block(&self, rank: u32) -> impl Iterator<Item = &Region> {
        (self.arrays.iter()).map(move |array| &array.regions[rank as usize])
    }

    /// The region at `address`, of any block.
    pub(crate) fn at(&self, address: u32) -> Option<&Region> {
        let rank = rank(address);
        if rank >= self.blocks {
            return None;
        }
        let address = address as usize;
        self.of_block(rank)
            .find(|region| region.base <= address && address < region.base + region.len())
    }
}

/// The rank of the block whose window an address is in.
pub(crate) fn rank(address: u32) -> u32 {
    address / WINDOW
}

/// The corresponding address in block `rank`, as by `mapa`.
pub(crate) fn mapped(address: u32, rank: u32) -> u32 {
    address % WINDOW + rank * WINDOW
}
