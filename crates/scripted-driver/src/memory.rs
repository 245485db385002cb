//! Device memory and pinned memory. Both are host memory.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::ptr::with_exposed_provenance_mut;

use crate::outcome::{INVALID_VALUE, OUT_OF_MEMORY, Outcome};
use crate::work::{Handle, Place};

/// The alignment of allocations, and the unit of their capacities, in bytes.
const ALIGNMENT: usize = 512;
/// Fill patterns of memory, at allocation and at release.
const FRESH: u8 = 0xcd;
const GONE: u8 = 0xdb;

/// How memory was allocated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Pooled,
    Plain,
    Pinned,
}

/// An allocation, from the call that allocates it to the call that releases it.
pub(crate) struct Block {
    pub(crate) id: u64,
    pub(crate) bytes: usize,
    context: u32,
    kind: Kind,
}

/// Memory that a pool keeps for reuse.
struct Spare {
    start: usize,
    /// The last allocation that used the memory. An earlier one may be released only now.
    id: u64,
    context: u32,
    /// The stream in whose order the memory was released.
    stream: Handle,
    /// Whether the stream has executed the release.
    done: bool,
}

#[derive(Default)]
pub(crate) struct Memory {
    /// The allocations by address, in the order of the host's calls.
    blocks: BTreeMap<usize, Block>,
    /// The current owner of the memory at an address, in the order of the device's work.
    owners: BTreeMap<usize, u64>,
    spare: Vec<Spare>,
    /// The sizes of the system's allocations, by address.
    capacities: BTreeMap<usize, usize>,
    ids: u64,
}

fn layout(capacity: usize) -> Layout {
    Layout::from_size_align(capacity, ALIGNMENT).expect("callers bound the capacity")
}

/// Sets bytes of memory that this library allocated.
pub(crate) fn fill(start: usize, bytes: usize, value: u8) {
    let start: *mut u8 = with_exposed_provenance_mut(start);
    // SAFETY: callers pass ranges of live allocations.
    unsafe { start.write_bytes(value, bytes) };
}

impl Memory {
    /// Allocates memory from the system. It is not released while it contains blocks.
    fn acquire(&mut self, bytes: usize) -> Outcome<usize> {
        if bytes == 0 || bytes > 1 << 40 {
            return Err(INVALID_VALUE);
        }
        let capacity = bytes.next_multiple_of(ALIGNMENT);
        // SAFETY: the size is not zero.
        let start = unsafe { alloc(layout(capacity)) }.expose_provenance();
        if start == 0 {
            return Err(OUT_OF_MEMORY);
        }
        self.capacities.insert(start, capacity);
        Ok(start)
    }

    /// Returns memory to the system.
    pub(crate) fn release(&mut self, start: usize) {
        let capacity = self.capacities.remove(&start).expect("it was acquired");
        self.owners.remove(&start);
        // SAFETY: `acquire` allocated it with this layout, and no block is in it.
        unsafe { dealloc(with_exposed_provenance_mut(start), layout(capacity)) };
    }

    /// Adds an allocation of a context whose memory has no owner yet. Returns its start and its number.
    fn add(&mut self, start: usize, bytes: usize, context: u32, kind: Kind) -> (usize, u64) {
        self.ids += 1;
        let id = self.ids;
        let block = Block {
            id,
            bytes,
            context,
            kind,
        };
        self.blocks.insert(start, block);
        (start, id)
    }

    /// Allocates memory from the system. The caller owns it at once.
    pub(crate) fn allocate(&mut self, bytes: usize, context: u32, kind: Kind) -> Outcome<usize> {
        let start = self.acquire(bytes)?;
        let (start, id) = self.add(start, bytes, context, kind);
        self.take(start, id);
        Ok(start)
    }

    /// Allocates memory for work that follows on `stream`, from a pool of at most `room` bytes.
    pub(crate) fn allocate_pooled(
        &mut self,
        bytes: usize,
        context: u32,
        stream: Handle,
        room: usize,
    ) -> Outcome<(usize, u64)> {
        let capacity = bytes.next_multiple_of(ALIGNMENT);
        let fits = |spare: &Spare| {
            let in_order = spare.done || spare.stream == stream;
            spare.context == context && in_order && self.capacities[&spare.start] == capacity
        };
        // Reuses the memory that was released last.
        let start = match self.spare.iter().rposition(fits) {
            Some(index) => self.spare.remove(index).start,
            None if self.held(context).saturating_add(bytes) <= room => self.acquire(bytes)?,
            None => return Err(OUT_OF_MEMORY),
        };
        Ok(self.add(start, bytes, context, Kind::Pooled))
    }

    /// Removes an allocation, whose memory queued work may still use. `None` if there is none of this kind.
    pub(crate) fn remove(&mut self, start: usize, kind: Kind) -> Option<Block> {
        let block = self.blocks.remove(&start);
        block.filter(|block| block.kind == kind)
    }

    /// Keeps memory of a pool that is released in the order of a stream.
    pub(crate) fn keep(&mut self, start: usize, block: &Block, stream: Handle) {
        self.spare.push(Spare {
            start,
            id: block.id,
            context: block.context,
            stream,
            done: false,
        });
    }

    /// Finds bytes of an allocation, in the order of the host's calls. Returns their place, and the size of
    /// the allocation.
    pub(crate) fn place(&self, address: usize, bytes: usize) -> Option<(Place, usize)> {
        let (&start, block) = self.blocks.range(..=address).next_back()?;
        let is_within = address < start + block.bytes && address + bytes <= start + block.bytes;
        let place = Place::Block {
            address,
            start,
            id: block.id,
            pinned: block.kind == Kind::Pinned,
        };
        is_within.then_some((place, block.bytes))
    }

    /// Returns whether this allocation owns the memory at the address, in the order of the device's work.
    pub(crate) fn owns(&self, start: usize, id: u64) -> bool {
        self.owners.get(&start) == Some(&id)
    }

    pub(crate) fn take(&mut self, start: usize, id: u64) {
        self.owners.insert(start, id);
        fill(start, self.capacities[&start], FRESH);
    }

    /// Releases memory. Returns whether the allocation owned it.
    pub(crate) fn give(&mut self, start: usize, id: u64) -> bool {
        let owned = self.owns(start, id);
        self.owners.remove(&start);
        fill(start, self.capacities[&start], GONE);
        for spare in &mut self.spare {
            spare.done |= spare.id == id;
        }
        owned
    }

    /// Forgets the allocations of a context. Their memory is leaked.
    pub(crate) fn forget(&mut self, context: u32) {
        self.blocks.retain(|_, block| block.context != context);
        self.spare.retain(|spare| spare.context != context);
    }

    fn of(&self, context: u32) -> impl Iterator<Item = (&usize, &Block)> {
        self.blocks
            .iter()
            .filter(move |(_, block)| block.context == context)
    }

    /// Returns the number of a context's allocations, of pinned host memory or of device memory.
    pub(crate) fn count(&self, context: u32, pinned: bool) -> usize {
        let is_it = |block: &Block| (block.kind == Kind::Pinned) == pinned;
        self.of(context).filter(|(_, block)| is_it(block)).count()
    }

    /// Returns the bytes of device memory that a context has allocated and that its pools keep.
    fn held(&self, context: u32) -> usize {
        let blocks = self
            .of(context)
            .filter(|(_, block)| block.kind != Kind::Pinned);
        let spare = (self.spare.iter()).filter(|spare| spare.context == context);
        let starts = (blocks.map(|(start, _)| start)).chain(spare.map(|spare| &spare.start));
        starts.map(|start| self.capacities[start]).sum()
    }

    /// Returns a pool's kept memory to the system, unless queued work still uses it.
    pub(crate) fn trim(&mut self, context: u32) {
        let is_free = |spare: &mut Spare| spare.context == context && spare.done;
        let gone: Vec<Spare> = self.spare.extract_if(.., is_free).collect();
        gone.iter().for_each(|spare| self.release(spare.start));
    }

    /// Returns the address of a place, or the address as an error if the memory has another owner now.
    pub(crate) fn address(&self, place: &Place) -> Result<usize, usize> {
        match *place {
            Place::Block {
                address, start, id, ..
            } if !self.owns(start, id) => Err(address),
            Place::Block { address, .. } | Place::Host(address) => Ok(address),
            Place::Staged(ref bytes) => Ok(bytes.as_ptr().expose_provenance()),
        }
    }
}
