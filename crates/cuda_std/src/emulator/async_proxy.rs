//! How the asynchronous proxy sees shared memory: what ordinary stores wrote only after a fence.

use std::collections::HashSet;

use super::exec::{Exec, Extension, fail, with};
use super::fault::{FaultKind, Place};
use super::region::Region;
use super::stamp;

/// What the proxy sees of the running cluster.
#[derive(Debug)]
struct Proxy {
    /// For each thread.
    fences: Vec<ProxyFence>,
    /// Segments (stamps without places) in which the proxy itself wrote: that needs no fence.
    own_writes: HashSet<u64>,
}

/// A thread's last fence for the asynchronous proxy: its time, and the block's last barrier before it.
#[derive(Debug, Clone, Default)]
struct ProxyFence {
    time: u64,
    base: u64,
}

impl Extension for Proxy {
    fn new(exec: &Exec) -> Self {
        Self {
            fences: vec![ProxyFence::default(); exec.threads.len()],
            own_writes: HashSet::new(),
        }
    }
}

/// Notes that the proxy writes in this segment.
pub(crate) fn wrote(exec: &mut Exec, segment: u64) {
    exec.extension::<Proxy>().own_writes.insert(segment);
}

/// Makes what the current thread has written visible to the proxy.
pub(crate) fn fence(place: Place) {
    let exec = with();
    exec.tick(place);
    let (time, base, thread) = (exec.next_time(), exec.now.base, exec.thread as usize);
    exec.threads[thread].time = time;
    exec.extension::<Proxy>().fences[thread] = ProxyFence { time, base };
    exec.refresh();
}

/// Checks that whoever wrote the `bytes` bytes at each of these addresses made them visible to the proxy.
pub(crate) fn check(addresses: impl Iterator<Item = u32>, bytes: usize, place: Place) {
    let exec = with();
    let thread = exec.thread as usize;
    for address in addresses {
        // Addresses outside are reported when they are read.
        let Some(region) = exec.shared_at(address) else {
            continue;
        };
        let offset = address as usize - region.base;
        let region: *const Region = region;
        // SAFETY: shared regions live as long as the launch.
        let region = unsafe { &*region };
        let proxy = exec.extension::<Proxy>();
        let (first, last) = (
            offset >> region.shift(),
            (offset + bytes - 1) >> region.shift(),
        );
        for index in first..=last.min((region.len() - 1) >> region.shift()) {
            // SAFETY: `index` is at most that of the region's last byte.
            let write = unsafe { (*region.cell(index)).write };
            let visible = proxy.fences[stamp::thread(write) as usize].time > stamp::time(write)
                || write < proxy.fences[thread].base
                || proxy.own_writes.contains(&(write >> stamp::SEGMENT_SHIFT));
            if write & stamp::BYTES != 0 && !visible {
                let earlier = exec.earlier("write", write);
                let (object, offset) = (region.describe(), (index << region.shift()) as u64);
                fail(
                    place,
                    FaultKind::AsyncProxy {
                        object,
                        offset,
                        earlier,
                    },
                );
            }
        }
    }
}
