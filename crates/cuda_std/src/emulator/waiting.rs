//! What suspended threads wait for, for messages.

use std::fmt;

use super::chains::Chain;
use super::exec::Place;
use super::lanes::Op;

/// What a suspended thread waits for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wait {
    pub(crate) what: Waiting,
    pub(crate) place: Place,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Waiting {
    SyncThreads,
    Barrier(u32),
    Lanes(Op),
    Chain(Chain),
    MemoryBarrier(u32),
    Cluster,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SyncThreads => f.write_str("sync_threads"),
            Self::Barrier(id) => write!(f, "barrier {id}"),
            Self::Lanes(op) => op.fmt(f),
            Self::Chain(what) => what.fmt(f),
            Self::Cluster => f.write_str("the barrier of the cluster"),
            Self::MemoryBarrier(address) => {
                write!(f, "the mbarrier at shared address {address:#x}")
            }
        }
    }
}
