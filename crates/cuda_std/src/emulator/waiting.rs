//! Collective operations and reasons to wait, with their names for messages.

use std::fmt;

use super::fault::Place;
use super::tensor;
use crate::common::{WarpReductionOp, WarpShuffleMode};

/// A warp operation, with the attributes on which its lanes must agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Sync,
    Shuffle(WarpShuffleMode),
    Ballot,
    MatchAny,
    Reduce(WarpReductionOp, bool),
    Ldmatrix { count: u8, transposed: bool },
    StmatrixTransposed,
    Multiply(tensor::Kind),
    SetRegisters(Setting),
}

/// A `setmaxnreg`, with the new number of registers of each thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setting {
    Increase(u32),
    Decrease(u32),
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Increase(count) => write!(f, "setmaxnreg.inc {count}"),
            Self::Decrease(count) => write!(f, "setmaxnreg.dec {count}"),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sync => write!(f, "sync_warp"),
            Self::Shuffle(mode) => write!(f, "warp_shuffle ({mode:?})"),
            Self::Ballot => write!(f, "warp_vote"),
            Self::MatchAny => write!(f, "warp_match"),
            Self::Reduce(op, _) => write!(f, "warp_reduce ({op:?})"),
            Self::Ldmatrix { count, transposed } => {
                write!(
                    f,
                    "ldmatrix_x{count}{}",
                    if *transposed { "_trans" } else { "" }
                )
            }
            Self::StmatrixTransposed => write!(f, "stmatrix_x4_trans"),
            Self::Multiply(kind) => write!(f, "{kind}"),
            Self::SetRegisters(setting) => setting.fmt(f),
        }
    }
}

/// An MMA batch, with the attributes on which the threads of a warpgroup must agree, except for the
/// operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MmaBatch {
    pub(crate) kind: tensor::Kind,
    pub(crate) steps: usize,
    pub(crate) columns: usize,
    /// Whether A is in shared memory.
    pub(crate) shared_a: bool,
    /// The number of Bs, between which groups of eight columns alternate.
    pub(crate) parts: usize,
}

impl fmt::Display for MmaBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.kind.type_name();
        let (steps, columns) = (self.parts * self.steps, self.columns / self.parts);
        let memory = if self.shared_a {
            "shared memory"
        } else {
            "registers"
        };
        write!(
            f,
            "{steps} steps of wgmma m64n{columns}k16 {name}, A in {memory}"
        )
    }
}

/// The reason for which a thread is suspended.
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
    MmaBatch(MmaBatch),
    /// The other threads of the warpgroup, or registers.
    Registers(Setting),
    MemoryBarrier(u32),
    Cluster,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SyncThreads => f.write_str("sync_threads"),
            Self::Barrier(id) => write!(f, "barrier {id}"),
            Self::Lanes(op) => op.fmt(f),
            Self::MmaBatch(what) => what.fmt(f),
            Self::Registers(setting) => setting.fmt(f),
            Self::Cluster => f.write_str("the barrier of the cluster"),
            Self::MemoryBarrier(address) => {
                write!(f, "the mbarrier at shared address {address:#x}")
            }
        }
    }
}
