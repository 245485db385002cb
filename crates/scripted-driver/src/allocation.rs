//! Allocations and copies.

use std::ffi::{c_int, c_void};

use crate::kind::has_pools;
use crate::memory::Kind;
use crate::outcome::{INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED, put};
use crate::work::{Handle, Place, Work};

driver! {
    fn cuMemPoolCreate(state; pool: *mut Handle, properties: *const c_void) {
        // SAFETY: type, handle type, and a location of type and ordinal come first, each 4 bytes.
        let ordinal = unsafe { *properties.cast::<u32>().add(3) };
        if !has_pools(ordinal) {
            return Err(NOT_SUPPORTED);
        }
        put(pool, state.add(|state| &mut state.pools, ordinal, ()))
    }

    fn cuMemPoolDestroy(state; pool: Handle) {
        state.pools.remove(&pool).map(drop).ok_or(INVALID_HANDLE)
    }

    fn cuMemPoolSetAttribute(state; pool: Handle, attribute: c_int, value: *mut c_void) {
        state.pools.get(&pool).ok_or(INVALID_HANDLE)?;
        // The release threshold, which takes a u64.
        if attribute == 4 && !value.is_null() { Ok(()) } else { Err(INVALID_VALUE) }
    }

    fn cuMemPoolTrimTo(state; pool: Handle, keep: usize) {
        let context = state.pools.get(&pool).ok_or(INVALID_HANDLE)?.context;
        if keep == 0 {
            state.memory.trim(context);
        }
        Ok(())
    }

    fn cuMemAllocFromPoolAsync(
        state; place: *mut u64, bytes: usize, pool: Handle, stream: Handle,
    ) {
        let context = state.pools.get(&pool).ok_or(INVALID_HANDLE)?.context;
        state.must_be_current(context)?;
        if bytes == 0 {
            return Err(INVALID_VALUE);
        }
        let stream = state.stream_outside_of_captures(stream)?;
        let room = state.contexts[&context].room.unwrap_or(usize::MAX);
        let (start, id) = state.memory.allocate_pooled(bytes, context, stream, room)?;
        state.give(stream, Work::Take { start, id })?;
        put(place, start as u64)
    }

    fn cuMemFreeAsync(state; address: u64, stream: Handle) {
        let stream = state.stream_outside_of_captures(stream)?;
        let start = address as usize;
        let block = state.memory.remove(start, Kind::Pooled).ok_or(INVALID_HANDLE)?;
        state.memory.keep(start, &block, stream);
        state.give(stream, Work::Give { start, id: block.id })
    }

    fn cuMemAlloc_v2(state; place: *mut u64, bytes: usize) {
        state.refuse_in_captures(false)?;
        let context = state.current()?;
        put(place, state.memory.allocate(bytes, context, Kind::Plain)? as u64)
    }

    fn cuMemFree_v2(state; address: u64) {
        let start = address as usize;
        let block = state.memory.remove(start, Kind::Plain).ok_or(INVALID_HANDLE)?;
        state.must_not_be_awaited(start, block.id);
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
        let context = state.current()?;
        put(place, state.memory.allocate(bytes, context, Kind::Pinned)?)
    }

    fn cuMemFreeHost(state; start: usize) {
        let block = state.memory.remove(start, Kind::Pinned).ok_or(INVALID_HANDLE)?;
        state.must_not_be_awaited(start, block.id);
        state.memory.release(start);
        Ok(())
    }

    fn cuMemcpyHtoDAsync_v2(state; to: u64, from: usize, bytes: usize, stream: Handle) {
        let to = state.device_place(to, bytes)?;
        let from = match state.memory.place(from, bytes) {
            Some((pinned, _)) => pinned,
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
        if let Some((pinned, _)) = state.memory.place(to, bytes) {
            return state.copy(stream, pinned, from, bytes);
        }
        // A copy to memory that is not pinned is complete when the call returns.
        state.copy(stream, Place::Host(to), from, bytes)?;
        let stream = state.stream_to_use(stream)?;
        state.finish_stream(stream);
        Ok(())
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
