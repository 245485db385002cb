//! The shared memory of a cluster's blocks.
//!
//! All blocks of a cluster have the same pieces at the same offsets, so that an address of one
//! names the same place in another. Each block sees its own memory in a *window* of addresses of
//! its own, as on a device: what is above [`WINDOW`] in an address is the block's rank.

use super::region::{Name, Region};

/// Addresses of one block.
const WINDOW: u32 = 1 << 24;

/// The shared memory of all blocks of the running cluster.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    blocks: u32,
    pieces: Vec<Piece>,
    /// Bytes that a block has.
    pub(crate) bytes: u64,
}

/// The dynamic shared memory or a static array.
#[derive(Debug)]
struct Piece {
    /// What a static array's symbol is known by.
    key: *const (),
    /// One for each block of the cluster. They stay where they are until the launch ends.
    regions: Box<[Region]>,
}

impl SharedMemory {
    pub(crate) fn new(blocks: u32) -> Self {
        Self {
            blocks,
            pieces: Vec::new(),
            bytes: 0,
        }
    }

    /// Makes everything uninitialised and unread.
    pub(crate) fn forget(&self) {
        for piece in &self.pieces {
            piece.regions.iter().for_each(Region::forget);
        }
    }

    /// Lays out another piece, behind what is there. That of block `rank`.
    pub(crate) fn lay_out(
        &mut self,
        key: *const (),
        name: Name,
        bytes: usize,
        rank: u32,
    ) -> *const Region {
        /// Devices keep the first KiB for themselves; here it catches confused addresses.
        const FIRST_ADDRESS: usize = 1024;
        const ALIGNMENT: usize = 128;
        self.bytes += bytes as u64;
        let end = self.pieces.last().map_or(FIRST_ADDRESS, |piece| {
            piece.regions[0].base + piece.regions[0].len()
        });
        let start = end.next_multiple_of(ALIGNMENT);
        let region = |rank: u32| {
            let base = start + (rank * WINDOW) as usize;
            Region::new(name, bytes, Some(base)).expect("a few hundred KiB of memory")
        };
        let regions = (0..self.blocks).map(region).collect();
        self.pieces.push(Piece { key, regions });
        let piece = &self.pieces[self.pieces.len() - 1];
        &raw const piece.regions[rank as usize]
    }

    /// The memory of a static array in block `rank`, if it has been laid out.
    pub(crate) fn of_symbol(&self, key: *const (), rank: u32) -> Option<*const Region> {
        let piece = (self.pieces.iter()).find(|piece| std::ptr::eq(piece.key, key))?;
        Some(&raw const piece.regions[rank as usize])
    }

    /// All of a block's memory.
    pub(crate) fn of_block(&self, rank: u32) -> impl Iterator<Item = &Region> {
        (self.pieces.iter()).map(move |piece| &piece.regions[rank as usize])
    }

    /// The memory at `address`, of whatever block.
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

/// The same place in the shared memory of block `rank`, as `mapa` gives it.
pub(crate) fn mapped(address: u32, rank: u32) -> u32 {
    address % WINDOW + rank * WINDOW
}
