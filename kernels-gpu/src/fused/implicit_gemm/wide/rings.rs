//! Rings of slots: their barriers, and whose turn it is.

use cuda_std::mbarrier::Barrier;
use cuda_std::opaque;
use cuda_std::shared::Shared;

use crate::parts::index::div_rem;

/// The barriers of a ring of slots: of each slot one for that it is filled, and one for that it is free.
#[derive(Clone, Copy)]
pub(super) struct Ring {
    pub(super) barriers: Shared<u64>,
    pub(super) first: u32,
    pub(super) slots: u32,
    /// 0 if each slot is filled once, and stays so, else 1.
    pub(super) comes_round: u32,
}

impl Ring {
    #[inline(always)]
    pub(super) unsafe fn init(&self, fillers: u32, readers: u32) {
        let mut slot = 0;
        while slot < self.slots {
            opaque::not_unrolled();
            self.filled(slot).init(fillers);
            self.free(slot).init(readers);
            slot = opaque::to_compiler(slot + 1);
        }
    }

    #[inline(always)]
    pub(super) fn filled(&self, slot: u32) -> Barrier {
        Barrier::at(self.barriers, self.first + 2 * slot)
    }

    #[inline(always)]
    pub(super) fn free(&self, slot: u32) -> Barrier {
        Barrier::at(self.barriers, self.first + 2 * slot + 1)
    }
}

/// The slot that comes next, and the parity of how often the ring has come round, if it does.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    pub(super) slot: u32,
    pub(super) parity: u32,
}

impl Turn {
    pub(super) const FIRST: Self = Self { slot: 0, parity: 0 };

    #[inline(always)]
    pub(super) fn next(self, ring: &Ring) -> Self {
        if self.slot + 1 == ring.slots {
            Self {
                slot: 0,
                parity: self.parity ^ ring.comes_round,
            }
        } else {
            Self {
                slot: self.slot + 1,
                ..self
            }
        }
    }

    /// The one `slots` turns later.
    #[inline(always)]
    pub(super) unsafe fn skip(self, slots: u32, ring: &Ring) -> Self {
        let (rounds, slot) = div_rem(self.slot + slots, ring.slots);
        Self {
            slot,
            parity: self.parity ^ (rounds & ring.comes_round),
        }
    }
}
