//! The shared memory of a cluster's blocks.
//!
//! All blocks of a cluster have the same pieces at the same offsets, so that an address of one
//! names the same place in another. Each block sees its own memory in a *window* of addresses of
//! its own, as on a device: what is above [`WINDOW`] in an address is the block's rank.

use super::exec::{Exec, Place, fail};
use super::fault::FaultKind;
use super::region::{Name, Region};

/// Addresses of one block.
const WINDOW: u32 = 1 << 24;

/// The dynamic shared memory or a static array.
pub(crate) struct Piece {
    /// What a static array's symbol is known by.
    key: *const (),
    /// One for each block of the cluster. They stay where they are until the launch ends.
    regions: Box<[Region]>,
}

impl Piece {
    pub(crate) fn regions(&self) -> impl Iterator<Item = &Region> {
        self.regions.iter()
    }
}

impl Exec {
    /// Lays out another piece of shared memory, behind what is there. That of the current block.
    pub(crate) fn lay_out(&mut self, key: *const (), name: Name, bytes: usize) -> *const Region {
        /// Devices keep the first KiB for themselves; here it catches confused addresses.
        const FIRST_ADDRESS: usize = 1024;
        const ALIGNMENT: usize = 128;
        self.shared_bytes += bytes as u64;
        let end = self.shared.last().map_or(FIRST_ADDRESS, |piece| {
            piece.regions[0].base + piece.regions[0].len()
        });
        let start = end.next_multiple_of(ALIGNMENT);
        let region = |rank: u32| {
            let base = start + (rank * WINDOW) as usize;
            Region::new(name, bytes, Some(base)).expect("a few hundred KiB of memory")
        };
        let regions = (0..self.cluster_blocks).map(region).collect();
        self.shared.push(Piece { key, regions });
        let piece = &self.shared[self.shared.len() - 1];
        &raw const piece.regions[self.rank as usize]
    }

    /// The memory that a static shared array has in this block, allotted at its first use.
    pub(crate) fn static_shared(
        &mut self,
        key: *const (),
        name: &'static str,
        bytes: usize,
        place: Place,
    ) -> *const Region {
        if let Some(piece) = (self.shared.iter()).find(|piece| std::ptr::eq(piece.key, key)) {
            return &raw const piece.regions[self.rank as usize];
        }
        let (total, limit) = (
            self.shared_bytes + bytes as u64,
            u64::from(crate::shared::MAX_SHARED_BYTES),
        );
        if total > limit {
            fail(
                place,
                FaultKind::SharedMemory {
                    bytes: total,
                    limit,
                },
            );
        }
        self.lay_out(key, Name::Static(name), bytes)
    }

    /// The dynamic shared memory of this block, if the launch gives any.
    pub(crate) fn dynamic_shared(&self) -> Option<&Region> {
        (self.shared_of(self.rank)).find(|region| matches!(region.name, Name::Dynamic))
    }

    fn shared_of(&self, rank: u32) -> impl Iterator<Item = &Region> {
        (self.shared.iter()).map(move |piece| &piece.regions[rank as usize])
    }

    /// This block's shared memory at `address`.
    pub(crate) fn shared_at(&self, address: u32) -> Option<&Region> {
        self.cluster_shared_at(address)
            .filter(|_| address / WINDOW == self.rank)
    }

    /// The shared memory at `address`, of whatever block of the cluster.
    pub(crate) fn cluster_shared_at(&self, address: u32) -> Option<&Region> {
        let rank = address / WINDOW;
        if rank >= self.cluster_blocks {
            return None;
        }
        let address = address as usize;
        self.shared_of(rank)
            .find(|region| region.base <= address && address < region.base + region.len())
    }

    /// The same place in the shared memory of block `rank`, as `mapa` gives it.
    pub(crate) fn mapped(&self, address: u32, rank: u32) -> u32 {
        address % WINDOW + rank * WINDOW
    }

    /// An address as descriptors of `wgmma` hold it, without the block's rank, made whole again.
    pub(crate) fn in_window(&self, address: u32) -> u32 {
        self.mapped(address, self.rank)
    }
}
