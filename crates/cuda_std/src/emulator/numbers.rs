//! Numbers of the threads of a cluster: block after block, `Exec::stride` apart.

use super::exec::Exec;
use super::fault::ThreadId;
use super::stamp;

impl Exec {
    /// The thread of the access with `stamp` in this launch.
    pub(crate) fn thread_of(&self, stamp: u64) -> ThreadId {
        let cluster = self
            .clusters
            .partition_point(|&(start, _)| start <= stamp::time(stamp));
        let first = self.clusters[cluster.saturating_sub(1)].1;
        self.name_thread(first, stamp::thread(stamp))
    }

    /// The thread of this number in the cluster that begins with block `first`.
    fn name_thread(&self, first: [u32; 3], thread: u32) -> ThreadId {
        ThreadId {
            block: beside(first, self.rank_of(thread)),
            thread: self.unflatten(self.in_block(thread)),
        }
    }

    /// The thread of this number in the running cluster.
    pub(crate) fn id_of(&self, thread: u32) -> ThreadId {
        self.name_thread(self.first_block, thread)
    }

    /// The rank of a thread's block in the cluster.
    #[inline]
    pub(crate) fn rank_of(&self, thread: u32) -> u32 {
        thread / self.stride
    }

    /// A thread's number in its block.
    #[inline]
    pub(crate) fn in_block(&self, thread: u32) -> u32 {
        thread % self.stride
    }

    /// Makes `thread` the current thread.
    pub(crate) fn enter(&mut self, thread: u32) {
        self.thread = thread;
        self.rank = self.rank_of(thread);
        self.block_idx = beside(self.first_block, self.rank);
        self.thread_idx = self.unflatten(self.in_block(thread));
        self.refresh();
    }

    fn unflatten(&self, thread: u32) -> [u32; 3] {
        let [x, y, _] = self.block_dim;
        if thread < x {
            return [thread, 0, 0];
        }
        [thread % x, thread / x % y, thread / (x * y)]
    }
}

/// The block of this rank in the cluster that begins with block `first`.
fn beside([x, y, z]: [u32; 3], rank: u32) -> [u32; 3] {
    [x + rank, y, z]
}
