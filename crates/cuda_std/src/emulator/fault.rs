//! Faults of kernels, and their messages.

use std::fmt;
use std::panic::Location;

/// A line of source.
pub(crate) type Place = &'static Location<'static>;

/// The cause and the place of a failed launch, allocation or transfer.
///
/// Its message is one line: kernel, block, thread, source line, the error, and the memory concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// The kernel, if one was running.
    pub kernel: Option<&'static str>,
    /// The thread at fault, if one can be named.
    pub thread: Option<ThreadId>,
    /// The source line of the call at fault.
    pub location: Option<&'static Location<'static>>,
    /// The kind of the failure.
    pub kind: FaultKind,
}

/// A thread of a launch. Exhaustive: its two indices identify it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ThreadId {
    /// The block's index in the grid.
    pub block: [u32; 3],
    /// The thread's index in the block.
    pub thread: [u32; 3],
}

/// Undefined behaviour of a kernel, or an error that ends a launch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultKind {
    /// An index beyond the view.
    #[error("{what}: element {index} of {object}, the view has {len}")]
    OutOfBounds {
        /// The attempted operation.
        what: &'static str,
        /// The memory.
        object: String,
        /// The first element that is outside.
        index: u64,
        /// Elements of the view.
        len: u64,
    },
    /// An access inside the view but outside of the allocation.
    #[error("{what}: bytes {start}..{end} of {object}, which the view wrongly claims to have")]
    OutsideAllocation {
        /// The attempted operation.
        what: &'static str,
        /// The memory.
        object: String,
        /// The first byte accessed, relative to the memory's start.
        start: i64,
        /// One past the last byte accessed.
        end: i64,
    },
    /// An address that is not a multiple of the access's size.
    #[error(
        "{what}: byte {offset} of {object}, an access of {bytes} bytes must start at a multiple of {bytes}"
    )]
    Misaligned {
        /// The attempted operation.
        what: &'static str,
        /// The memory.
        object: String,
        /// The first byte accessed.
        offset: u64,
        /// Bytes of the access.
        bytes: u64,
    },
    /// A read of bytes that were never written.
    #[error("{what}: byte {offset} of {object} is uninitialised")]
    Uninitialized {
        /// The attempted operation.
        what: &'static str,
        /// The memory.
        object: String,
        /// The first byte that was never written.
        offset: u64,
    },
    /// Two unordered accesses to the same bytes by different threads, at least one a write and not both
    /// atomic.
    #[error("data race: {what} of byte {offset} of {object}, unordered with the {earlier}")]
    Race {
        /// The later access.
        what: &'static str,
        /// The memory.
        object: String,
        /// The byte.
        offset: u64,
        /// The earlier access.
        earlier: Box<Earlier>,
    },
    /// An access to the target of a copy in flight, or a write to the source of a copy or to operands of
    /// an MMA batch of `wgmma` in flight.
    #[error("{what}: byte {offset} of {object} is in flight, started by the {earlier}")]
    InFlight {
        /// The attempted operation.
        what: &'static str,
        /// The memory.
        object: String,
        /// The byte.
        offset: u64,
        /// The copy or the MMA batch.
        earlier: Box<Earlier>,
    },
    /// A read-only load of bytes that this launch has written.
    #[error(
        "read-only load: byte {offset} of {object} was written in this launch, by the {earlier}"
    )]
    ReadonlyWritten {
        /// The memory.
        object: String,
        /// The byte.
        offset: u64,
        /// The write.
        earlier: Box<Earlier>,
    },
    /// An asynchronous instruction that reads the bytes of ordinary stores without a proxy fence between the
    /// two.
    #[error(
        "asynchronous read: byte {offset} of {object} was not made visible by async_proxy::fence_shared after the {earlier}"
    )]
    AsyncProxy {
        /// The memory.
        object: String,
        /// The byte.
        offset: u64,
        /// The ordinary store.
        earlier: Box<Earlier>,
    },
    /// An access to the shared memory of another block of the cluster that is not ordered after that block's
    /// start.
    #[error("{what} in the shared memory of block {rank} of the cluster, which may not have begun")]
    BlockNotBegun {
        /// The attempted operation.
        what: &'static str,
        /// The other block's place in the cluster.
        rank: u32,
    },
    /// An access to the shared memory of another block of the cluster that is not ordered before that block's
    /// end.
    #[error("{what} in the shared memory of block {rank} of the cluster, which may have ended")]
    BlockEnded {
        /// The attempted operation.
        what: &'static str,
        /// The other block's place in the cluster.
        rank: u32,
    },
    /// Threads wait, and none can run.
    #[error("{what} never completes: {detail}")]
    Deadlock {
        /// The operation that the threads wait for.
        what: String,
        /// The threads that wait, and those that are missing.
        detail: String,
    },
    /// A barrier used against its rules.
    #[error("barrier: {0}")]
    Barrier(String),
    /// A warp operation whose lanes do not all arrive, or disagree.
    #[error("{op}: {problem}")]
    Warp {
        /// The operation.
        op: String,
        /// The problem with its lanes.
        problem: String,
    },
    /// An argument that the instruction does not allow.
    #[error("{0}")]
    Argument(String),
    /// The launch took more steps than its limit.
    #[error("no end after {limit} steps")]
    StepLimit {
        /// The launch's limit.
        limit: u64,
    },
    /// A thread that computes endlessly without calling into this crate.
    #[error(
        "a thread has computed for {seconds} s of processor time without a call, as an endless loop does"
    )]
    NoProgress {
        /// The launch's limit.
        seconds: u64,
    },
    /// The kernel panicked.
    #[error("panic: {0}")]
    Panic(String),
    /// The kernel needs more stack than emulated threads have.
    #[error("the thread's stack of {bytes} bytes is used up")]
    StackOverflow {
        /// Bytes of a thread's stack.
        bytes: usize,
    },
    /// The kernel accessed memory by a raw pointer, and the processor raised a signal.
    #[error(
        "the processor refused an access or an instruction (signal {signal}); raw pointers are not checked"
    )]
    Signal {
        /// The signal's number.
        signal: i32,
    },
    /// A launch that no device accepts.
    #[error("launch: {0}")]
    Launch(String),
    /// More shared memory than a block can have.
    #[error("shared memory: {bytes} bytes, limit {limit}")]
    SharedMemory {
        /// Bytes that the block asks for.
        bytes: u64,
        /// Bytes that it can have.
        limit: u64,
    },
    /// More global memory than the device has.
    #[error("out of device memory: {bytes} bytes more than {used} in use, limit {limit}")]
    OutOfMemory {
        /// Bytes asked for.
        bytes: u64,
        /// Bytes in use.
        used: u64,
        /// Bytes that the device has.
        limit: u64,
    },
    /// The host has no memory for the shadow of a region, or for the readers of a cell.
    #[error("the host has no memory to note the accesses to {object}")]
    HostMemory {
        /// The allocation.
        object: String,
    },
    /// The device is unusable because a launch on it could not be stopped.
    #[error("the device was lost in an earlier launch that could not be stopped")]
    DeviceLost,
}

/// The earlier one of two conflicting accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Earlier {
    /// `"write"`, `"read"`, `"atomic access"`, `"copy"` or `"MMA batch"`.
    pub what: &'static str,
    /// The thread.
    pub thread: ThreadId,
    /// The source line.
    pub location: Option<&'static Location<'static>>,
}

impl fmt::Display for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([bx, by, bz], [tx, ty, tz]) = (self.block, self.thread);
        write!(f, "block ({bx}, {by}, {bz}), thread ({tx}, {ty}, {tz})")
    }
}

impl fmt::Display for Earlier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}", self.what, self.thread)?;
        match self.location {
            Some(location) => write!(f, " at {location}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(kernel) = self.kernel {
            write!(f, "kernel `{kernel}`: ")?;
        }
        if let Some(thread) = self.thread {
            write!(f, "{thread}: ")?;
        }
        write!(f, "{}", self.kind)?;
        match self.location {
            Some(location) => write!(f, ", at {location}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Fault {}

impl Fault {
    /// A fault outside of any kernel.
    pub(crate) fn on_host(kind: FaultKind) -> Self {
        Self {
            kernel: None,
            thread: None,
            location: None,
            kind,
        }
    }

    /// A fault of a launch that does not start, or cannot be stopped.
    pub(crate) fn of_launch(kernel: &'static str, kind: FaultKind) -> Self {
        Self {
            kernel: Some(kernel),
            ..Self::on_host(kind)
        }
    }
}
