//! How the asynchronous proxy sees shared memory: what ordinary stores wrote only after a fence.

use super::exec::{Place, describe, fail, with};
use super::fault::FaultKind;
use super::stamp;

/// A thread's last fence for the asynchronous proxy: its time, and the block's last barrier before it.
#[derive(Debug, Default)]
pub(crate) struct ProxyFence {
    time: u64,
    base: u64,
}

/// Makes what the current thread has written visible to the proxy.
pub(crate) fn fence(place: Place) {
    let exec = with();
    exec.tick(place);
    let (time, base, thread) = (exec.next_time(), exec.now.base, exec.thread as usize);
    let state = &mut exec.threads[thread];
    state.time = time;
    state.proxy_fence = ProxyFence { time, base };
    exec.refresh();
}

/// Checks that whoever wrote the `bytes` bytes at each of these addresses made them visible to the proxy.
pub(crate) fn check(addresses: impl Iterator<Item = u32>, bytes: usize, place: Place) {
    let exec = with();
    let own_base = exec.threads[exec.thread as usize].proxy_fence.base;
    for address in addresses {
        let address = exec.in_window(address);
        // Addresses outside are reported when they are read.
        let Some(region) = exec.shared_at(address) else {
            continue;
        };
        let offset = address as usize - region.base;
        let (first, last) = (
            offset >> region.shift(),
            (offset + bytes - 1) >> region.shift(),
        );
        for index in first..=last.min((region.len() - 1) >> region.shift()) {
            // SAFETY: `index` is at most that of the region's last byte.
            let write = unsafe { (*region.cell(index)).write };
            let fence = &exec.threads[stamp::thread(write) as usize].proxy_fence;
            let visible = fence.time > stamp::time(write)
                || write < own_base
                || exec
                    .mbarriers
                    .bulk_writes
                    .contains(&(write >> stamp::SEGMENT_SHIFT));
            if write & stamp::BYTES != 0 && !visible {
                let earlier = exec.earlier("write", write);
                let (object, offset) = (describe(region), (index << region.shift()) as u64);
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
