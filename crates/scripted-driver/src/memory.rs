//! Memory of devices, and pinned memory: both are the host's.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::ptr::with_exposed_provenance_mut;

use crate::outcome::{INVALID_VALUE, OUT_OF_MEMORY, Outcome};
use crate::work::{Handle, Place};

/// What every allocation starts on, and a multiple of what it takes.
const ALIGNMENT: usize = 512;
/// What memory is filled with when it is allocated, and when it is given back.
const FRESH: u8 = 0xcd;
const GONE: u8 = 0xdb;

/// How memory was allocated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Pooled,
    Plain,
    Pinned,
}

/// An allocation, from the call that makes it to the one that gives it back.
pub(crate) struct Block {
    pub(crate) id: u64,
    pub(crate) bytes: usize,
    context: u32,
    kind: Kind,
}

/// Memory that a pool keeps.
struct Spare {
    start: usize,
    /// The allocation that it was last, since the one before may be given back only now.
    id: u64,
    context: u32,
    /// The stream in whose order it was given back.
    stream: Handle,
    /// Whether that stream has come so far.
    done: bool,
}

#[derive(Default)]
pub(crate) struct Memory {
    /// By address, as the host sees it.
    blocks: BTreeMap<usize, Block>,
    /// Whose the memory at an address is, as the device sees it.
    owners: BTreeMap<usize, u64>,
    spare: Vec<Spare>,
    /// What the system gave, by address.
    capacities: BTreeMap<usize, usize>,
    ids: u64,
}

fn layout(capacity: usize) -> Layout {
    Layout::from_size_align(capacity, ALIGNMENT).expect("callers bound the capacity")
}

/// Sets bytes that this library allocated.
pub(crate) fn fill(start: usize, bytes: usize, value: u8) {
    let start: *mut u8 = with_exposed_provenance_mut(start);
    // SAFETY: callers pass ranges of allocations that are there.
    unsafe { start.write_bytes(value, bytes) };
}

impl Memory {
    /// Memory from the system, never given back while blocks are in it.
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

    /// Gives memory back to the system.
    pub(crate) fn release(&mut self, start: usize) {
        let capacity = self.capacities.remove(&start).expect("it was acquired");
        self.owners.remove(&start);
        // SAFETY: `acquire` allocated it with this layout, and no block is in it.
        unsafe { dealloc(with_exposed_provenance_mut(start), layout(capacity)) };
    }

    /// An allocation of a context, whose memory nobody has yet: where it starts, and which it is.
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

    /// An allocation from the system, whose memory is the caller's at once.
    pub(crate) fn allocate(&mut self, bytes: usize, context: u32, kind: Kind) -> Outcome<usize> {
        let start = self.acquire(bytes)?;
        let (start, id) = self.add(start, bytes, context, kind);
        self.take(start, id);
        Ok(start)
    }

    /// An allocation from a pool, which has at most `room` bytes, for work on `stream` from now on.
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
        // What was given back last is taken first.
        let start = match self.spare.iter().rposition(fits) {
            Some(index) => self.spare.remove(index).start,
            None if self.held(context).saturating_add(bytes) <= room => self.acquire(bytes)?,
            None => return Err(OUT_OF_MEMORY),
        };
        Ok(self.add(start, bytes, context, Kind::Pooled))
    }

    /// Ends an allocation, whose memory work may still use; `None` if there is none of this kind.
    pub(crate) fn remove(&mut self, start: usize, kind: Kind) -> Option<Block> {
        let block = self.blocks.remove(&start);
        block.filter(|block| block.kind == kind)
    }

    /// Keeps memory of a pool that goes back in the order of a stream.
    pub(crate) fn keep(&mut self, start: usize, block: &Block, stream: Handle) {
        self.spare.push(Spare {
            start,
            id: block.id,
            context: block.context,
            stream,
            done: false,
        });
    }

    /// The bytes of an allocation from an address on, as the host sees them: their place, and how large the
    /// allocation is.
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

    /// Whether the device sees this allocation at the address.
    pub(crate) fn owns(&self, start: usize, id: u64) -> bool {
        self.owners.get(&start) == Some(&id)
    }

    pub(crate) fn take(&mut self, start: usize, id: u64) {
        self.owners.insert(start, id);
        fill(start, self.capacities[&start], FRESH);
    }

    /// Whether the memory was there to be given back.
    pub(crate) fn give(&mut self, start: usize, id: u64) -> bool {
        let owned = self.owns(start, id);
        self.owners.remove(&start);
        fill(start, self.capacities[&start], GONE);
        for spare in &mut self.spare {
            spare.done |= spare.id == id;
        }
        owned
    }

    /// Leaves the allocations of a context to nobody.
    pub(crate) fn forget(&mut self, context: u32) {
        self.blocks.retain(|_, block| block.context != context);
        self.spare.retain(|spare| spare.context != context);
    }

    fn of(&self, context: u32) -> impl Iterator<Item = (&usize, &Block)> {
        self.blocks
            .iter()
            .filter(move |(_, block)| block.context == context)
    }

    /// How many allocations of a context there are, of the host's memory or of the device's.
    pub(crate) fn count(&self, context: u32, pinned: bool) -> usize {
        let is_it = |block: &Block| (block.kind == Kind::Pinned) == pinned;
        self.of(context).filter(|(_, block)| is_it(block)).count()
    }

    /// Bytes of the device's memory that a context has, and what its pools keep.
    fn held(&self, context: u32) -> usize {
        let blocks = self
            .of(context)
            .filter(|(_, block)| block.kind != Kind::Pinned);
        let spare = (self.spare.iter()).filter(|spare| spare.context == context);
        let starts = (blocks.map(|(start, _)| start)).chain(spare.map(|spare| &spare.start));
        starts.map(|start| self.capacities[start]).sum()
    }

    /// Gives the system what a pool keeps and nothing waits for.
    pub(crate) fn trim(&mut self, context: u32) {
        let is_free = |spare: &mut Spare| spare.context == context && spare.done;
        let gone: Vec<Spare> = self.spare.extract_if(.., is_free).collect();
        gone.iter().for_each(|spare| self.release(spare.start));
    }

    /// Where memory is, if it is still what work was given.
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
