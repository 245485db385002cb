//! Memory of devices, and pinned memory.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};

use crate::call::{INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED, OUT_OF_MEMORY, Outcome, put};
use crate::context::has_pools;
use crate::queue::{Place, Work};
use crate::state::{Handle, State};

/// What every allocation starts on, and a multiple of what it takes.
const ALIGNMENT: usize = 512;
/// What memory is filled with when it is allocated, and when it is given back.
pub(crate) const FRESH: u8 = 0xcd;
pub(crate) const GONE: u8 = 0xdb;

/// An allocation, from the call that makes it to the one that gives it back.
pub(crate) struct Block {
    pub(crate) id: u64,
    pub(crate) bytes: usize,
    pub(crate) context: u32,
    pooled: bool,
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

pub(crate) struct Pool {
    pub(crate) context: u32,
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
    pinned: BTreeMap<usize, Block>,
    ids: u64,
}

fn layout(capacity: usize) -> Layout {
    Layout::from_size_align(capacity, ALIGNMENT).expect("callers bound the capacity")
}

/// Sets bytes that this library allocated.
pub(crate) fn fill(start: usize, bytes: usize, value: u8) {
    let start: *mut u8 = std::ptr::with_exposed_provenance_mut(start);
    // SAFETY: callers pass ranges of allocations that are there.
    unsafe { start.write_bytes(value, bytes) };
}

impl Memory {
    fn id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

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

    fn release(&mut self, start: usize) {
        let capacity = self.capacities.remove(&start).expect("it was acquired");
        self.owners.remove(&start);
        // SAFETY: `acquire` allocated it with this layout, and no block is in it.
        unsafe {
            dealloc(
                std::ptr::with_exposed_provenance_mut(start),
                layout(capacity),
            )
        };
    }

    /// The block that an address is in, as the host sees it.
    pub(crate) fn block(&self, address: usize) -> Option<(usize, &Block)> {
        let (&start, block) = self.blocks.range(..=address).next_back()?;
        (address < start + block.bytes).then_some((start, block))
    }

    /// Whether memory is pinned, and by which allocation.
    pub(crate) fn pinned(&self, address: usize) -> Option<(usize, &Block)> {
        let (&start, block) = self.pinned.range(..=address).next_back()?;
        (address < start + block.bytes).then_some((start, block))
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
        self.pinned.retain(|_, block| block.context != context);
        self.spare.retain(|spare| spare.context != context);
    }

    pub(crate) fn blocks_of(&self, context: u32) -> usize {
        let blocks = self.blocks.values();
        blocks.filter(|block| block.context == context).count()
    }

    /// Bytes that blocks of a context have, and what its pools keep.
    pub(crate) fn held(&self, context: u32) -> usize {
        let blocks = (self.blocks.iter()).filter(|(_, block)| block.context == context);
        let spare = (self.spare.iter()).filter(|spare| spare.context == context);
        let starts = (blocks.map(|(start, _)| start)).chain(spare.map(|spare| &spare.start));
        starts.map(|start| self.capacities[start]).sum()
    }

    pub(crate) fn pinned_of(&self, context: u32) -> usize {
        let blocks = self.pinned.values();
        blocks.filter(|block| block.context == context).count()
    }

    /// Gives the system what a pool keeps and nothing waits for.
    fn trim(&mut self, context: u32) {
        let gone: Vec<usize> = self
            .spare
            .extract_if(.., |spare| spare.context == context && spare.done)
            .map(|spare| spare.start)
            .collect();
        for start in gone {
            self.release(start);
        }
    }

    /// A place in a pool's memory, for work on `stream` from now on.
    fn reuse(&mut self, context: u32, stream: Handle, bytes: usize) -> Option<usize> {
        let capacity = bytes.next_multiple_of(ALIGNMENT);
        let fits = |spare: &Spare| {
            let in_order = spare.done || spare.stream == stream;
            spare.context == context && in_order && self.capacities[&spare.start] == capacity
        };
        // What was given back last is taken first.
        let index = self.spare.iter().rposition(fits)?;
        Some(self.spare.remove(index).start)
    }
}

impl State {
    fn add_block(&mut self, start: usize, bytes: usize, pooled: bool) -> Outcome<u64> {
        let (id, context) = (self.memory.id(), self.current()?);
        let block = Block {
            id,
            bytes,
            context,
            pooled,
        };
        self.memory.blocks.insert(start, block);
        Ok(id)
    }

    fn allocate(&mut self, place: *mut u64, bytes: usize, stream: Handle) -> Outcome {
        let context = self.current()?;
        if bytes == 0 {
            return Err(INVALID_VALUE);
        }
        if !has_pools(context) {
            return Err(NOT_SUPPORTED);
        }
        let stream = self.stream_to_use(stream)?;
        self.refuse_in_capture(stream)?;
        let start = match self.memory.reuse(context, stream, bytes) {
            Some(start) => start,
            None if self.has_room(context, bytes) => self.memory.acquire(bytes)?,
            None => return Err(OUT_OF_MEMORY),
        };
        let id = self.add_block(start, bytes, true)?;
        self.give(stream, Work::Take { start, id })?;
        put(place, start as u64)
    }

    /// A range of a device's memory that work is given to use.
    pub(crate) fn device_place(&mut self, address: u64, bytes: usize) -> Outcome<Place> {
        let address = address as usize;
        match self.memory.block(address) {
            Some((start, block)) if address + bytes <= start + block.bytes => Ok(Place::Device {
                address,
                start,
                id: block.id,
            }),
            _ => {
                let what = format!("{bytes} bytes from {address:#x} on are no memory of a device");
                self.violations.push(what);
                Err(INVALID_VALUE)
            }
        }
    }
}

driver! {
    fn cuMemPoolCreate(state; pool: *mut Handle, properties: *const c_void) {
        // SAFETY: type, handle type, and a location of type and ordinal come first, each 4 bytes.
        let ordinal = unsafe { *properties.cast::<u32>().add(3) };
        if !has_pools(ordinal) {
            return Err(NOT_SUPPORTED);
        }
        let handle = state.handle();
        state.pools.insert(handle, Pool { context: ordinal });
        put(pool, handle)
    }

    fn cuMemPoolDestroy(state; pool: Handle) {
        match state.pools.remove(&pool) {
            Some(_) => Ok(()),
            None => Err(state.stale("pool", pool)),
        }
    }

    fn cuMemPoolSetAttribute(state; pool: Handle, attribute: c_int, value: *mut c_void) {
        // The threshold for giving back, which takes a u64.
        if attribute != 4 || value.is_null() {
            return Err(INVALID_VALUE);
        }
        if state.pools.contains_key(&pool) { Ok(()) } else { Err(state.stale("pool", pool)) }
    }

    fn cuMemPoolTrimTo(state; pool: Handle, keep: usize) {
        let context = state.pools.get(&pool).map(|pool| pool.context);
        let context = context.ok_or(INVALID_HANDLE)?;
        if keep == 0 {
            state.memory.trim(context);
        }
        Ok(())
    }

    fn cuMemAllocFromPoolAsync(
        state; place: *mut u64, bytes: usize, pool: Handle, stream: Handle,
    ) {
        let context = state.pools.get(&pool).map(|pool| pool.context);
        state.must_be_current(context.ok_or(INVALID_HANDLE)?)?;
        state.allocate(place, bytes, stream)
    }

    fn cuMemAllocAsync(state; place: *mut u64, bytes: usize, stream: Handle) {
        state.allocate(place, bytes, stream)
    }

    fn cuMemFreeAsync(state; address: u64, stream: Handle) {
        let stream = state.stream_to_use(stream)?;
        state.refuse_in_capture(stream)?;
        let start = address as usize;
        let Some(block) = state.memory.blocks.remove(&start).filter(|block| block.pooled) else {
            return Err(state.stale("allocation of a pool", start));
        };
        let context = block.context;
        state.memory.spare.push(Spare { start, id: block.id, context, stream, done: false });
        state.give(stream, Work::Give { start, id: block.id })
    }

    fn cuMemAlloc_v2(state; place: *mut u64, bytes: usize) {
        state.refuse_in_this_threads_capture()?;
        state.current()?;
        let start = state.memory.acquire(bytes)?;
        let id = state.add_block(start, bytes, false)?;
        state.memory.take(start, id);
        put(place, start as u64)
    }

    fn cuMemFree_v2(state; address: u64) {
        let start = address as usize;
        let Some(block) = state.memory.blocks.remove(&start).filter(|block| !block.pooled) else {
            return Err(state.stale("allocation", start));
        };
        if state.is_awaited(start, block.id) {
            state.violations.push(format!("{start:#x} is freed before work that uses it"));
            state.finish(None, false);
        }
        state.memory.give(start, block.id);
        state.memory.release(start);
        Ok(())
    }

    fn cuMemGetInfo_v2(state; free: *mut usize, total: *mut usize) {
        state.current()?;
        put(free, 63 << 30)?;
        put(total, 64 << 30)
    }

    fn cuMemHostAlloc(state; place: *mut usize, bytes: usize, _flags: u32) {
        let (context, id) = (state.current()?, state.memory.id());
        let start = state.memory.acquire(bytes)?;
        fill(start, bytes, FRESH);
        let block = Block { id, bytes, context, pooled: false };
        state.memory.pinned.insert(start, block);
        put(place, start)
    }

    fn cuMemFreeHost(state; start: usize) {
        let Some(block) = state.memory.pinned.remove(&start) else {
            return Err(state.stale("pinned memory", start));
        };
        if state.is_awaited(start, block.id) {
            state.violations.push(format!("{start:#x} is unpinned before work that uses it"));
            state.finish(None, false);
        }
        state.memory.release(start);
        Ok(())
    }

    fn cuMemcpyHtoDAsync_v2(state; to: u64, from: usize, bytes: usize, stream: Handle) {
        let to = state.device_place(to, bytes)?;
        let from = match state.memory.pinned(from) {
            Some((start, block)) => Place::Pinned { address: from, start, id: block.id },
            None => {
                // SAFETY: the caller passes `bytes` bytes.
                let staged = unsafe { std::slice::from_raw_parts(from as *const u8, bytes) };
                Place::Staged(staged.into())
            }
        };
        state.copy(stream, to, from, bytes)
    }

    fn cuMemcpyDtoHAsync_v2(state; to: usize, from: u64, bytes: usize, stream: Handle) {
        let from = state.device_place(from, bytes)?;
        match state.memory.pinned(to) {
            Some((start, block)) => {
                let to = Place::Pinned { address: to, start, id: block.id };
                state.copy(stream, to, from, bytes)
            }
            None => {
                // To memory that is not pinned the copy is done when the call returns.
                state.copy(stream, Place::Host(to), from, bytes)?;
                let stream = state.stream_to_use(stream)?;
                state.finish_stream(stream);
                Ok(())
            }
        }
    }

    fn cuMemcpyDtoDAsync_v2(state; to: u64, from: u64, bytes: usize, stream: Handle) {
        let (to, from) = (state.device_place(to, bytes)?, state.device_place(from, bytes)?);
        state.copy(stream, to, from, bytes)
    }

    fn cuMemcpyPeerAsync(
        state; to: u64, _target: Handle, from: u64, _origin: Handle, bytes: usize, stream: Handle,
    ) {
        let (to, from) = (state.device_place(to, bytes)?, state.device_place(from, bytes)?);
        state.copy(stream, to, from, bytes)
    }

    fn cuMemsetD8Async(state; to: u64, value: u8, bytes: usize, stream: Handle) {
        let to = state.device_place(to, bytes)?;
        let stream = state.stream_to_use(stream)?;
        state.give(stream, Work::Fill { to, value, bytes })
    }
}

impl State {
    fn copy(&mut self, stream: Handle, to: Place, from: Place, bytes: usize) -> Outcome {
        let stream = self.stream_to_use(stream)?;
        self.log_copy(stream, &to, &from, bytes);
        self.give(stream, Work::Copy { to, from, bytes })
    }
}
